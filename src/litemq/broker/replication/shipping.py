"""The master's side of replication: followers get the log, and their reports confirm it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Final, NamedTuple, Protocol

from litemq.broker.replication.common_end import EpochStart, common_end
from litemq.broker.replication.follow_request import check_follow
from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker, Shortage
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.runtime.throttle import Throttle
from litemq.clock import Clock
from litemq.errors import (
    InvalidArgumentError,
    LiteMQError,
    NotEnoughReplicasError,
    NotMasterError,
    OutdatedStoreError,
    OverloadedError,
    StoreFailedError,
)
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    FetchLogAnswer,
    FetchLogRequest,
    FollowLogAnswer,
    FollowLogRequest,
    Opcode,
    ReportLogRequest,
)
from litemq.storage.log.chunks import Chunk
from litemq.storage.replica_store import OUTDATED, ReplicaStore

__all__ = ["FollowerProgress", "ReplicaNames", "Shipping"]

_MAX_SESSIONS: Final = 64
_MAX_WAITING: Final = 4  # fetches of one session
_MAX_CHUNK_BYTES: Final = 4 << 20
_MAX_WAIT_MS: Final = 30_000
_CONFIRM_DELAY_S: Final = 0.005  # the next records have the confirm offset, too
_BURST_S: Final = 0.1  # of the throttle
_MAX_NAMED: Final = 8  # replicas in a message
_LOG = logging.getLogger(__name__)


class FollowerProgress(NamedTuple):
    """How far a follower is, in log offsets."""

    store_id: bytes
    peer: str
    copies: bool
    shipped: int
    received: int
    flushed: int


class ReplicaNames(Protocol):
    """The replicas of a group."""

    @property
    def names(self) -> Mapping[bytes, str]:
        """The ``broker_id`` of each replica that is known, by store id."""


class _Session:
    """A follower from its handshake until its connection ends, or it begins another session."""

    def __init__(self, caller: Caller, number: int, store_id: bytes, begin: int, *, copies: bool) -> None:
        self.caller = caller
        self.number = number
        self.store_id = store_id
        self.copies = copies
        self.shipped = begin
        self.received = self.flushed = begin
        self.confirm = 0  # the last one that the follower got
        self.waiting: deque[tuple[Frame, FetchLogRequest]] = deque()
        self.is_reading = False  # from the disk, in a thread
        self.is_held = False  # until the follower reads its answers, or the throttle allows more
        self.timer: asyncio.TimerHandle | None = None  # for the first waiting fetch
        self.leaving: Frame | None = None  # the request of a follower that stops


class Shipping:
    """Ships the log of the master of one epoch, on the event loop on which it is created."""

    def __init__(
        self,
        store: ReplicaStore,
        in_sync: InSyncTracker,
        clock: Clock,
        *,
        group: str,
        catch_up_bytes_per_s: int = 0,
        names: ReplicaNames | None = None,
    ) -> None:
        """``catch_up_bytes_per_s`` limits each follower outside the in-sync set; 0: no limit.

        ``names`` is for messages, which otherwise name replicas by their store ids.
        """
        self._store = store
        self._epoch = store.last_epoch
        self._in_sync = in_sync
        self._clock = clock
        self._group = group
        self._catch_up_bytes_per_s = catch_up_bytes_per_s
        self._names = names
        self._throttles: dict[bytes, Throttle] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._numbers = count(1)
        self._sessions: dict[int, _Session] = {}
        self._is_pumping = False  # all sessions, in the next tick
        self._confirm_timer: asyncio.TimerHandle | None = None
        self._is_short = False  # of replicas
        self._is_closed = False
        self.handlers = (
            Handler(Opcode.FOLLOW_LOG, Permission.CLUSTER_REPLICATE, self._follow),
            Handler(Opcode.FETCH_LOG, Permission.CLUSTER_REPLICATE, self._fetch),
            Handler(Opcode.REPORT_LOG, Permission.CLUSTER_REPLICATE, self._report),
        )
        store.on_appended(self._on_appended)
        store.confirmation.on_flushed = self.advance
        store.when_flushed(store.log_end, self._on_flushed)

    @property
    def followers(self) -> list[FollowerProgress]:
        """The connected followers, in the order of their handshakes."""
        return [
            FollowerProgress(each.store_id, each.caller.peer, each.copies, each.shipped, each.received, each.flushed)
            for each in self._sessions.values()
        ]

    # Requests -------------------------------------------------------------------------------------

    def _follow(self, caller: Caller, frame: Frame) -> None:
        asked = parse(FollowLogRequest, frame.header)
        store = self._store
        theirs = check_follow(asked, self._group, store.store_id, self._epoch)
        mine = [EpochStart(epoch.number, epoch.start_offset) for epoch in store.epochs]
        log_start, log_end = store.log_start, store.log_end
        begin = common_end(mine, log_end, theirs, asked.log_end)
        self._check_member(asked.store_id, begin)
        must_copy = begin < log_start or begin < asked.log_start or asked.log_end < log_start
        if asked.copies and (must_copy or begin < asked.log_end):
            begin = log_start  # the copy starts again
        for session in list(self._sessions.values()):
            if session.store_id == asked.store_id:
                self._end(session)
        if len(self._sessions) >= _MAX_SESSIONS:
            raise OverloadedError(f"the master of {self._group} has {_MAX_SESSIONS} followers already", 1000)
        number = next(self._numbers)
        answer = FollowLogAnswer(
            epoch=self._epoch,
            session=number,
            begin=begin,
            log_start=log_start,
            log_end=log_end,
            segment_bytes=store.segment_bytes,
            confirm=store.confirm_offset,
            must_copy=must_copy and not asked.copies,
            is_unclean=begin < asked.log_end and store.is_unclean_from(begin),
        )
        if not answer.must_copy:
            self._sessions[number] = _Session(caller, number, asked.store_id, begin, copies=asked.copies)
            if not asked.copies:
                self._add_check(answer, max(log_start, asked.log_start, _epoch_before(mine, begin)))
                self._in_sync.connected(asked.store_id, number, log_end=log_end, now=self._clock.elapsed_ns())
        caller.answer(frame, answer.SerializeToString())

    def _add_check(self, answer: FollowLogAnswer, offset: int) -> None:
        """Let the follower compare the record at ``offset``, if both logs should have it."""
        crc = self._store.checksum_at(offset) if offset < answer.begin else None
        if crc is not None:
            answer.checked_at, answer.checked_crc = offset, crc

    def _check_member(self, store_id: bytes, begin: int) -> None:
        """Raise if a member of the in-sync set has lost confirmed records: it counts as having all.

        Without its own flush of them, they were not confirmed. So its directory is an older one. It
        may follow once it is no member any more.
        """
        confirmed = self._store.confirm_offset
        if store_id in self._in_sync.current.members and begin < confirmed:
            raise OutdatedStoreError(OUTDATED.format(end=begin, confirmed=confirmed))

    def _fetch(self, caller: Caller, frame: Frame) -> None:
        asked = parse(FetchLogRequest, frame.header)
        session = self._session(caller, asked.session)
        if len(session.waiting) >= _MAX_WAITING:
            raise OverloadedError(f"a follower has at most {_MAX_WAITING} fetches in flight", 0)
        self._note(session, asked.received, asked.flushed)
        session.waiting.append((frame, asked))
        self._pump(session)

    def _report(self, caller: Caller, frame: Frame) -> None:
        asked = parse(ReportLogRequest, frame.header)
        session = self._session(caller, asked.session)
        self._note(session, asked.received, asked.flushed)
        if asked.leaves and session.leaving is None:
            session.leaving = frame
            self._in_sync.leave(session.store_id, session.number)
        else:
            caller.answer(frame, b"")

    def _session(self, caller: Caller, number: int) -> _Session:
        session = self._sessions.get(number)
        if session is None or session.caller is not caller:
            raise NotMasterError("the session of this follower has ended: it must begin another one")
        return session

    # Progress -------------------------------------------------------------------------------------

    def _note(self, session: _Session, received: int, flushed: int) -> None:
        """Note a report. A follower has not received what was not shipped to it."""
        if not flushed <= received <= session.shipped:
            raise InvalidArgumentError(f"received {received}, flushed {flushed}: only {session.shipped} was shipped")
        session.received, session.flushed = received, flushed
        if session.copies:
            return
        now = self._clock.elapsed_ns()
        self._in_sync.reported(
            session.store_id, session.number, received, flushed, log_end=self._store.log_end, now=now
        )
        if flushed > self._store.flushed_offset:  # the follower's disk was faster
            self._store.when_flushed(flushed, self._on_flushed)
        self.advance()
        if self._is_short:
            self.check_replicas()

    def _on_flushed(self, _failure: LiteMQError | None) -> None:
        self.advance()

    def advance(self) -> None:
        """Confirm what the whole in-sync set has flushed."""
        if self._is_closed:
            return
        store = self._store
        store.confirmation.in_sync = self._in_sync.size
        confirmed = self._in_sync.confirmed(store.flushed_offset)
        if confirmed is not None and self._in_sync.is_alone:
            store.confirmation.follow_flusher()
            store.confirmation.receive(store.flushed_offset)
            return
        store.confirmation.hold()
        received = self._in_sync.received(store.flushed_offset, store.log_end)
        if received is not None:
            store.confirmation.receive(received)
        if confirmed is not None and confirmed > store.confirm_offset:
            store.confirmation.advance(confirmed)
            if self._confirm_timer is None:
                self._confirm_timer = self._loop.call_later(_CONFIRM_DELAY_S, self._send_confirm)

    def check_replicas(self) -> None:
        """Refuse durability ``replicas`` while too few members are in sync. Call it periodically.

        Producers that wait for a confirmation get an error, too: their records may last, or not.
        """
        if self._is_closed:
            return
        shortage = self._in_sync.shortage(self._store.confirm_offset, self._clock.elapsed_ns())
        confirmation = self._store.confirmation
        confirmation.not_in_sync = self._names_outside(self._in_sync.counted)
        if shortage is not None:
            error = NotEnoughReplicasError(self._describe(shortage))
            if not self._is_short:
                _LOG.warning("%s", error)
            confirmation.refuse_replicas(error)
        elif self._is_short:
            _LOG.info("the group %s has enough replicas in sync again", self._group)
            confirmation.accept_replicas()
        self._is_short = shortage is not None

    def _describe(self, shortage: Shortage) -> str:
        now_s = self._clock.wall_ms() / 1000
        alive = len(shortage.present)
        are = "replica of {} is" if alive == 1 else "replicas of {} are"
        text = f"{alive} {are.format(self._group)} in sync, but min_in_sync is {shortage.needed}"
        known = self._names.names if self._names is not None else {}
        for store, lag_ns in shortage.missing.items():
            since = datetime.fromtimestamp(now_s - lag_ns / 1e9, UTC)
            name = known.get(store) or f"store {store.hex()}"
            text += f"; {name} has been missing since {since:%Y-%m-%d %H:%M:%S} UTC"
        others = self._names_outside(shortage.present.union(shortage.missing))
        if others:
            text += f"; {'also ' if shortage.missing else ''}not in sync: {others}"
        return f"{text}. Start the missing replicas, add a replica, or send with durability 'disk'"

    def _names_outside(self, stores: frozenset[bytes]) -> str:
        """Return the names of the group's replicas without ``stores``; empty: there are none."""
        known = self._names.names if self._names is not None else {}
        inside = {known.get(store) for store in stores}  # a wiped replica has two stores for a while
        names = sorted({name for store, name in known.items() if store not in stores} - inside)
        more = len(names) - _MAX_NAMED
        return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")

    def propose(self) -> frozenset[bytes] | None:
        """Return the in-sync set that the followers' progress asks for; ``None``: the present one.

        The caller sends it to the cluster store at once: both sets count from now on.
        """
        if self._wanted() is None:
            if self._in_sync.proposed is None:
                self._let_go()
            return None
        self._store.confirmation.hold()  # while this store is alone, its flusher's thread moves the confirm offset
        wanted = self._wanted()
        if wanted is not None:
            self._in_sync.propose(wanted)
        self.advance()
        return wanted

    def _let_go(self) -> None:
        """Answer the followers that stop: they have left the in-sync set, or it needs them."""
        for session in self._sessions.values():
            if session.leaving is not None:
                session.caller.answer(session.leaving, b"")
                session.leaving = None

    def _wanted(self) -> frozenset[bytes] | None:
        store = self._store
        acked = store.confirmation.acked_received
        return self._in_sync.wanted(store.confirm_offset, self._clock.elapsed_ns(), acked_received=acked)

    def settle(self, current: InSyncSet) -> None:
        """The cluster store has ``current``. See ``InSyncTracker.settled``."""
        self._in_sync.settled(current)
        self._store.confirmation.not_in_sync = self._names_outside(self._in_sync.counted)
        self.advance()

    def _send_confirm(self) -> None:
        """Let the followers know the confirm offset, unless records have brought it meanwhile."""
        self._confirm_timer = None
        confirm = self._store.confirm_offset
        for session in self._sessions.values():
            if session.confirm < confirm and session.waiting and not session.is_reading:
                self._answer(session, Chunk(session.shipped, b""))

    # Shipping -------------------------------------------------------------------------------------

    def _on_appended(self) -> None:
        """The log has grown; called by the writing thread."""
        if not self._is_pumping:
            self._is_pumping = True
            if threading.get_ident() == self._thread:
                self._loop.call_soon(self._pump_all)
            else:
                self._loop.call_soon_threadsafe(self._pump_all)

    def _pump_all(self) -> None:
        self._is_pumping = False
        for session in list(self._sessions.values()):
            self._pump(session)

    def _pump(self, session: _Session) -> None:
        """Answer the waiting fetches of ``session`` as far as there are records."""
        store = self._store
        while session.waiting and not session.is_reading and not session.is_held:
            if session.shipped >= store.log_end:
                self._wait(session)
                return
            if self._is_to_wait(session):
                return
            max_bytes = min(max(session.waiting[0][1].max_bytes, 1), _MAX_CHUNK_BYTES)
            try:
                chunk = store.read_hot_chunk(session.shipped, max_bytes)
            except LiteMQError as error:
                self._refuse(session, error)
                return
            if chunk is None:
                session.is_reading = True
                reading = store.read_cold_chunk(session.shipped, max_bytes)
                reading.add_done_callback(lambda done: self._on_read(session, done))
                return
            self._answer(session, chunk)

    def _is_to_wait(self, session: _Session) -> bool:
        """Return whether ``session`` gets no records now; if so, it is pumped again later."""
        if not session.caller.is_writable:
            session.is_held = True
            session.caller.on_writable(lambda: self._release(session))
            return True
        throttle = self._throttle(session)
        wait = throttle.wait_seconds(1, self._clock.elapsed_ns()) if throttle is not None else 0.0
        if wait:
            session.is_held = True
            self._loop.call_later(wait, self._release, session)
        return bool(wait)

    def _throttle(self, session: _Session) -> Throttle | None:
        """Return the throttle of a follower that catches up. It outlives the session."""
        rate, store_id = self._catch_up_bytes_per_s, session.store_id
        if not rate or store_id in self._in_sync.counted:
            self._throttles.pop(store_id, None)
            return None
        if store_id not in self._throttles:
            self._throttles[store_id] = Throttle(rate, rate * _BURST_S, self._clock.elapsed_ns())
        return self._throttles[store_id]

    def _release(self, session: _Session) -> None:
        session.is_held = False
        self._pump(session)

    def _on_read(self, session: _Session, reading: asyncio.Future[Chunk]) -> None:
        session.is_reading = False
        if reading.cancelled() or self._is_closed:
            return
        error = reading.exception()
        if isinstance(error, LiteMQError):
            self._refuse(session, error)
        elif error is not None:
            _LOG.error("reading the log for a follower failed", exc_info=error)
            self._refuse(session, StoreFailedError("the master failed to read its log: see its log"))
        elif session.waiting:
            self._answer(session, reading.result())
            self._pump(session)

    def _answer(self, session: _Session, chunk: Chunk) -> None:
        """Answer the first waiting fetch."""
        frame, _ = session.waiting.popleft()
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None
        session.confirm = self._store.confirm_offset
        if chunk.data:
            session.shipped = chunk.begin + len(chunk.data)
            throttle = self._throttle(session)
            if throttle is not None:
                throttle.tokens -= len(chunk.data)
        header = FetchLogAnswer(begin=chunk.begin, confirm=session.confirm, log_end=self._store.log_end)
        session.caller.answer(frame, header.SerializeToString(), chunk.data)

    def _wait(self, session: _Session) -> None:
        """Answer the first waiting fetch without records when its time is over."""
        if session.timer is None:
            wait_ms = min(session.waiting[0][1].wait_ms, _MAX_WAIT_MS)
            session.timer = self._loop.call_later(wait_ms / 1000, self._on_timeout, session)

    def _on_timeout(self, session: _Session) -> None:
        session.timer = None
        if session.waiting and not session.is_reading:
            self._answer(session, Chunk(session.shipped, b""))
            self._pump(session)

    def _refuse(self, session: _Session, error: LiteMQError) -> None:
        """End a session whose next records cannot be read."""
        _LOG.warning("cannot ship the log to the follower at %s: %s", session.caller.peer, error)
        self._end(session, error)

    # The end --------------------------------------------------------------------------------------

    def _end(self, session: _Session, error: LiteMQError | None = None) -> None:
        self._sessions.pop(session.number, None)
        if session.timer is not None:
            session.timer.cancel()
        self._in_sync.lost(session.store_id, session.number)
        reason = error or NotMasterError("the session of this follower has ended")
        for frame, _ in session.waiting:
            session.caller.refuse(frame, reason)
        session.waiting.clear()
        if session.leaving is not None:
            session.caller.refuse(session.leaving, reason)

    def caller_gone(self, caller: Caller) -> None:
        """End the sessions of ``caller``, whose connection has ended."""
        for session in list(self._sessions.values()):
            if session.caller is caller:
                self._end(session)

    def close(self) -> None:
        """End all sessions: this broker is no longer the master of the epoch."""
        self._is_closed = True
        self._store.on_appended(None)
        self._store.confirmation.on_flushed = lambda: None
        if self._confirm_timer is not None:
            self._confirm_timer.cancel()
        for session in list(self._sessions.values()):
            self._end(session)


def _epoch_before(epochs: Sequence[EpochStart], offset: int) -> int:
    """Return where the last epoch begins that has a record before ``offset``."""
    return max((start for _, start in epochs if start < offset), default=0)
