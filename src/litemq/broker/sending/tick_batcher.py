"""Sends: everything that arrives in one turn of the event loop becomes one append (tick batching).

A batch costs the store about the same whether it has one record or sixty. So requests of many connections that arrive together are
joined; each gets its own answer, and one that is not valid is refused alone. The loop over requests is the broker's hottest: it works on
plain tuples, and looks at a record only where it must.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, groupby
from typing import Final

import numpy as np

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.fair_queue import FREE_BYTES, Lines
from litemq.broker.admission.quotas import Quotas
from litemq.broker.admission.record_claims import claims_of, claims_together, priorities_of
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.errors import (
    BacklogFullError,
    DiskFullError,
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    RecordFormatError,
    SequenceGapError,
    StoreFailedError,
)
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import SendAnswer, SentEarlier
from litemq.storage.state import QueueKey
from litemq.storage.store import Appended
from litemq.types import CLOCKS_DIFFER_MS, MOST_DELAY_MS, Durability

__all__ = ["Request", "Sending"]

_RETRY_AFTER_MS: Final = 20
_WORTH_COLUMNS: Final = 8  # requests of a turn: for fewer, each is looked at by itself
_NOT_TOLD: Final = -1
_LOG = logging.getLogger(__name__)

_DISK: Final = int(Durability.DISK)

Earlier = list[tuple[int, int]]
Request = tuple[Caller, Frame, int]


class _Turn:
    """Requests of one topic that may be appended as far as their claims go, column by column."""

    __slots__ = ("batches", "callers", "counts", "delayed", "earlier", "frames", "joined", "levels", "queue_ids")

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.frames: list[Frame] = []
        self.queue_ids: list[int] = []
        self.batches: list[bytes | memoryview] = []
        self.joined: bytearray | None = None  # the batches one behind another, where they are already
        self.counts: list[int] = []
        self.levels: list[int] = []
        # By number of the request: the receipts of the records before its batch, which an earlier try appended.
        self.earlier: dict[int, Earlier] = {}
        # The numbers of the requests in which a record has a due time.
        self.delayed: list[int] = []


class Sending:
    """Appends for everybody on the event loop that is running when it is made."""

    def __init__(self, context: BrokerContext, quotas: Quotas, backlog: Backlog) -> None:
        self._store = context.store
        self._clock = context.clock
        self._events = context.events
        self._backlog = backlog
        self._lines = Lines(context.limits.max_unconfirmed_bytes)
        self._is_behind = False  # somebody waits in line until the disk has caught up
        self._quotas = quotas
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[int, list[Request]] = {}
        self._end = 0

    def of_topic(self, topic_id: int) -> list[Request]:
        """The requests of this turn, to which others may be added: each is answered once its records are as safe as they ask for, and those of
        one caller keep their order."""
        gathered = self._gathered.get(topic_id)
        if gathered is None:
            if not self._gathered:
                self._loop.call_soon(self._append_all)
            gathered = self._gathered[topic_id] = []
        return gathered

    def _append_all(self) -> None:
        gathered, self._gathered = self._gathered, {}
        size = sum([len(frame[4]) for requests in gathered.values() for _, frame, _ in requests])
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
        requests = self._with_room(topic_id, requests)
        turn = None
        if len(requests) >= _WORTH_COLUMNS and not self._quotas.is_on:
            turn = self._check_together(topic_id, requests)
        if turn is None:
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

    def _with_room(self, topic_id: int, requests: list[Request]) -> list[Request]:
        """Those whose queue takes more; the others are refused."""
        topic = self._store.state.topics.get(topic_id)
        if topic is None:
            return requests
        full: dict[int, BacklogFullError] = {}
        for queue_id in {request[2] for request in requests}:
            try:
                self._backlog.check(topic, queue_id)
            except BacklogFullError as error:
                full[queue_id] = error
        if not full:
            return requests
        for caller, frame, queue_id in requests:
            if queue_id in full:
                caller.refuse(frame, full[queue_id])
        return [request for request in requests if request[2] not in full]

    def _append_alone(self, topic_id: int, request: Request) -> None:
        turn = self._check(topic_id, [request], None)
        if turn.frames:
            try:
                self._append(topic_id, turn)
            except (RecordFormatError, InvalidArgumentError) as error:
                request[0].refuse(request[1], error)

    # Checking -----------------------------------------------------------------------------------------------------------------

    def _check_together(self, topic_id: int, requests: list[Request]) -> _Turn | None:
        """All of them, where nothing is unusual about any: looked at by column."""
        callers, frames, queue_ids = zip(*requests, strict=True)
        batches = [frame[4] for frame in frames]
        joined = bytearray().join(batches)
        claims = claims_together(joined, list(map(len, batches)), topic_id, queue_ids, has_priorities=self._has_priorities(topic_id))
        if claims is None:
            return None
        pairs = dict(claims.sequences)
        expected_of = self._store.state.producers.expected
        if len(pairs) < len(claims.sequences) or any(first != expected_of(pair) for pair, first in pairs.items()):
            return None  # something is missing, or said twice
        turn = _Turn()
        turn.callers, turn.frames, turn.queue_ids = list(callers), list(frames), list(queue_ids)
        turn.joined = joined
        turn.counts = [1] * len(frames)
        turn.levels = [claims.level] * len(frames)
        return turn

    def _check(self, topic_id: int, requests: list[Request], quotas: Quotas | None) -> _Turn:
        """Those that may be appended; the others are answered."""
        turn = _Turn()
        tentative: dict[tuple[int, int, int], int] = {}  # the sequences that are expected once those before are appended
        expected_of = self._store.state.producers.expected
        has_priorities = self._has_priorities(topic_id)
        for caller, frame, queue_id in requests:
            batch: bytes | memoryview = frame[4]
            try:
                priorities = priorities_of(queue_id, has_priorities=has_priorities)
                producer_id, sequence, count, level, due = claims_of(frame[4], priorities)
                if due:
                    self._check_due(due, len(batch))
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
                            self.of_topic(topic_id).append((caller, frame, queue_id))
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
            if due:
                turn.delayed.append(len(turn.frames))
            turn.callers.append(caller)
            turn.frames.append(frame)
            turn.queue_ids.append(queue_id)
            turn.batches.append(batch)
            turn.counts.append(count)
            turn.levels.append(level)
        return turn

    def _has_priorities(self, topic_id: int) -> bool:
        topic = self._store.state.topics.get(topic_id)
        return topic is not None and topic.has_priorities

    def _check_due(self, due: int, size: int) -> None:
        if due > self._clock.wall_ms() + MOST_DELAY_MS + CLOCKS_DIFFER_MS:
            raise InvalidArgumentError(f"delay_time={due}: choose a time within 365 days")
        if size > self._store.timer_room:
            raise DiskFullError("as many messages wait for their time as half the disk can hold: send again when some were delivered")

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
        joined = bytearray().join(turn.batches) if turn.joined is None else turn.joined
        queue_ids, counts = turn.queue_ids, turn.counts
        is_plain = len(counts) == sum(counts)
        queues = set(queue_ids)
        held_after = self._clock.wall_ms() if turn.delayed else None
        if len(queues) == 1:
            appended = self._store.append(joined, topic_id, queue_ids[0], held_after=held_after)
        else:
            places = np.array(queue_ids) if is_plain else np.repeat(queue_ids, counts)
            appended = self._store.append(joined, topic_id, places, held_after=held_after)
        self._end = appended.end
        every: list[int] = appended.queue_offsets.tolist()
        offsets = every if is_plain else [every[at] for at in accumulate(counts[:-1], initial=0)]
        if turn.delayed:
            offsets = self._tell_one_by_one(turn, offsets, every, appended.store_timestamp)
            self._events.on_timer_added()
        self._answer(turn, offsets, appended)
        self._backlog.appended(self._store.state.topics[topic_id], queues, joined)
        self._events.on_append([QueueKey(topic_id, queue_id) for queue_id in queues], appended.end)

    @staticmethod
    def _tell_one_by_one(turn: _Turn, offsets: list[int], every: list[int], store_timestamp: int) -> list[int]:
        """Where a record of a request is held, and so has no place in its queue yet, the others' places do not follow each other.

        Where all are, which is what most requests with timers are like, the answer is as short as any.
        """
        offsets = offsets.copy()
        firsts = list(accumulate(turn.counts, initial=0))
        for number in turn.delayed:
            places = every[firsts[number] : firsts[number + 1]]
            if number not in turn.earlier and max(places) == _NOT_TOLD:
                continue
            if _NOT_TOLD in places and turn.levels[number]:
                turn.earlier.setdefault(number, []).extend((offset, store_timestamp) for offset in places)
                offsets[number] = _NOT_TOLD
        return offsets

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
