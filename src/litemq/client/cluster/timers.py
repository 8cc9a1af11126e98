"""Delayed messages of a cluster's brokers, asked over the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from litemq.client.engine.timers import CancelOutcome, ScheduledState, TimerCursor, TimerFact, TimerPage, TimerSelection
from litemq.client.transport.channel import Answer
from litemq.errors import TimerNotFoundError
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

__all__ = ["ClusterTimers"]

# Broker, opcode, header, attachment, how many seconds more than usual the answer may take.
Ask = Callable[[str, int, bytes, bytes, float], Awaitable[Answer]]

_OUTCOMES: Final = (CancelOutcome.UNKNOWN, CancelOutcome.CANCELLED, CancelOutcome.DELIVERED, CancelOutcome.CANCELLED_BEFORE)
_STATES: Final = (None, ScheduledState.SCHEDULED, ScheduledState.DELIVERED, ScheduledState.CANCELLED)


class ClusterTimers:
    """A ``TimerBackend``."""

    def __init__(self, ask: Ask, brokers: Callable[[str], Awaitable[Sequence[str]]]) -> None:
        self._ask = ask
        self._brokers = brokers  # those that have a topic

    async def brokers(self, topic: str) -> Sequence[str]:
        return await self._brokers(topic)

    async def cancel(self, broker: str, topic: str, message_ids: Sequence[str]) -> Sequence[CancelOutcome]:
        request = CancelTimersRequest(topic=topic, message_ids=message_ids)
        answer = await self._ask(broker, Opcode.CANCEL_TIMERS, request.SerializeToString(), b"", 0)
        return [_OUTCOMES[number] for number in CancelTimersAnswer.FromString(answer.header).outcomes]

    async def cancel_batch(self, broker: str, topic: str, batch_id: str) -> None:
        request = TimerBatchRequest(topic=topic, batch_id=batch_id)
        await self._ask(broker, Opcode.CANCEL_TIMER_BATCH, request.SerializeToString(), b"", 0)

    async def reschedule(self, broker: str, topic: str, message_id: str, due: int) -> TimerFact:
        request = RescheduleRequest(topic=topic, message_id=message_id, due=due)
        answer = await self._ask(broker, Opcode.RESCHEDULE_TIMER, request.SerializeToString(), b"", 0)
        fact = _fact(TimersAnswer.FromString(answer.header).timers[0])
        if fact is None:
            raise TimerNotFoundError(f"no delayed message of {topic!r} has the id {message_id!r}")
        return fact

    async def describe(self, broker: str, topic: str, message_id: str) -> tuple[TimerFact, bytes] | None:
        request = TimerRequest(topic=topic, message_id=message_id)
        header, record = await self._ask(broker, Opcode.DESCRIBE_TIMER, request.SerializeToString(), b"", 0)
        fact = _fact(TimersAnswer.FromString(header).timers[0])
        return None if fact is None else (fact, record)

    async def page(
        self, broker: str, topic: str, selection: TimerSelection, *, after: TimerCursor, most: int, count_only: bool = False
    ) -> TimerPage:
        request = ListTimersRequest(
            topic=topic,
            since=selection.since,
            until=selection.until,
            key=selection.key,
            batch_id=selection.batch_id,
            after_due=after.due,
            after_pending=after.pending,
            most=most,
            count_only=count_only,
        )
        answer = TimersAnswer.FromString((await self._ask(broker, Opcode.LIST_TIMERS, request.SerializeToString(), b"", 0)).header)
        facts = tuple(fact for fact in map(_fact, answer.timers) if fact is not None)
        return TimerPage(facts, answer.count, TimerCursor(answer.next_due, answer.next_pending), answer.is_end)


def _fact(told: TimerFacts) -> TimerFact | None:
    state = _STATES[told.state]
    if state is None:
        return None
    return TimerFact(
        told.message_id, state, told.due, told.delay_time, tuple(told.keys), told.batch_id, told.size, told.queue_id, told.sent_at
    )
