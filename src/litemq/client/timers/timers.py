"""Delayed messages that wait: cancel them, deliver them at another time, look at them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Backend
from litemq.client.engine.timers import CancelOutcome, ScheduledState, TimerCursor, TimerFact, TimerSelection
from litemq.client.messages.delivery_options import due_of
from litemq.client.messages.serializers import Serializers
from litemq.client.timers.scheduled_message import ScheduledMessage, whole_message
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError, NoRouteError, TimerEndedError, TimerNotFoundError
from litemq.types import check_name

__all__ = ["Timers"]

_PAGE: Final = 500
_IDS_AT_ONCE: Final = 1_000
# Of what several brokers say, the first of these counts.
_OUTCOMES: Final = (CancelOutcome.CANCELLED, CancelOutcome.DELIVERED, CancelOutcome.CANCELLED_BEFORE, CancelOutcome.UNKNOWN)
_STATES: Final = (ScheduledState.SCHEDULED, ScheduledState.DELIVERED, ScheduledState.CANCELLED)


class Timers:
    """``mq.timers``: the messages of a topic that were sent with a delay. Each is known by its id, which the receipt has."""

    def __init__(self, backend: Backend, config: ClientConfig, serializers: Serializers) -> None:
        self._backend = backend
        self._timers = backend.timers
        self._config = config
        self._serializers = serializers

    async def cancel(self, topic: str, message_id: str) -> CancelOutcome:
        """See to it that a message is never delivered. Returns when that is certain, or says why it is too late."""
        return (await self.cancel_many(topic, [message_id]))[message_id]

    async def cancel_many(self, topic: str, message_ids: Sequence[str]) -> dict[str, CancelOutcome]:
        """Cancel any number of messages; what became of each, by its id."""
        if isinstance(message_ids, str):
            raise InvalidArgumentError("message_ids is one id: give a list of them, or use cancel()")
        brokers = await self._brokers(topic)
        outcomes = dict.fromkeys(message_ids, CancelOutcome.UNKNOWN)
        ids = list(outcomes)
        for at in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[at : at + _IDS_AT_ONCE]
            for told in await asyncio.gather(*(self._timers.cancel(broker, topic, some) for broker in brokers)):
                for message_id, outcome in zip(some, told, strict=True):
                    outcomes[message_id] = min(outcomes[message_id], outcome, key=_OUTCOMES.index)
        if CancelOutcome.UNKNOWN in outcomes.values():
            await self._check_all_asked("which may have what the others do not know; all else is cancelled")
        return outcomes

    async def cancel_batch(self, topic: str, batch_id: str) -> None:
        """Cancel everything that waits now of a batch, however much that is. What is sent with the same ``batch_id`` afterwards is delivered."""
        brokers = await self._brokers(topic)
        await asyncio.gather(*(self._timers.cancel_batch(broker, topic, batch_id) for broker in brokers))
        await self._check_all_asked(f"and may have messages of batch {batch_id!r}; those of the others are cancelled")

    async def reschedule(
        self, topic: str, message_id: str, *, delay: float | timedelta | None = None, deliver_at: datetime | None = None
    ) -> ScheduledMessage:
        """Deliver a message that waits at another time, earlier or later, within 365 days from now; a time that is past is now.

        Raises ``TimerEndedError`` where it was delivered or cancelled before, and ``TimerNotFoundError`` where nobody knows it.
        """
        if (delay is None) == (deliver_at is None):
            raise InvalidArgumentError("say when: either delay= or deliver_at=")
        now = self._backend.wall_ms()
        due = due_of(now, delay, deliver_at) or now
        ended: TimerEndedError | None = None
        for broker in await self._brokers(topic):
            try:
                return ScheduledMessage(broker, topic, await self._timers.reschedule(broker, topic, message_id, due))
            except TimerNotFoundError:
                continue
            except TimerEndedError as error:
                ended = error
        if ended is None:
            await self._check_all_asked(f"which may have message {message_id!r}")
        raise ended or TimerNotFoundError(
            f"no delayed message of {topic!r} has the id {message_id!r}: check it with the producer's receipt"
        )

    async def get(self, topic: str, message_id: str) -> ScheduledMessage | None:
        """One delayed message, whole, whether it waits, was delivered or was cancelled; ``None`` where nobody knows it, or not any more."""
        found: list[tuple[str, TimerFact, bytes]] = []
        for broker in await self._brokers(topic):
            told = await self._timers.describe(broker, topic, message_id)
            if told is not None:
                found.append((broker, *told))
        if not found:
            await self._check_all_asked(f"which may have message {message_id!r}")
            return None
        broker, fact, record = min(found, key=lambda each: _STATES.index(each[1].state))
        return whole_message(broker, topic, fact, record, self._serializers, self._config.max_body_bytes)

    async def list(
        self, topic: str, *, since: datetime | None = None, until: datetime | None = None, key: str = "", batch_id: str = ""
    ) -> AsyncIterator[ScheduledMessage]:
        """Those that wait and fit all that is said, in the order of their due times: due from ``since`` on and before ``until``, with a key or an
        id, of a batch. They come without their bodies; what is sent or changed meanwhile may be missing, or come twice."""
        selection = _selection(since, until, key, batch_id)
        lines = [self._of_broker(broker, topic, selection) for broker in await self._brokers(topic)]
        heads = [(line, head) for line in lines if (head := await anext(line, None)) is not None]
        while heads:
            number = min(range(len(heads)), key=lambda each: heads[each][1].due_at)
            line, first = heads.pop(number)
            yield first
            head = await anext(line, None)
            if head is not None:
                heads.append((line, head))

    async def count(
        self, topic: str, *, since: datetime | None = None, until: datetime | None = None, key: str = "", batch_id: str = ""
    ) -> int:
        """How many wait and fit all that is said. They are counted one by one."""
        selection = _selection(since, until, key, batch_id)
        count = 0
        for broker in await self._brokers(topic):
            after, is_end = TimerCursor(), False
            while not is_end:
                page = await self._timers.page(broker, topic, selection, after=after, most=0, count_only=True)
                after, is_end = page.cursor, page.is_end
                count += page.counted
        return count

    async def _of_broker(self, broker: str, topic: str, selection: TimerSelection) -> AsyncIterator[ScheduledMessage]:
        after, is_end = TimerCursor(), False
        while not is_end:
            page = await self._timers.page(broker, topic, selection, after=after, most=_PAGE)
            after, is_end = page.cursor, page.is_end
            for fact in page.facts:
                yield ScheduledMessage(broker, topic, fact)

    async def _check_all_asked(self, why: str) -> None:
        """Nobody says that a message is not known, or cancelled, because the broker that has it is gone for a while."""
        silent = [broker.name for broker in await self._backend.brokers() if not broker.alive]
        if silent:
            raise NoRouteError(f"broker {', '.join(silent)} cannot be asked, {why}: ask again when it is back")

    async def _brokers(self, topic: str) -> Sequence[str]:
        return await self._timers.brokers(check_name(topic))


def _selection(since: datetime | None, until: datetime | None, key: str, batch_id: str) -> TimerSelection:
    return TimerSelection(0 if since is None else to_ms(since, "since"), 0 if until is None else to_ms(until, "until"), key, batch_id)
