"""Sends: everything that arrives in one turn of the event loop becomes one append (tick batching).

A batch costs the store about the same whether it has one record or sixty. So requests of many connections that arrive together are
joined; each gets its own answer, and one that is not valid is refused alone. The loop over requests is the broker's hottest: it works on
plain tuples, and looks at a record only where it must.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby
from typing import Final, NamedTuple

import numpy as np

from litemq.broker.caller import Caller
from litemq.broker.config import BrokerLimits
from litemq.broker.fairness import FREE_BYTES, Lines
from litemq.broker.quotas import Quotas
from litemq.errors import (
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    RecordFormatError,
    SequenceGapError,
    StoreFailedError,
    UnsupportedFeatureError,
)
from litemq.format.columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.format.scan import ScanStop, scan
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import SendAnswer, SentEarlier
from litemq.storage.state import QueueKey
from litemq.storage.store import Appended, Store
from litemq.types import DEFAULT_PRIORITY, Durability, MessageType

__all__ = ["Sending"]

# What is looked at in a record before it is appended: delay_time, expire_at, producer_id, sequence; then, behind tag hash and flags,
# type, priority and reliability.
_CLAIMS: Final = struct.Struct(">QQQQ8xBBB")
_CLAIMS_AT: Final = 72
_PLAIN_TYPES: Final = (int(MessageType.NORMAL), int(MessageType.ORDER))
_RETRY_AFTER_MS: Final = 20
_NOT_TOLD: Final = -1
_LOG = logging.getLogger(__name__)

_DISK: Final = int(Durability.DISK)
_REPLICAS: Final = int(Durability.REPLICAS)

Earlier = list[tuple[int, int]]
Request = tuple[Caller, Frame, int]


class _Turn:
    """Requests of one topic that may be appended as far as their claims go, column by column."""

    __slots__ = ("batches", "callers", "counts", "earlier", "frames", "levels", "queue_ids")

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.frames: list[Frame] = []
        self.queue_ids: list[int] = []
        self.batches: list[bytes | memoryview] = []
        self.counts: list[int] = []
        self.levels: list[int] = []
        self.earlier: dict[
            int, Earlier
        ] = {}  # by number of the request: receipts of the records before its batch, appended by an earlier try


class _Claims(NamedTuple):
    """What a request's records say of themselves, taken together."""

    producer_id: int
    sequence: int
    records: int
    level: int


class Sending:
    """Appends for everybody on the event loop that is running when it is made."""

    def __init__(self, store: Store, limits: BrokerLimits, quotas: Quotas, grown: Callable[[list[QueueKey], int], None]) -> None:
        """``grown`` is told which queues have new messages, and up to which log offset."""
        self._store = store
        self._lines = Lines(limits.max_unconfirmed_bytes)
        self._is_behind = False  # somebody waits in line until the disk has caught up
        self._quotas = quotas
        self._grown = grown
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[int, list[Request]] = {}
        self._gathered_bytes = 0
        self._end = 0

    def offer(self, caller: Caller, frame: Frame, topic_id: int, queue_id: int) -> None:
        """Take a request; it is answered once its records are as safe as they ask for. Requests of one caller keep their order."""
        gathered = self._gathered.get(topic_id)
        if gathered is None:
            if not self._gathered:
                self._loop.call_soon(self._append_all)
            gathered = self._gathered[topic_id] = []
        gathered.append((caller, frame, queue_id))
        self._gathered_bytes += len(frame[4])

    def _append_all(self) -> None:
        gathered, self._gathered = self._gathered, {}
        size, self._gathered_bytes = self._gathered_bytes, 0
        unconfirmed = max(0, self._end - self._store.confirm_offset)
        if unconfirmed + size > FREE_BYTES or not self._lines.is_empty:
            gathered = self._in_turn(gathered, unconfirmed)
        self._append_gathered(gathered)
        if not self._lines.is_empty and not self._is_behind:
            self._is_behind = True
            self._store.when_confirmed(self._end, self._confirmed)

    def _append_gathered(self, gathered: dict[int, list[Request]]) -> None:
        for topic_id, requests in gathered.items():
            try:
                self._append_of_topic(topic_id, requests)
            except LiteMQError as error:  # nobody's fault, and so everybody's
                _refuse_all(requests, error)
            except Exception:  # noqa: BLE001  whoever sent waits for an answer
                _LOG.exception("an append failed")
                _refuse_all(requests, StoreFailedError("the broker could not append this, or does not know; its log says why"))

    def _in_turn(self, gathered: dict[int, list[Request]], unconfirmed: int) -> dict[int, list[Request]]:
        """The disk is behind: those that need not wait. Some others stand in line, and the rest are told to come again."""
        now = self._loop.time()
        lines = self._lines
        passing: dict[int, list[Request]] = {}
        for topic_id, requests in gathered.items():
            for caller, frame, queue_id in requests:
                size = len(frame[4])
                if lines.may_pass(caller, size, unconfirmed, now):
                    unconfirmed += size
                    passing.setdefault(topic_id, []).append((caller, frame, queue_id))
                elif not lines.join((caller, frame, topic_id, queue_id)):
                    caller.refuse(frame, self._overloaded(unconfirmed))
        return passing

    def _overloaded(self, unconfirmed: int) -> OverloadedError:
        waiting = (unconfirmed + self._lines.size) / (1 << 20)
        return OverloadedError(f"{waiting:.0f} MiB wait for the disk: send again in {_RETRY_AFTER_MS} ms", _RETRY_AFTER_MS)

    def _confirmed(self, failure: LiteMQError | None) -> None:
        # In a turn of its own: what is appended then may be confirmed at once.
        self._loop.call_soon(self._caught_up, failure)

    def _caught_up(self, failure: LiteMQError | None) -> None:
        """The disk has, or never will: those in line are next."""
        if failure is not None:
            for caller, frame, _, _ in self._lines.clear():
                caller.refuse(frame, failure)
        gathered: dict[int, list[Request]] = {}
        for caller, frame, topic_id, queue_id in self._lines.caught_up(self._loop.time()):
            gathered.setdefault(topic_id, []).append((caller, frame, queue_id))
        self._append_gathered(gathered)
        self._is_behind = not self._lines.is_empty
        if self._is_behind:
            self._store.when_confirmed(self._end, self._confirmed)

    def gone(self, caller: Caller) -> None:
        """Nobody waits for the answers any more: what is not appended yet will not be."""
        self._lines.forget(caller)

    def close(self) -> None:
        """Those in line are told that they were not taken."""
        for caller, frame, _, _ in self._lines.clear():
            caller.refuse(frame, OverloadedError("the broker is stopping: send again", _RETRY_AFTER_MS))

    def _append_of_topic(self, topic_id: int, requests: list[Request]) -> None:
        turn = self._check(topic_id, requests, self._quotas if self._quotas.is_on else None)
        if not turn.frames:
            return
        try:
            self._append(topic_id, turn)
        except (RecordFormatError, InvalidArgumentError) as error:
            if len(turn.frames) == 1:
                turn.callers[0].refuse(turn.frames[0], error)
                return
            # Something of somebody's is not valid. What is refused leaves a gap for what stands behind it, so each is checked anew.
            for request in zip(turn.callers, turn.frames, turn.queue_ids, strict=True):
                self._append_alone(topic_id, request)

    def _append_alone(self, topic_id: int, request: Request) -> None:
        turn = self._check(topic_id, [request], None)
        if turn.frames:
            try:
                self._append(topic_id, turn)
            except (RecordFormatError, InvalidArgumentError) as error:
                request[0].refuse(request[1], error)

    # Checking -----------------------------------------------------------------------------------------------------------------

    def _check(self, topic_id: int, requests: list[Request], quotas: Quotas | None) -> _Turn:
        """Those that may be appended; the others are answered."""
        turn = _Turn()
        tentative: dict[tuple[int, int, int], int] = {}  # the sequences that are expected once those before are appended
        expected_of = self._store.state.producers.expected
        unpack = _CLAIMS.unpack_from
        for caller, frame, queue_id in requests:
            batch: bytes | memoryview = frame[4]
            try:
                if len(batch) >= FIXED_BYTES and int.from_bytes(batch[:4], "big") == len(batch):
                    delay, expiry, producer_id, sequence, kind, priority, level = unpack(batch, _CLAIMS_AT)
                    if delay or expiry or priority != DEFAULT_PRIORITY or kind not in _PLAIN_TYPES or level == _REPLICAS:
                        _check_features(delay, expiry, priority, kind, level)
                    count = 1
                else:
                    producer_id, sequence, count, level = _claims_of_many(frame[4])
                if quotas is not None:
                    quotas.take(caller.client_id, count, len(batch))
                if producer_id:
                    pair = (producer_id, topic_id, queue_id)
                    expected = tentative.get(pair)
                    if expected is None:
                        expected = expected_of(pair)
                    if sequence != expected:
                        if sequence < expected and pair in tentative:
                            # Said twice in one turn: the next one knows where the first went.
                            self.offer(caller, frame, topic_id, queue_id)
                            continue
                        earlier = self._receipts(pair, sequence, count, expected)
                        if len(earlier) == count:
                            self._answer_known(caller, frame, earlier, level)
                            continue
                        turn.earlier[len(turn.frames)] = earlier
                        batch = memoryview(batch)[int(scan(batch, limits=STORED_LIMITS).starts[len(earlier)]) :]
                        tentative[pair] = sequence + count
                        count -= len(earlier)
                    else:
                        tentative[pair] = sequence + count
            except LiteMQError as error:
                caller.refuse(frame, error)
                continue
            turn.callers.append(caller)
            turn.frames.append(frame)
            turn.queue_ids.append(queue_id)
            turn.batches.append(batch)
            turn.counts.append(count)
            turn.levels.append(level)
        return turn

    def _receipts(self, pair: tuple[int, int, int], sequence: int, count: int, expected: int) -> Earlier:
        """Where the first records of a request went, which are known already; raises where it comes too early, or much too late."""
        if sequence > expected:
            raise SequenceGapError(
                f"sequence {sequence} of producer {pair[0]} in queue {pair[2]}: {expected} comes before it and is missing", expected
            )
        earlier: Earlier = []
        for known in range(sequence, min(sequence + count, expected)):
            receipt = self._store.state.producers.receipt(pair, known)
            if receipt is None:
                raise InvalidArgumentError(f"sequence {known} of producer {pair[0]} was sent long ago: its receipt is no longer known")
            earlier.append(receipt)
        return earlier

    def _answer_known(self, caller: Caller, frame: Frame, earlier: Earlier, level: int) -> None:
        """Everything in the request was appended by an earlier try: the receipts of then, once what they promise holds."""

        def tell(failure: LiteMQError | None) -> None:
            if failure is None:
                _answer_with_earlier(caller, frame, earlier, _NOT_TOLD, 0)
            else:
                caller.refuse(frame, failure)

        if level >= Durability.DISK:
            self._store.when_confirmed(max(self._end, self._store.confirm_offset), tell)
        else:
            tell(None)

    # Appending ----------------------------------------------------------------------------------------------------------------

    def _append(self, topic_id: int, turn: _Turn) -> None:
        joined = bytearray().join(turn.batches)
        queue_ids, counts = turn.queue_ids, turn.counts
        is_plain = len(counts) == sum(counts)
        queues = set(queue_ids)
        if len(queues) == 1:
            appended = self._store.append(joined, topic_id, queue_ids[0])
        else:
            appended = self._store.append(joined, topic_id, np.array(queue_ids) if is_plain else np.repeat(queue_ids, counts))
        self._end = appended.end
        offsets: list[int] = appended.queue_offsets.tolist()
        if not is_plain:
            offsets = [offsets[at] for at in accumulate(counts[:-1], initial=0)]
        self._answer(turn, offsets, appended)
        self._grown([QueueKey(topic_id, queue_id) for queue_id in queues], appended.end)

    def _answer(self, turn: _Turn, offsets: list[int], appended: Appended) -> None:
        """Those to whom memory is enough at once, the others when it is confirmed."""
        levels = set(turn.levels)
        if 0 in levels:
            offsets = [offset if level else _NOT_TOLD for offset, level in zip(offsets, turn.levels, strict=True)]
        everybody: Sequence[int] = range(len(offsets))
        now: Sequence[int] = ()
        later: Sequence[int] = ()
        if min(levels) >= _DISK:
            later = everybody
        elif max(levels) < _DISK:
            now = everybody
        else:
            now = [number for number in everybody if turn.levels[number] < _DISK]
            later = [number for number in everybody if turn.levels[number] >= _DISK]
        if now:
            _tell(turn, offsets, appended.store_timestamp, now, None)
        if later:
            self._store.when_confirmed(appended.end, partial(_tell, turn, offsets, appended.store_timestamp, later))


def _refuse_all(requests: list[Request], error: LiteMQError) -> None:
    for caller, frame, _ in requests:
        caller.refuse(frame, error)


def _tell(turn: _Turn, offsets: list[int], store_timestamp: int, whom: Sequence[int], failure: LiteMQError | None) -> None:
    """Answer requests of a turn: those of one caller, which stand together, in one go."""
    callers, frames = turn.callers, turn.frames
    if failure is not None:
        for number in whom:
            callers[number].refuse(frames[number], failure)
        return
    if turn.earlier:
        for number in turn.earlier.keys() & set(whom):
            _answer_with_earlier(callers[number], frames[number], turn.earlier[number], offsets[number], store_timestamp)
        whom = [number for number in whom if number not in turn.earlier]
    for caller, numbers in groupby(whom, callers.__getitem__):
        those = list(numbers)
        caller.answer_sent([frames[number][0] for number in those], [offsets[number] for number in those], store_timestamp)


def _answer_with_earlier(caller: Caller, frame: Frame, earlier: Earlier, queue_offset: int, store_timestamp: int) -> None:
    receipts = [SentEarlier(queue_offset=offset, store_timestamp=time) for offset, time in earlier]
    caller.answer(frame, SendAnswer(queue_offset=queue_offset, store_timestamp=store_timestamp, earlier=receipts).SerializeToString())


def _check_features(delay: int, expiry: int, priority: int, kind: int, level: int) -> None:
    """What this version does not do yet is refused, not ignored."""
    if delay or kind == MessageType.DELAY:
        raise UnsupportedFeatureError("delayed messages are not there yet: send without delay and deliver_at")
    if expiry:
        raise UnsupportedFeatureError("messages that expire are not there yet: send without ttl")
    if level == Durability.REPLICAS:
        raise UnsupportedFeatureError("durability 'replicas' needs replicas, and this broker has none: choose 'disk'")
    if priority != DEFAULT_PRIORITY:
        raise UnsupportedFeatureError(f"priorities are not there yet: send with priority {DEFAULT_PRIORITY}, which is the default")
    if kind not in _PLAIN_TYPES:
        raise UnsupportedFeatureError("transactions and broadcasts are not there yet: send a normal message")


def _claims_of_many(batch: bytes) -> _Claims:
    """The claims of a request with several records; raises where they do not fit together."""
    found = scan(batch, limits=STORED_LIMITS)
    count = found.starts.size
    if found.stop is not ScanStop.END or not count:
        raise RecordFormatError("truncated" if found.stop is ScanStop.INCOMPLETE else "size", found.end, "a request holds whole records")
    header = RecordColumns(batch, found.starts).header
    sequences = header["sequence"].astype(np.uint64)
    producer_id, first = int(header["producer_id"][0]), int(sequences[0])
    if (header["producer_id"] != header["producer_id"][0]).any():
        raise InvalidArgumentError("the records of one request are of one producer")
    if producer_id and (sequences - sequences[0] != np.arange(count, dtype=np.uint64)).any():
        raise InvalidArgumentError("the sequences of one request follow each other")
    _check_features(
        int(header["delay_time"].any()),
        int(header["expire_at"].any()),
        DEFAULT_PRIORITY if (header["priority"] == DEFAULT_PRIORITY).all() else 0,
        _rarest_type(set(header["type"].tolist())),
        int(header["reliability"].max()),
    )
    return _Claims(producer_id, first, count, int(header["reliability"].max()))


def _rarest_type(types: set[int]) -> int:
    return next((kind for kind in types if kind not in _PLAIN_TYPES), MessageType.NORMAL)
