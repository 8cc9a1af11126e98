"""The requests about delayed messages: cancel, reschedule, describe, list."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Final

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe, wait_readable
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.timers.changes import Found, TimerChanges, TimerTick
from litemq.broker.timers.listing import TimerListing
from litemq.broker.timers.lookup import FoundTimer, TimerName, TimerState
from litemq.errors import (
    InvalidArgumentError,
    OffsetOutOfRangeError,
    OverloadedError,
    TimerEndedError,
    TimerNotFoundError,
    TooManyTimerChangesError,
)
from litemq.format.limits import MAX_KEY_BYTES, MAX_MESSAGE_ID_BYTES
from litemq.format.timer_batches import MAX_BATCH_ID_BYTES
from litemq.net.frame import Frame
from litemq.proto.control_pb2 import Control, TimerBatchCancelled
from litemq.proto.wire_pb2 import (
    CancelTimersAnswer,
    CancelTimersRequest,
    ListTimersRequest,
    Opcode,
    RescheduleRequest,
    TimerBatchRequest,
    TimerFacts,
    TimerRequest,
    TimersAnswer,
)
from litemq.types import CLOCKS_DIFFER_MS, MAX_DELAY_MS

__all__ = ["TimerRequests"]

_MAX_IDS: Final = 1_000  # of one request
_READ_AGAIN: Final = 3
_RETRY_AFTER_MS: Final = 100


class _CancelOutcome(IntEnum):
    """The outcome of a cancel."""

    UNKNOWN = 0
    CANCELLED = 1
    DELIVERED = 2
    CANCELLED_BEFORE = 3


_OUTCOMES: Final = {
    TimerState.UNKNOWN: _CancelOutcome.UNKNOWN,
    TimerState.WAITS: _CancelOutcome.CANCELLED,
    TimerState.DELIVERED: _CancelOutcome.DELIVERED,
    TimerState.CANCELLED: _CancelOutcome.CANCELLED_BEFORE,
}


class TimerRequests:
    """Changes, describes and lists delayed messages."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = store = context.store
        self._clock = context.clock
        self._limits = context.limits
        self._answers = context.answers
        self._topics = context.topics
        self._events = context.events
        self._listing = TimerListing(store)
        self._changes = TimerChanges(store, context.answers)
        self.handlers = (
            Handler(Opcode.CANCEL_TIMERS, Permission.TOPIC_UPDATE, self._cancel),
            Handler(Opcode.CANCEL_TIMER_BATCH, Permission.TOPIC_UPDATE, self._cancel_batch),
            Handler(Opcode.RESCHEDULE_TIMER, Permission.TOPIC_UPDATE, self._reschedule),
            Handler(Opcode.DESCRIBE_TIMER, Permission.TOPIC_READ, self._describe),
            Handler(Opcode.LIST_TIMERS, Permission.TOPIC_GET, self._list),
        )

    def _cancel(self, caller: Caller, frame: Frame) -> None:
        request = parse(CancelTimersRequest, frame[3])
        topic = self._topics.find(request.topic).name
        if not 1 <= len(request.message_ids) <= _MAX_IDS:
            raise InvalidArgumentError(f"{len(request.message_ids)} message ids in one request: send 1 … {_MAX_IDS}")
        names = [TimerName(topic, _checked(message_id)) for message_id in request.message_ids]
        outcomes: list[_CancelOutcome] = []

        def decide(found: Found, tick: TimerTick) -> None:
            for name in dict.fromkeys(names):
                if found[name].state is TimerState.WAITS:
                    tick.cancel(found[name])
            outcomes[:] = [_OUTCOMES[found[name].state] for name in names]

        async def answer() -> tuple[bytes, bytes]:
            await self._changes.change(names, decide)
            return CancelTimersAnswer(outcomes=outcomes).SerializeToString(), b""

        self._answers.later(caller, frame, answer())

    def _cancel_batch(self, caller: Caller, frame: Frame) -> None:
        request = parse(TimerBatchRequest, frame[3])
        topic, batch_id = self._topics.find(request.topic).name, _checked_batch(request.batch_id)

        def decide() -> list[Control]:
            batches = self._store.state.parts.timer_batches
            if not batches.holds(topic, batch_id) and len(batches) >= self._limits.max_cancelled_batches:
                raise TooManyTimerChangesError(
                    f"{len(batches)} batches have been cancelled within a year, the maximum: cancel the "
                    f"messages of {batch_id!r} by their ids"
                )
            now = self._clock.wall_ms()
            return [
                Control(
                    timer_batch_cancelled=TimerBatchCancelled(
                        topic=topic, batch_id=batch_id, before=self._store.log_end, at=now
                    )
                )
            ]

        self._store.change_timers(decide)
        answer_when_safe(self._store, caller, frame, self._store.log_end)

    def _reschedule(self, caller: Caller, frame: Frame) -> None:
        request = parse(RescheduleRequest, frame[3])
        name = TimerName(self._topics.find(request.topic).name, _checked(request.message_id))
        facts: list[TimerFacts] = []

        def decide(found: Found, tick: TimerTick) -> None:
            timer, now = found[name], self._clock.wall_ms()
            due = max(request.due, now)  # a past time is due at once
            self._check_moved(name, timer, due, now)
            if due != tick.due_time(timer):
                tick.move(timer, due)
            facts[:] = [_facts(name, timer, due)]

        async def answer() -> tuple[bytes, bytes]:
            await self._changes.change([name], decide)
            self._events.on_timer_added()
            return TimersAnswer(timers=facts, is_end=True).SerializeToString(), b""

        self._answers.later(caller, frame, answer())

    def _check_moved(self, name: TimerName, timer: FoundTimer, due: int, now: int) -> None:
        state = self._store.state.parts
        if timer.state is TimerState.UNKNOWN or timer.stored is None:
            raise TimerNotFoundError(
                f"no delayed message {name.message_id!r} in topic {name.topic!r}: check the topic, and the id in the "
                "producer's receipt"
            )
        if timer.state is not TimerState.WAITS:
            raise TimerEndedError(f"the message has already been {timer.state.name.lower()}: send another one")
        if state.timer_batches.is_cancelled(name.topic, timer.batch_id, timer.pending):  # since the look-up
            raise TimerEndedError("the message has been cancelled with its batch: send another one")
        if due > now + MAX_DELAY_MS + CLOCKS_DIFFER_MS:
            raise InvalidArgumentError(f"due={due} is too far ahead: choose a time within 365 days")
        expire_at = timer.stored.record.expire_at
        if expire_at and due >= expire_at:
            raise InvalidArgumentError(
                f"due={due}: the message's time to live ends before, at {expire_at}. Cancel the message, and send it "
                "again with a longer ttl"
            )
        moved = state.moved_timers
        if len(moved) >= self._limits.max_moved_timers and moved.get(timer.pending) is None:
            raise TooManyTimerChangesError(
                f"{len(moved)} delayed messages have been rescheduled, the maximum: cancel the message, and send "
                "it again"
            )

    def _describe(self, caller: Caller, frame: Frame) -> None:
        request = parse(TimerRequest, frame[3])
        name = TimerName(self._topics.find(request.topic).name, _checked(request.message_id))
        self._answers.later(caller, frame, self._described(name))

    async def _described(self, name: TimerName) -> tuple[bytes, bytes]:
        facts: list[TimerFacts] = []

        def decide(found: Found, tick: TimerTick) -> None:
            timer = found[name]
            moved = self._store.state.parts.moved_timers.due_of(timer.pending)  # also of one that has ended
            facts[:] = [_facts(name, timer, tick.due_time(timer) if moved is None else moved)]

        for _ in range(_READ_AGAIN):
            await self._changes.change([name], decide)
            record = b""
            if facts[0].state != TimerState.UNKNOWN:
                try:
                    record = await asyncio.get_running_loop().run_in_executor(
                        self._answers.lookups, self._store.read_raw, facts[0].pending
                    )
                except OffsetOutOfRangeError:
                    continue  # retention carried it on, and its old log offset is gone
            return TimersAnswer(timers=facts, is_end=True).SerializeToString(), record
        raise OverloadedError(f"message {name.message_id!r} moved while it was read: retry", _RETRY_AFTER_MS)

    def _list(self, caller: Caller, frame: Frame) -> None:
        request = parse(ListTimersRequest, frame[3])
        self._topics.find(request.topic)
        if request.most < 1 and not request.count_only:
            raise InvalidArgumentError("limit=0: choose at least 1")
        for text in (request.key, request.batch_id):
            if len(text.encode()) > MAX_KEY_BYTES:
                raise InvalidArgumentError(
                    f"the key, id or batch {text[:80]!r} is too long: use at most {MAX_KEY_BYTES} bytes"
                )

        async def answer() -> tuple[bytes, bytes]:
            await wait_readable(self._store)
            loop = asyncio.get_running_loop()
            page = await loop.run_in_executor(self._answers.lookups, self._listing.page, request)
            return page.SerializeToString(), b""

        self._answers.later(caller, frame, answer())


def _facts(name: TimerName, timer: FoundTimer, due: int) -> TimerFacts:
    if timer.stored is None or timer.stored.stamp is None:
        return TimerFacts(message_id=name.message_id)
    record, stamp = timer.stored.record, timer.stored.stamp
    return TimerFacts(
        message_id=name.message_id,
        state=timer.state,
        due=due,
        delay_time=record.delay_time,
        keys=record.keys,
        batch_id=timer.batch_id,
        size=timer.size,
        queue_id=stamp.queue_id,
        sent_at=record.born_timestamp,
        pending=timer.pending,
    )


def _checked_batch(batch_id: str) -> str:
    if not batch_id or len(batch_id.encode()) > MAX_BATCH_ID_BYTES:
        raise InvalidArgumentError(f"batch_id={batch_id[:80]!r}: use 1 … {MAX_BATCH_ID_BYTES} bytes")
    return batch_id


def _checked(message_id: str) -> str:
    if not message_id or len(message_id.encode()) > MAX_MESSAGE_ID_BYTES:
        raise InvalidArgumentError(f"message_id={message_id[:80]!r}: use 1 … {MAX_MESSAGE_ID_BYTES} bytes")
    return message_id
