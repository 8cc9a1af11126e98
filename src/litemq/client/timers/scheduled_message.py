"""One delayed message, as a program sees it."""

from __future__ import annotations

from datetime import UTC, datetime

from litemq.client.engine.timers import ScheduledState, TimerFact
from litemq.client.messages.detached import Detached
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError
from litemq.format.messages import decode_messages

__all__ = ["ScheduledMessage", "whole_message"]


class ScheduledMessage:
    """A message that waits to be delivered, or did. ``get`` has it whole; a list leaves out what was sent."""

    __slots__ = ("_fact", "_message", "broker", "topic")

    def __init__(self, broker: str, topic: str, fact: TimerFact, message: Message | None = None) -> None:
        self.broker = broker
        self.topic = topic
        self._fact = fact
        self._message = message

    @property
    def message_id(self) -> str:
        return self._fact.message_id

    @property
    def state(self) -> ScheduledState:
        """Whether it waits, was delivered, or was cancelled."""
        return self._fact.state

    @property
    def due_at(self) -> datetime:
        """When it is delivered."""
        return _time(self._fact.due)

    @property
    def sent_for(self) -> datetime:
        """When it was to be delivered, before somebody changed that."""
        return _time(self._fact.delay_time)

    @property
    def sent_at(self) -> datetime:
        """When it was sent, by its producer's clock."""
        return _time(self._fact.sent_at)

    @property
    def keys(self) -> tuple[str, ...]:
        return self._fact.keys

    @property
    def batch_id(self) -> str:
        """The batch that it was sent with; empty for none."""
        return self._fact.batch_id

    @property
    def queue_id(self) -> int:
        """The queue that it goes to."""
        return self._fact.queue_id

    @property
    def size(self) -> int:
        """Bytes of its record."""
        return self._fact.size

    @property
    def message(self) -> Message:
        """The message: its body, value, tags, properties. It cannot be settled."""
        if self._message is None:
            raise InvalidArgumentError(f"message {self.message_id} came from a list: await mq.timers.get(topic, message_id) has it whole")
        return self._message

    def __repr__(self) -> str:
        return f"<ScheduledMessage {self.message_id} of {self.topic}: {self.state}, due at {self.due_at.isoformat()}>"


def whole_message(
    broker: str, topic: str, fact: TimerFact, record: bytes, serializers: Serializers, max_body_bytes: int
) -> ScheduledMessage:
    """A delayed message with what was sent."""
    (fields,) = decode_messages(record)
    return ScheduledMessage(broker, topic, fact, Message(fields, Detached(broker, serializers, max_body_bytes)))


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
