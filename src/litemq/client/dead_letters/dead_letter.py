"""One dead letter."""

from __future__ import annotations

from datetime import UTC, datetime

from litemq.client.engine.dead_letters import DeadLetterInfo
from litemq.client.messages.detached import DetachedSource
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError
from litemq.format.dead_letters import UNDECODABLE, history_from_properties, original_record
from litemq.format.messages import MessageFields, message_fields
from litemq.types import DeadReason, Record, Stamp

__all__ = ["DeadLetter", "decode_dead_letter"]


class DeadLetter:
    """A message that failed for good for a group, and the reason.

    ``get`` and ``redrive`` return it complete. Lists omit ``message``, ``priority`` and ``stack``.
    """

    __slots__ = ("_info", "_message", "_priority", "_stack", "broker", "topic")

    def __init__(
        self, broker: str, topic: str, info: DeadLetterInfo, whole: tuple[Message, int, str] | None = None
    ) -> None:
        self.broker = broker
        self.topic = topic
        self._info = info
        self._message: Message | None = None
        self._priority, self._stack = 0, ""
        if whole is not None:
            self._message, self._priority, self._stack = whole

    @property
    def message_id(self) -> str:
        """The id of the original message."""
        return self._info.message_id

    @property
    def keys(self) -> tuple[str, ...]:
        return self._info.keys

    @property
    def reason(self) -> DeadReason:
        """Why it became a dead letter."""
        return self._info.reason

    @property
    def detail(self) -> str:
        """A refinement of the reason, such as ``timeout`` or ``undecodable``."""
        return self._info.detail

    @property
    def is_undecodable(self) -> bool:
        """Whether the serializer could not read its body. Redriven unchanged, it fails again."""
        return self._info.detail == UNDECODABLE

    @property
    def group_id(self) -> str:
        """The group that failed to process it; empty if no group received it."""
        return self._info.group

    @property
    def consumer(self) -> str:
        """The client that received it last."""
        return self._info.consumer

    @property
    def error(self) -> str:
        """The error, in one line."""
        return self._info.error

    @property
    def fingerprint(self) -> str:
        """Equal for errors with the same cause."""
        return self._info.fingerprint

    @property
    def tries(self) -> int:
        """The number of delivery attempts."""
        return self._info.tries

    @property
    def died_at(self) -> datetime:
        """When it became a dead letter."""
        return datetime.fromtimestamp(self._info.dead_at / 1000, UTC)

    @property
    def log_offset(self) -> int:
        """Its unique position in the broker's log."""
        return self._info.log_offset

    @property
    def size(self) -> int:
        """The size in bytes, including the original message."""
        return self._info.size

    @property
    def stack(self) -> str:
        """The stack trace, truncated.

        Raises:
            InvalidArgumentError: The dead letter came from a list.
        """
        self._require_message()
        return self._stack

    @property
    def message(self) -> Message:
        """The original message: body, value, tags, properties. It cannot be settled.

        Raises:
            InvalidArgumentError: The dead letter came from a list.
        """
        return self._require_message()

    @property
    def priority(self) -> int:
        """The priority of the original message.

        Raises:
            InvalidArgumentError: The dead letter came from a list.
        """
        self._require_message()
        return self._priority

    def _require_message(self) -> Message:
        if self._message is None:
            raise InvalidArgumentError(
                f"dead letter {self.message_id} came from a list, without its message: "
                "get it with dead_letters.get(message_id)"
            )
        return self._message

    def __repr__(self) -> str:
        group = self.group_id or "no group"
        return f"<DeadLetter {self.message_id} of {self.topic} for {group}: {self.reason.name} {self.error[:80]}>"


def decode_dead_letter(
    broker: str, topic: str, info: DeadLetterInfo, fields: MessageFields, serializers: Serializers, max_body_bytes: int
) -> DeadLetter:
    """Build a complete dead letter from its record."""
    original = original_record(Record(fields.topic, fields.body, fields.message_id))
    stamped = (
        original if original.stamp is not None else original._replace(stamp=Stamp())
    )  # rejected on arrival: it was never stored
    reader = DetachedSource(broker, serializers, max_body_bytes)
    message = Message(message_fields(stamped), reader)
    return DeadLetter(
        broker, topic, info, (message, original.record.priority, history_from_properties(fields.properties).stack)
    )
