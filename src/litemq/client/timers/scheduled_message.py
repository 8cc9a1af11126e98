"""One delayed message."""

from __future__ import annotations

from datetime import UTC, datetime

from litemq.client.engine.timers import ScheduledState, TimerInfo
from litemq.client.messages.detached import DetachedSource
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError
from litemq.format.messages import decode_messages

__all__ = ["ScheduledMessage", "decode_scheduled_message"]


class ScheduledMessage:
    """A delayed message, before or after its delivery.

    ``get`` returns it complete; lists omit ``message``.
    """

    __slots__ = ("_info", "_message", "broker", "topic")

    def __init__(self, broker: str, topic: str, info: TimerInfo, message: Message | None = None) -> None:
        self.broker = broker
        self.topic = topic
        self._info = info
        self._message = message

    @property
    def message_id(self) -> str:
        return self._info.message_id

    @property
    def state(self) -> ScheduledState:
        """Whether it is scheduled, delivered or cancelled."""
        return self._info.state

    @property
    def due_at(self) -> datetime:
        """The time of delivery."""
        return _time(self._info.due)

    @property
    def sent_for(self) -> datetime:
        """The original time of delivery, before ``reschedule``."""
        return _time(self._info.delay_time)

    @property
    def sent_at(self) -> datetime:
        """When it was sent, by the producer's clock."""
        return _time(self._info.sent_at)

    @property
    def keys(self) -> tuple[str, ...]:
        return self._info.keys

    @property
    def batch_id(self) -> str:
        """The batch it was sent with; empty for none."""
        return self._info.batch_id

    @property
    def queue_id(self) -> int:
        """The queue it is delivered to."""
        return self._info.queue_id

    @property
    def size(self) -> int:
        """The size of its record in bytes."""
        return self._info.size

    @property
    def message(self) -> Message:
        """The message: body, value, tags, properties. It cannot be settled.

        Raises:
            InvalidArgumentError: The scheduled message came from a list.
        """
        if self._message is None:
            raise InvalidArgumentError(
                f"message {self.message_id} came from a list, without its body: "
                "get it with mq.timers.get(topic, message_id)"
            )
        return self._message

    def __repr__(self) -> str:
        return f"<ScheduledMessage {self.message_id} of {self.topic}: {self.state}, due at {self.due_at.isoformat()}>"


def decode_scheduled_message(
    broker: str, topic: str, info: TimerInfo, record: bytes, serializers: Serializers, max_body_bytes: int
) -> ScheduledMessage:
    """Build a complete scheduled message from its record."""
    (fields,) = decode_messages(record)
    return ScheduledMessage(broker, topic, info, Message(fields, DetachedSource(broker, serializers, max_body_bytes)))


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
