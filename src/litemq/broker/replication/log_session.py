"""A follower's side of replication: one connection to its master, from the handshake on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from litemq.broker.replication.uninterrupted import uninterrupted
from litemq.errors import LiteMQError, LogDivergedError, NotMasterError, ProtocolError, StorageError
from litemq.net.request_channel import Answer, RequestChannel
from litemq.proto.wire_pb2 import (
    FetchLogAnswer,
    FetchLogRequest,
    FollowLogAnswer,
    FollowLogRequest,
    LogEpoch,
    Opcode,
    ReportLogRequest,
)
from litemq.storage.config import with_segment_bytes
from litemq.storage.replica_store import GIVE_UP, ReplicaStore

__all__ = ["CopyNeeded", "LogSession", "check_segments", "decoded"]

M = TypeVar("M", bound=Message)

_IN_FLIGHT: Final = 2  # the master reads the next chunk while this one is appended
_CHUNK_BYTES: Final = 1 << 20  # appending it takes some milliseconds of the event loop
_WAIT_MS: Final = 500
_TIMEOUT_S: Final = 5.0  # of the master, beyond ``_WAIT_MS``
_LEAVE_S: Final = 1.0


class CopyNeeded(NamedTuple):
    """The log cannot be continued: a copy of the master's has to replace it.

    The master may lack the records from ``differs_from`` on. Only after an unclean election, some
    of them are confirmed.
    """

    log_start: int
    segment_bytes: int
    differs_from: int


class LogSession:
    """Follows the master behind ``channel``, on the event loop on which it is created."""

    def __init__(self, store: ReplicaStore, channel: RequestChannel, *, group: str) -> None:
        self._store = store
        self._channel = channel
        self._group = group
        self._number = 0
        self._reported = -1
        self._confirm = 0  # the master's
        self.pause_reads: Callable[[], AbstractContextManager[object]] = nullcontext  # while the log is cut

    async def run(self) -> CopyNeeded:
        """Follow until the connection or the session ends, which raises.

        Return only if the master's log has to be copied first.

        Raises:
            NotMasterError: The other broker is not the master, or was replaced.
            LogDivergedError: Confirmed records would have to be cut off.
            RecordFormatError: The master shipped something that is not the next record.
            StorageError: This store cannot follow.
            NetworkError: The connection failed.
        """
        begun = await self._begin()
        confirmed = self._store.confirm_offset
        gives_up = begun.is_unclean and begun.begin < confirmed
        if begun.must_copy or gives_up:
            differs_from = begun.begin if gives_up else max(begun.begin, confirmed)
            return CopyNeeded(begun.log_start, begun.segment_bytes, differs_from)
        fetches = deque(self._fetch() for _ in range(_IN_FLIGHT))
        try:
            while True:
                self._append(await self._answered(fetches[0]))
                fetches.popleft()
                fetches.append(self._fetch())
        finally:
            for fetch in fetches:
                if not fetch.cancel() and not fetch.cancelled():
                    fetch.exception()  # the first one says why

    async def leave(self) -> None:
        """Let the in-sync set go on without this replica, which is about to stop.

        Return once the set does, or cannot. Until then, ``run`` goes on.
        """
        store = self._store
        asked = ReportLogRequest(
            session=self._number, received=store.log_end, flushed=store.flushed_offset, leaves=True
        )
        if self._number:
            with suppress(LiteMQError):  # then the master drops it when it has not caught up for too long
                await self._channel.request(Opcode.REPORT_LOG, asked.SerializeToString(), timeout=_LEAVE_S)

    async def _begin(self) -> FollowLogAnswer:
        """Shake hands, and cut off what the master does not have."""
        store = self._store
        asked = FollowLogRequest(
            group=self._group,
            store_id=store.store_id,
            log_start=store.log_start,
            log_end=store.log_end,
            epochs=[LogEpoch(number=epoch.number, start=epoch.start_offset) for epoch in store.epochs],
        )
        answer = await self._channel.request(Opcode.FOLLOW_LOG, asked.SerializeToString(), timeout=_TIMEOUT_S)
        begun = decoded(FollowLogAnswer(), answer)
        if begun.epoch < store.last_epoch:
            raise NotMasterError(
                f"{self._channel.address} is the master of epoch {begun.epoch}, but the log has epoch "
                f"{store.last_epoch}: it was replaced"
            )
        check_segments(begun, self._group, store.segment_bytes)
        gives_up = begun.is_unclean and begun.begin < store.confirm_offset
        both_from = max(begun.begin, begun.log_start, store.log_start)  # both logs have records from here on
        if begun.must_copy and not gives_up and both_from < store.confirm_offset:
            raise self._diverged(begun, f"below offset {both_from}")
        if not begun.must_copy and not gives_up:
            self._check_same(begun)
            if begun.begin < store.confirm_offset:
                raise self._diverged(begun, f"from offset {begun.begin} on")
            if begun.begin < store.log_end:
                with self.pause_reads():
                    await uninterrupted(partial(store.cut, begun.begin))
        self._number = begun.session
        return begun

    def _diverged(self, begun: FollowLogAnswer, where: str) -> LogDivergedError:
        store = self._store
        return LogDivergedError(
            f"the log differs from its master's {where}, but everything below {store.confirm_offset} is confirmed. "
            f"It ends at {store.log_end} in epoch {store.last_epoch}, the master's at {begun.log_end} in epoch "
            f"{begun.epoch}. Nothing is removed, and this replica stops. {GIVE_UP}"
        )

    def _check_same(self, begun: FollowLogAnswer) -> None:
        """Raise ``LogDivergedError`` if an epoch had two writers: epochs alone do not show it.

        That happens outside of the protocol only, such as to a directory that was copied.
        """
        if not begun.HasField("checked_crc"):
            return
        mine = self._store.checksum_at(begun.checked_at)
        if mine not in (None, begun.checked_crc):
            raise LogDivergedError(
                f"the record at offset {begun.checked_at} is not the master's, although it has the same epoch: "
                f"another broker wrote this log. Nothing is removed, and this replica stops. {GIVE_UP}"
            )

    # Records --------------------------------------------------------------------------------------

    def _fetch(self) -> asyncio.Future[Answer]:
        store = self._store
        asked = FetchLogRequest(
            session=self._number,
            received=store.log_end,
            flushed=store.flushed_offset,
            max_bytes=_CHUNK_BYTES,
            wait_ms=_WAIT_MS,
        )
        return self._channel.ask(Opcode.FETCH_LOG, asked.SerializeToString())

    async def _answered(self, fetch: asyncio.Future[Answer]) -> Answer:
        try:
            async with asyncio.timeout(_WAIT_MS / 1000 + _TIMEOUT_S):
                return await fetch
        except TimeoutError:
            raise NotMasterError(f"{self._channel.address} did not answer a fetch: it may be replaced") from None

    def _append(self, answer: Answer) -> None:
        store = self._store
        fetched = decoded(FetchLogAnswer(), answer)
        if answer.attachment:
            end = store.append_raw(fetched.begin, answer.attachment)
            store.when_flushed(end, self._on_flushed)
        self._confirm = max(self._confirm, fetched.confirm)
        self._advance()

    def _on_flushed(self, failure: LiteMQError | None) -> None:
        """Report what is on this disk."""
        flushed = self._store.flushed_offset
        if failure is not None or flushed <= self._reported:
            return
        self._reported = flushed
        asked = ReportLogRequest(session=self._number, received=self._store.log_end, flushed=flushed)
        # If it fails, so does a fetch.
        self._channel.call(Opcode.REPORT_LOG, asked.SerializeToString(), b"", lambda *_answer: None)
        self._advance()

    def _advance(self) -> None:
        self._store.confirmation.advance(min(self._confirm, self._store.flushed_offset))


def decoded(message: M, answer: Answer) -> M:
    """Return the header of ``answer`` as ``message``, or raise ``ProtocolError``."""
    try:
        message.ParseFromString(answer.header)
    except DecodeError as error:
        raise ProtocolError(f"invalid answer of a master: {error}") from error
    return message


def check_segments(begun: FollowLogAnswer, group: str, segment_bytes: int) -> None:
    """Raise unless the segments of the master have ``segment_bytes``, too."""
    if begun.segment_bytes != segment_bytes:
        raise StorageError(
            f"the segments of the group {group} have {begun.segment_bytes} bytes, not {segment_bytes}: start this "
            f"replica with an empty data directory and {with_segment_bytes(begun.segment_bytes)}"
        )
