"""A replica's copy of its master's log, over one connection."""

from __future__ import annotations

from functools import partial
from typing import Final

from litemq.broker.replication.log_session import check_segments, decoded
from litemq.broker.replication.uninterrupted import uninterrupted
from litemq.net.request_channel import Answer, RequestChannel
from litemq.proto.wire_pb2 import FetchLogAnswer, FetchLogRequest, FollowLogAnswer, FollowLogRequest, LogEpoch, Opcode
from litemq.storage.log_copy import LogCopy

__all__ = ["CopySession"]

_CHUNK_BYTES: Final = 4 << 20
_WAIT_MS: Final = 500
_TIMEOUT_S: Final = 5.0


class CopySession:
    """Copies the confirmed log of the master behind ``channel``."""

    def __init__(self, copy: LogCopy, channel: RequestChannel, *, group: str, segment_bytes: int) -> None:
        self._copy = copy
        self._channel = channel
        self._group = group
        self._segment_bytes = segment_bytes

    async def run(self) -> bool:
        """Copy what is confirmed; return whether a store can open the copy.

        If not, its master has not confirmed a snapshot yet: run another session later.
        """
        copy = self._copy
        session = await self._begin()
        while True:
            answer = await self._fetch(session)
            fetched = decoded(FetchLogAnswer(), answer)
            if not answer.attachment:
                return copy.can_finish
            end = await uninterrupted(partial(copy.append, fetched.begin, answer.attachment, fetched.confirm))
            if end < fetched.begin + len(answer.attachment):
                return copy.can_finish  # the rest is not confirmed

    async def _begin(self) -> int:
        copy = self._copy
        asked = FollowLogRequest(
            group=self._group,
            store_id=copy.store_id,
            log_start=copy.start,
            log_end=copy.end,
            epochs=[LogEpoch(number=epoch.number, start=epoch.start_offset) for epoch in copy.epochs],
            copies=True,
        )
        answer = await self._channel.request(Opcode.FOLLOW_LOG, asked.SerializeToString(), timeout=_TIMEOUT_S)
        begun = decoded(FollowLogAnswer(), answer)
        check_segments(begun, self._group, self._segment_bytes)
        if begun.begin != copy.end:
            await uninterrupted(partial(copy.begin_again, begun.begin))
        return begun.session

    async def _fetch(self, session: int) -> Answer:
        copy = self._copy
        asked = FetchLogRequest(
            session=session, received=copy.end, flushed=copy.flushed, max_bytes=_CHUNK_BYTES, wait_ms=_WAIT_MS
        )
        return await self._channel.request(
            Opcode.FETCH_LOG, asked.SerializeToString(), timeout=_WAIT_MS / 1000 + _TIMEOUT_S
        )
