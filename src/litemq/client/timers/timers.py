"""Delayed messages that wait for their delivery: ``mq.timers``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine
from litemq.client.engine.survey import Survey
from litemq.client.engine.timers import CancelOutcome, ScheduledState, TimerCursor, TimerInfo, TimerSelection
from litemq.client.messages.delivery_options import due_time
from litemq.client.messages.serializers import Serializers
from litemq.client.timers.scheduled_message import ScheduledMessage, decode_scheduled_message
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError, TimerEndedError, TimerNotFoundError
from litemq.types import check_name

__all__ = ["Timers"]

_PAGE: Final = 500
_MAX_IDS: Final = 1_000
# If brokers differ, the first of these is the outcome.
_OUTCOMES: Final = (
    CancelOutcome.CANCELLED,
    CancelOutcome.DELIVERED,
    CancelOutcome.CANCELLED_BEFORE,
    CancelOutcome.UNKNOWN,
)
_STATES: Final = (ScheduledState.SCHEDULED, ScheduledState.DELIVERED, ScheduledState.CANCELLED)


class Timers:
    """Cancels, reschedules and lists the delayed messages of a topic.

    The receipt of a message has its id.
    """

    def __init__(self, engine: Engine, config: ClientConfig, serializers: Serializers) -> None:
        self._engine = engine
        self._timers = engine.timers
        self._config = config
        self._serializers = serializers

    async def cancel(self, topic: str, message_id: str) -> CancelOutcome:
        """Cancel a delayed message.

        Args:
            topic: The topic.
            message_id: The id, from the receipt.

        Returns:
            ``CANCELLED`` once it is certain that the message is never delivered; otherwise why it
            is too late.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: A broker that may have the message cannot be reached.
        """
        return (await self.cancel_many(topic, [message_id]))[message_id]

    async def cancel_many(self, topic: str, message_ids: Sequence[str]) -> dict[str, CancelOutcome]:
        """Cancel any number of delayed messages.

        Args:
            topic: The topic.
            message_ids: The ids, from the receipts.

        Returns:
            The outcome of each message, by its id.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: A broker that may have the message cannot be reached.
        """
        if isinstance(message_ids, str):
            raise InvalidArgumentError("message_ids must be a list of ids: for one id, use cancel()")
        survey = await self._survey(topic)
        outcomes = dict.fromkeys(message_ids, CancelOutcome.UNKNOWN)
        ids = list(outcomes)
        for at in range(0, len(ids), _MAX_IDS):
            some = ids[at : at + _MAX_IDS]
            for _, answer in await survey.ask(partial(self._cancel, topic, some)):
                for message_id, outcome in zip(some, answer, strict=True):
                    outcomes[message_id] = min(outcomes[message_id], outcome, key=_OUTCOMES.index)
        if CancelOutcome.UNKNOWN in outcomes.values():
            survey.require_all("it may have the unknown messages; all others are cancelled. Retry when it is back")
        return outcomes

    async def _cancel(self, topic: str, message_ids: Sequence[str], broker: str) -> Sequence[CancelOutcome]:
        return await self._timers.cancel(broker, topic, message_ids)

    async def cancel_batch(self, topic: str, batch_id: str) -> None:
        """Cancel all delayed messages of a batch.

        Messages sent with the same ``batch_id`` afterwards are delivered.

        Args:
            topic: The topic.
            batch_id: The ``batch_id`` that the messages were sent with.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TooManyTimerChangesError: Too many batches of the topic were cancelled.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: A broker that may have the message cannot be reached.
        """
        survey = await self._survey(topic)
        await survey.ask(lambda broker: self._timers.cancel_batch(broker, topic, batch_id))
        survey.require_all(
            f"it may have messages of batch {batch_id!r}; those of the other brokers are cancelled. "
            "Retry when it is back"
        )

    async def reschedule(
        self, topic: str, message_id: str, *, delay: float | timedelta | None = None, deliver_at: datetime | None = None
    ) -> ScheduledMessage:
        """Change the delivery time of a delayed message. Pass either ``delay`` or ``deliver_at``.

        Args:
            topic: The topic.
            message_id: The id, from the receipt.
            delay: Seconds from now, up to 365 days.
            deliver_at: The time, with a time zone; a past time means now.

        Returns:
            The rescheduled message.

        Raises:
            TimerEndedError: The message was delivered or cancelled before.
            TimerNotFoundError: The topic has no delayed message with this id.
            TooManyTimerChangesError: Too many messages of the topic were rescheduled.
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: A broker that may have the message cannot be reached.
        """
        if (delay is None) == (deliver_at is None):
            raise InvalidArgumentError("choose either delay= or deliver_at=")
        due = due_time(self._engine.wall_ms(), delay, deliver_at)
        ended: TimerEndedError | None = None
        survey = await self._survey(topic)
        for broker in survey.brokers:
            try:
                return ScheduledMessage(broker, topic, await self._timers.reschedule(broker, topic, message_id, due))
            except TimerNotFoundError:
                continue
            except TimerEndedError as error:
                ended = error
        if ended is None:
            survey.require_all(f"it may have message {message_id!r}: retry when it is back")
        raise ended or TimerNotFoundError(
            f"no delayed message of {topic!r} has the id {message_id!r}: check it with the producer's receipt"
        )

    async def get(self, topic: str, message_id: str) -> ScheduledMessage | None:
        """Return a delayed message, complete, whether it is scheduled, delivered or cancelled.

        Args:
            topic: The topic.
            message_id: The id, from the receipt.

        Returns:
            The message, or ``None`` if no broker knows it, or remembers it.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            NoRouteError, NetworkError: A broker that may have the message cannot be reached.
        """
        found: list[tuple[str, TimerInfo, bytes]] = []
        survey = await self._survey(topic)
        for broker, described in await survey.ask(lambda each: self._timers.describe(each, topic, message_id)):
            if described is not None:
                found.append((broker, *described))
        if not found:
            survey.require_all(f"it may have message {message_id!r}: retry when it is back")
            return None
        broker, info, record = min(found, key=lambda each: _STATES.index(each[1].state))
        return decode_scheduled_message(broker, topic, info, record, self._serializers, self._config.max_body_bytes)

    async def list(
        self,
        topic: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        key: str = "",
        batch_id: str = "",
        most: int | None = None,
    ) -> AsyncIterator[ScheduledMessage]:
        """Iterate over the waiting messages that match all arguments, by delivery time.

        They come without their bodies. Messages that change meanwhile may be missing or appear
        twice.

        Args:
            topic: The topic.
            since, until: Only those due from ``since`` to before ``until``.
            key: Only those with this key or message id.
            batch_id: Only those of this batch.
            most: Return at most this many. Default: all.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            PartialAnswerError: At the end: a broker did not answer.
            NoRouteError, NetworkError: No broker can be reached.
        """
        if most is not None and (not isinstance(most, int) or most < 1):
            raise InvalidArgumentError(f"most={most!r}: choose 1 or more")
        selection = _selection(since, until, key, batch_id)
        survey = await self._survey(topic)
        sources = [self._broker_messages(survey, broker, topic, selection) for broker in survey.brokers]
        heads = [(source, head) for source in sources if (head := await anext(source, None)) is not None]
        left = most
        while heads and left != 0:
            number = min(range(len(heads)), key=lambda each: heads[each][1].due_at)
            source, first = heads.pop(number)
            left = None if left is None else left - 1
            yield first
            head = await anext(source, None)
            if head is not None:
                heads.append((source, head))
        survey.complete(None)

    async def count(
        self,
        topic: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        key: str = "",
        batch_id: str = "",
    ) -> int:
        """Count the waiting messages that match all arguments. This examines each one.

        Args:
            topic: The topic.
            since, until: Only those due from ``since`` to before ``until``.
            key: Only those with this key or message id.
            batch_id: Only those of this batch.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        selection = _selection(since, until, key, batch_id)

        async def ask(broker: str) -> int:
            after, is_end, count = TimerCursor(), False, 0
            while not is_end:
                page = await self._timers.page(broker, topic, selection, after=after, limit=0, count_only=True)
                after, is_end = page.cursor, page.is_end
                count += page.counted
            return count

        survey = await self._survey(topic)
        return survey.complete(sum(count for _, count in await survey.ask(ask)))

    async def _broker_messages(
        self, survey: Survey, broker: str, topic: str, selection: TimerSelection
    ) -> AsyncIterator[ScheduledMessage]:
        after, is_end = TimerCursor(), False
        while not is_end:
            timers: Sequence[TimerInfo] = ()
            is_end = True  # unless the broker answers
            with survey.asking(broker):
                page = await self._timers.page(broker, topic, selection, after=after, limit=_PAGE)
                after, is_end, timers = page.cursor, page.is_end, page.timers
            for info in timers:
                yield ScheduledMessage(broker, topic, info)

    async def _survey(self, topic: str) -> Survey:
        return await self._engine.survey(check_name(topic))


def _selection(since: datetime | None, until: datetime | None, key: str, batch_id: str) -> TimerSelection:
    return TimerSelection(
        0 if since is None else to_ms(since, "since"), 0 if until is None else to_ms(until, "until"), key, batch_id
    )
