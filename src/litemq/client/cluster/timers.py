"""The ``TimerEngine`` of a cluster: requests to its brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from litemq.client.engine.timers import CancelOutcome, ScheduledState, TimerCursor, TimerInfo, TimerPage, TimerSelection
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

# Broker, opcode, header, attachment, and the seconds to add to the request timeout.
Ask = Callable[[str, int, bytes, bytes, float], Awaitable[Answer]]

_OUTCOMES: Final = (
    CancelOutcome.UNKNOWN,
    CancelOutcome.CANCELLED,
    CancelOutcome.DELIVERED,
    CancelOutcome.CANCELLED_BEFORE,
)
_STATES: Final = (None, ScheduledState.SCHEDULED, ScheduledState.DELIVERED, ScheduledState.CANCELLED)


class ClusterTimers:
    """A ``TimerEngine``."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def cancel(self, broker: str, topic: str, message_ids: Sequence[str]) -> Sequence[CancelOutcome]:
        request = CancelTimersRequest(topic=topic, message_ids=message_ids)
        answer = await self._ask(broker, Opcode.CANCEL_TIMERS, request.SerializeToString(), b"", 0)
        return [_OUTCOMES[number] for number in CancelTimersAnswer.FromString(answer.header).outcomes]

    async def cancel_batch(self, broker: str, topic: str, batch_id: str) -> None:
        request = TimerBatchRequest(topic=topic, batch_id=batch_id)
        await self._ask(broker, Opcode.CANCEL_TIMER_BATCH, request.SerializeToString(), b"", 0)

    async def reschedule(self, broker: str, topic: str, message_id: str, due: int) -> TimerInfo:
        request = RescheduleRequest(topic=topic, message_id=message_id, due=due)
        answer = await self._ask(broker, Opcode.RESCHEDULE_TIMER, request.SerializeToString(), b"", 0)
        timer = _timer_from_wire(TimersAnswer.FromString(answer.header).timers[0])
        if timer is None:
            raise TimerNotFoundError(f"topic {topic!r} has no delayed message {message_id!r}")
        return timer

    async def describe(self, broker: str, topic: str, message_id: str) -> tuple[TimerInfo, bytes] | None:
        request = TimerRequest(topic=topic, message_id=message_id)
        header, record = await self._ask(broker, Opcode.DESCRIBE_TIMER, request.SerializeToString(), b"", 0)
        timer = _timer_from_wire(TimersAnswer.FromString(header).timers[0])
        return None if timer is None else (timer, record)

    async def page(
        self,
        broker: str,
        topic: str,
        selection: TimerSelection,
        *,
        after: TimerCursor,
        limit: int,
        count_only: bool = False,
    ) -> TimerPage:
        request = ListTimersRequest(
            topic=topic,
            since=selection.since,
            until=selection.until,
            key=selection.key,
            batch_id=selection.batch_id,
            after_due=after.due,
            after_pending=after.pending,
            most=limit,
            count_only=count_only,
        )
        answer = TimersAnswer.FromString(
            (await self._ask(broker, Opcode.LIST_TIMERS, request.SerializeToString(), b"", 0)).header
        )
        timers = tuple(timer for timer in map(_timer_from_wire, answer.timers) if timer is not None)
        return TimerPage(timers, answer.count, TimerCursor(answer.next_due, answer.next_pending), answer.is_end)


def _timer_from_wire(facts: TimerFacts) -> TimerInfo | None:
    state = _STATES[facts.state]
    if state is None:
        return None
    return TimerInfo(
        facts.message_id,
        state,
        facts.due,
        facts.delay_time,
        tuple(facts.keys),
        facts.batch_id,
        facts.size,
        facts.queue_id,
        facts.sent_at,
    )
