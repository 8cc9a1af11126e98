"""What is sent and what is received, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from litemq.client.serializers import CONTENT_TYPE
from litemq.errors import AlreadySettledError, UnsupportedFeatureError
from litemq.format.compression import decompress
from litemq.format.messages import MessageFields
from litemq.types import BodyCodec

if TYPE_CHECKING:
    from litemq.client.queue_reader import QueueReader

__all__ = ["Message", "OutgoingMessage", "SendReceipt"]


class SendReceipt(NamedTuple):
    """Where a message was stored. At durability ``none`` nobody knows: the offset is -1."""

    topic: str
    message_id: str
    broker: str
    queue_id: int
    queue_offset: int
    store_timestamp: int  # ms since 1970, by the broker's clock


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message of ``send_batch``; the options are those of ``send``."""

    body: Any
    tags: str | Sequence[str] = ()
    keys: str | Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""
    delay: float | timedelta | None = None
    deliver_at: datetime | None = None
    ttl: float | timedelta | None = None
    priority: int | None = None

    @property
    def has_terms(self) -> bool:
        """Whether it asks for more than to be stored."""
        return not (self.delay is None and self.deliver_at is None and self.ttl is None and self.priority is None)


class Message:
    """A message as it was received. Settle it once: with ``ack``, or by leaving ``process`` without an error."""

    __slots__ = ("_body", "_fields", "_queue", "_settled")

    def __init__(self, fields: MessageFields, queue: QueueReader) -> None:
        self._fields = fields
        self._queue = queue
        self._body: bytes | None = None
        self._settled = False

    @property
    def topic(self) -> str:
        return self._fields.topic

    @property
    def message_id(self) -> str:
        return self._fields.message_id

    @property
    def body(self) -> bytes:
        """The bytes that were sent."""
        fields = self._fields
        if fields.codec is BodyCodec.NONE:
            return fields.body
        if self._body is None:
            self._body = decompress(fields.body, fields.codec, max_bytes=self._queue.max_body_bytes)
        return self._body

    @property
    def value(self) -> Any:
        """What the topic's serializer makes of the body."""
        return self._queue.serializers.loads(self.topic, self.body, self._fields.properties.get(CONTENT_TYPE, ""))

    @property
    def tags(self) -> tuple[str, ...]:
        return self._fields.tags

    @property
    def keys(self) -> tuple[str, ...]:
        return self._fields.keys

    @property
    def properties(self) -> Mapping[str, str]:
        return self._fields.properties

    @property
    def ordering_key(self) -> str:
        """Messages with the same one come in the order in which they were sent; empty for none."""
        return self._fields.sharding_key

    @property
    def born_timestamp(self) -> int:
        """When it was sent, in milliseconds since 1970 by the producer's clock."""
        return self._fields.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """When it was stored, in milliseconds since 1970 by the broker's clock."""
        return self._fields.store_timestamp

    @property
    def stored_at(self) -> datetime:
        return datetime.fromtimestamp(self._fields.store_timestamp / 1000, UTC)

    @property
    def broker(self) -> str:
        return self._queue.broker

    @property
    def queue_id(self) -> int:
        return self._fields.queue_id

    @property
    def queue_offset(self) -> int:
        return self._fields.queue_offset

    @property
    def is_settled(self) -> bool:
        return self._settled

    def __repr__(self) -> str:
        fields = self._fields
        return f"<Message {fields.message_id} of {fields.topic}, {self.broker}/{fields.queue_id} at {fields.queue_offset}, {len(fields.body)} bytes>"

    # Settling -----------------------------------------------------------------------------------------------------------------

    async def ack(self) -> None:
        """It is done. The group's offset moves on once all messages before it in its queue are, too."""
        if self._settled:
            raise AlreadySettledError(f"message {self.message_id} was settled before: settle it once, by hand or with process()")
        self._queue.ack(self._fields.queue_offset)
        self._settled = True

    async def nack(self, *, delay: float | timedelta | None = None) -> None:
        """Not in this version: see the message of the error."""
        raise _unsupported("nack", delay)

    async def reject(self, *, reason: str = "") -> None:
        """Not in this version: see the message of the error."""
        raise _unsupported("reject", reason)

    async def extend(self, lease: float | timedelta) -> None:
        """Not in this version: see the message of the error."""
        raise _unsupported("extend", lease)

    def process(self) -> AbstractAsyncContextManager[Message]:
        """``async with message.process():`` acknowledges when the block ends well; an error, or a cancellation, leaves the message as it is."""
        return _Processing(self)


class _Processing(AbstractAsyncContextManager[Message]):
    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    async def __aenter__(self) -> Message:
        return self._message

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is not None:
            error.add_note(f"while this message was processed: {self._message!r}")
        elif not self._message.is_settled:
            await self._message.ack()


def _unsupported(what: str, _argument: object) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what}() is not in this version: ack() what is done, and let an error stop the consumer; what is not acknowledged comes again"
    )
