"""One dead letter, as a program sees it."""

from __future__ import annotations

from datetime import UTC, datetime

from litemq.client.engine.dead_letters import DeadLetterFact
from litemq.client.messages.detached import Detached
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError
from litemq.format.dead_letters import UNDECODABLE, original_of, story_of
from litemq.format.messages import MessageFields, message_fields
from litemq.types import DeadReason, Record, Stamp

__all__ = ["DeadLetter", "whole_letter"]


class DeadLetter:
    """A message that died for a group, and why. ``get`` and ``redrive`` have it whole; a list leaves out what died, and the stack trace."""

    __slots__ = ("_fact", "_message", "_priority", "_stack", "broker", "topic")

    def __init__(self, broker: str, topic: str, fact: DeadLetterFact, whole: tuple[Message, int, str] | None = None) -> None:
        self.broker = broker
        self.topic = topic
        self._fact = fact
        self._message: Message | None = None
        self._priority, self._stack = 0, ""
        if whole is not None:
            self._message, self._priority, self._stack = whole

    @property
    def message_id(self) -> str:
        """The id of the message that died."""
        return self._fact.message_id

    @property
    def keys(self) -> tuple[str, ...]:
        return self._fact.keys

    @property
    def reason(self) -> DeadReason:
        """Why it died."""
        return self._fact.reason

    @property
    def detail(self) -> str:
        """A word more about the reason, such as ``timeout`` or ``undecodable``."""
        return self._fact.detail

    @property
    def is_undecodable(self) -> bool:
        """Whether nobody could read its body: sent on as it is, it dies again."""
        return self._fact.detail == UNDECODABLE

    @property
    def group_id(self) -> str:
        """The group for which it died; empty where no group had it."""
        return self._fact.group

    @property
    def consumer(self) -> str:
        """The client that had it last."""
        return self._fact.consumer

    @property
    def error(self) -> str:
        """What went wrong, in a line."""
        return self._fact.error

    @property
    def fingerprint(self) -> str:
        """The same for errors that are the same to whoever mends them."""
        return self._fact.fingerprint

    @property
    def tries(self) -> int:
        """How often it was tried."""
        return self._fact.tries

    @property
    def died_at(self) -> datetime:
        return datetime.fromtimestamp(self._fact.dead_at / 1000, UTC)

    @property
    def log_offset(self) -> int:
        """Where it stands in its broker's log: no other one stands there."""
        return self._fact.log_offset

    @property
    def size(self) -> int:
        """Bytes of the dead letter, what died included."""
        return self._fact.size

    @property
    def stack(self) -> str:
        """The stack trace, as far as it fitted."""
        self._whole()
        return self._stack

    @property
    def message(self) -> Message:
        """The message that died: its body, value, tags, properties. It cannot be settled."""
        return self._whole()

    @property
    def priority(self) -> int:
        """The priority of the message that died."""
        self._whole()
        return self._priority

    def _whole(self) -> Message:
        if self._message is None:
            raise InvalidArgumentError(f"dead letter {self.message_id} came from a list: await dead_letters.get(message_id) has it whole")
        return self._message

    def __repr__(self) -> str:
        return f"<DeadLetter {self.message_id} of {self.topic} for {self.group_id or 'no group'}: {self.reason.name} {self.error[:80]}>"


def whole_letter(
    broker: str, topic: str, fact: DeadLetterFact, letter: MessageFields, serializers: Serializers, max_body_bytes: int
) -> DeadLetter:
    """A dead letter with what died."""
    original = original_of(Record(letter.topic, letter.body, letter.message_id))
    stamped = original if original.stamp is not None else original._replace(stamp=Stamp())  # refused at once: it never had a place
    reader = Detached(broker, serializers, max_body_bytes)
    message = Message(message_fields(stamped), reader)
    return DeadLetter(broker, topic, fact, (message, original.record.priority, story_of(letter.properties).stack))
