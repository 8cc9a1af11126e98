"""A received message: its fields, its value, and how the caller settles it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, TypeVar

from litemq.client import native
from litemq.client.messages.model import model_of
from litemq.client.messages.received import ReceivedMessage
from litemq.client.messages.serializers import CONTENT_TYPE, Serializers
from litemq.client.settling.ack_policy import AckPolicy, Failure, SettlePolicy, Verdict, decide_outcome, one_line
from litemq.client.settling.retry_policy import Retry, RetryPolicy, retry_delay
from litemq.client.settling.run_limits import retry_policy_for
from litemq.client.settling.settlements import DeliveryPosition, Settlements, delivery_position
from litemq.client.times import lease_ms
from litemq.errors import AlreadySettledError, BodyCodecError, LiteMQError, SerializationError
from litemq.format.compression import decompress
from litemq.format.limits import STORED_LIMITS
from litemq.format.messages import MessageFields, decode_messages
from litemq.types import BodyCodec, DeadReason

__all__ = ["Message", "Source", "decode_received"]

T = TypeVar("T")


class Source(Protocol):
    """The origin of a message, which decodes and settles it: a lease, or a queue that is read."""

    @property
    def broker(self) -> str: ...

    @property
    def serializers(self) -> Serializers: ...

    @property
    def max_body_bytes(self) -> int: ...

    @property
    def settle_policy(self) -> SettlePolicy: ...

    @property
    def lost(self) -> Mapping[Message, LiteMQError]:
        """The messages whose lease or queue was lost, with the reason."""
        ...

    def ack(self, message: Message) -> Settlements | None:
        """Acknowledge ``message``; ``None``: no request to wait for."""
        ...

    def ack_run(self, offset: int, count: int) -> bool:
        """Acknowledge ``count`` messages from ``offset`` on; ``False``: acknowledge each."""
        ...

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """Report a failed attempt."""
        ...

    def release(self, message: Message, fields: MessageFields) -> bool:
        """Return an unprocessed message for delivery to any consumer.

        Return whether that settles it.
        """
        ...

    def extend(self, message: Message, fields: MessageFields, length_ms: int) -> Awaitable[None]:
        """Extend the lease to ``length_ms`` from now."""
        ...

    def keep(self, message: Message) -> None:
        """Renew the lease until ``let_go``."""
        ...

    def let_go(self, message: Message) -> None:
        """Stop renewing the lease."""
        ...


class Message(ReceivedMessage):
    """A received message.

    Settle it once: with ``ack``, ``nack`` or ``reject``, or by leaving ``process``.
    """

    __slots__ = ()

    def __init__(self, fields: MessageFields, source: Source, attempt: int = 1) -> None:
        self._decoded = fields
        self._source = source
        self._raw_body, self._codec = fields.body, fields.codec
        self._queue_offset = fields.queue_offset
        self._body = None
        self._settled = False
        self._attempt = attempt
        self._undecodable = None

    @property
    def _fields(self) -> MessageFields:
        if self._decoded is None:
            (self._decoded,) = decode_messages(self._record())
        return self._decoded

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._fields, self._source, self._attempt, self._settled)

    @property
    def topic(self) -> str:
        return self._fields.topic

    @property
    def message_id(self) -> str:
        return self._fields.message_id

    @property
    def body(self) -> bytes:
        """The bytes that were sent."""
        if not self._codec:
            return self._raw_body
        if self._body is None:
            self._body = decompress(self._raw_body, BodyCodec(self._codec), max_bytes=self._source.max_body_bytes)
        return self._body

    @property
    def value(self) -> Any:
        """The body, decoded by the topic's serializer."""
        try:
            return self._source.serializers.loads(self.topic, self.body, self._fields.properties.get(CONTENT_TYPE, ""))
        except (SerializationError, BodyCodecError) as error:
            self._undecodable = error
            raise

    def decode(self, declared: type[T]) -> T:
        """Return the body as a value of the type ``declared``: ``message.decode(Order)``.

        Args:
            declared: A pydantic model, a dataclass, or a standard type such as ``datetime``.

        Raises:
            SerializationError: The body is no such value.
            InvalidArgumentError: The type cannot be written as JSON.
            MissingExtraError: The extra ``pydantic`` is not installed.
        """
        model = model_of(declared)
        try:
            content_type = self._fields.properties.get(CONTENT_TYPE, "")
            return self._source.serializers.loads_as(model, self.topic, self.body, content_type)
        except (SerializationError, BodyCodecError) as error:
            self._undecodable = error
            raise

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
        """The ordering key: messages with the same key are delivered in the order of sending.

        Empty: none.
        """
        return self._fields.sharding_key

    @property
    def born_timestamp(self) -> int:
        """When the message was sent, in milliseconds since 1970 by the producer's clock."""
        return self._fields.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """When the message was stored, in milliseconds since 1970 by the broker's clock."""
        return self._fields.store_timestamp

    @property
    def stored_at(self) -> datetime:
        return datetime.fromtimestamp(self._fields.store_timestamp / 1000, UTC)

    @property
    def broker(self) -> str:
        return self._source.broker

    @property
    def queue_id(self) -> int:
        return self._fields.queue_id

    @property
    def queue_offset(self) -> int:
        return self._queue_offset

    @property
    def attempt(self) -> int:
        """The number of this delivery attempt for the group, from 1."""
        return self._attempt

    @property
    def undecodable(self) -> LiteMQError | None:
        """The error of reading ``value``; ``None`` if there was none."""
        return self._undecodable

    @property
    def size(self) -> int:
        """The size of the stored body in bytes, before decompression."""
        return len(self._raw_body)

    @property
    def is_settled(self) -> bool:
        return self._settled

    def __repr__(self) -> str:
        fields = self._fields
        position = f"{self.broker}/{fields.queue_id} at {fields.queue_offset}"
        return f"<Message {fields.message_id} of {fields.topic}, {position}, {len(fields.body)} bytes>"

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended before the message was settled: another consumer may have it."""
        return self in self._source.lost

    # Settling -------------------------------------------------------------------------------------

    async def ack(self) -> None:
        """Acknowledge the message: it is not delivered again.

        Under a lease, wait until the broker has stored this.

        Raises:
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message was read without a group.
            ClientClosedError: The client or the consumer is closed; the message is delivered again.
            NetworkError: The broker did not answer; the message may be delivered again.
        """
        settlements = self._start_ack()
        if settlements is not None:
            await settlements.outcome(self._position)

    def ack_nowait(self) -> asyncio.Future[None]:
        """Acknowledge without waiting; the future is done when the broker has stored it.

        Acks of one tick share a request.

        Raises:
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message was read without a group.
            ClientClosedError: The client or the consumer is closed; the message is delivered again.
            NetworkError: By the future: the broker did not answer, and may deliver it again.
        """
        settlements = self._start_ack()
        if settlements is not None:
            return settlements.outcome(self._position)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    @property
    def _position(self) -> DeliveryPosition:
        return delivery_position(self._fields)

    def _start_ack(self) -> Settlements | None:
        """Acknowledge the message; return the request, or ``None`` if there is no lease."""
        source = self._source
        if self._settled or source.lost:
            self._check_open()
        settlements = source.ack(self)
        self._settled = True
        return settlements

    def _check_open(self) -> None:
        if self._settled:
            raise AlreadySettledError(
                f"message {self.message_id} is already settled: settle it once, by hand or with process()"
            )
        lost = self._source.lost
        if lost and self in lost:
            raise lost[self]

    async def nack(self, *, delay: float | timedelta | None = None) -> None:
        """Report a failed attempt: the message is retried.

        After ``max_retries``, it becomes a dead letter.

        Args:
            delay: Seconds until the retry; ``None``: at once.

        Raises:
            InvalidArgumentError: The delay is negative or above 365 days.
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message was read without a group.
            ClientClosedError: The client or the consumer is closed; the message is delivered again.
            NetworkError: The broker did not answer; the message may be delivered again.
        """
        after = 0.0 if delay is None else retry_delay(delay, "delay")
        await self.fail(Failure(after, self._source.settle_policy.retry.max_retries))

    async def reject(self, *, reason: str = "") -> None:
        """Move the message to the dead letters without a retry.

        Args:
            reason: A description that is stored with the dead letter.

        Raises:
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message was read without a group.
            ClientClosedError: The client or the consumer is closed; the message is delivered again.
            NetworkError: The broker did not answer; the message may be delivered again.
        """
        await self.fail(Failure(is_final=True, reason=DeadReason.CONSUME_ERROR, error=one_line(reason)))

    async def fail(self, failure: Failure) -> None:
        """Report a failed attempt; ``nack`` and ``reject`` call this.

        Args:
            failure: The delay until the retry, or that this was the last attempt, and why.

        Raises:
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message was read without a group.
            ClientClosedError: The client or the consumer is closed; the message is delivered again.
            NetworkError: The broker did not answer; the message may be delivered again.
        """
        self._check_open()
        settlements = self._source.fail(self, self._fields, failure)
        self._settled = True
        await settlements.outcome(self._position)

    def release(self) -> None:
        """Return the unprocessed message: it is delivered again, and the attempt does not count.

        Raises:
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
        """
        self._check_open()
        self._settled = self._source.release(self, self._fields)

    async def extend(self, lease: float | timedelta) -> None:
        """Extend the lease. ``process`` does this by itself.

        Args:
            lease: Seconds from now.

        Raises:
            InvalidArgumentError: The length is out of range.
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message has no lease.
            NetworkError: The broker did not answer; the lease may end as before.
        """
        self._check_open()
        await self._source.extend(self, self._fields, lease_ms(lease))

    def process(
        self, ack_policy: AckPolicy | None = None, *, retry: RetryPolicy | None = None
    ) -> AbstractAsyncContextManager[Message]:
        """``async with message.process():`` settles the message when the block ends.

        The ack policy decides how; by default, an error means a retry. The lease is renewed during
        the block. Exceptions other than ``Retry`` propagate.

        Args:
            ack_policy: How to settle the message; ``None``: as the consumer was opened.
            retry: When to retry after an error; ``None``: by the message, else as the consumer was
                opened.

        Raises:
            AlreadySettledError: The message is already settled.
            LeaseLostError: The lease ended; another consumer may have the message.
            UnsupportedFeatureError: The message was read without a group.
            ClientClosedError: The client or the consumer is closed; the message is delivered again.
            NetworkError: The broker did not answer; the message may be delivered again.
        """
        settle_policy = self._source.settle_policy
        return _ProcessContext(
            self,
            self._source,
            SettlePolicy(
                ack_policy or settle_policy.ack_policy, retry or retry_policy_for(self.properties, settle_policy.retry)
            ),
        )


def _restore(fields: MessageFields, source: Source, attempt: int, settled: bool) -> Message:
    """Make the copy of a message."""
    message = Message(fields, source, attempt)
    message._settled = settled  # noqa: SLF001
    return message


def decode_received(source: Source, records: bytes) -> list[Message]:
    """Return the messages of stored ``records``, which ``source`` settles.

    Raise ``RecordFormatError`` for the first invalid record.
    """
    messages: list[Message] = []
    at = 0
    if native.enabled:
        at = native.receiving.decode_received(records, 0, STORED_LIMITS.max_record_bytes, Message, source, messages)
    if at < len(records):  # Python decides about the rest, and explains
        messages += [Message(fields, source, fields.consume_count + 1) for fields in decode_messages(records[at:])]
    return messages


class _ProcessContext(AbstractAsyncContextManager[Message]):
    __slots__ = ("_message", "_settle_policy", "_source")

    def __init__(self, message: Message, source: Source, settle_policy: SettlePolicy) -> None:
        self._message = message
        self._source = source
        self._settle_policy = settle_policy

    async def __aenter__(self) -> Message:
        if self._settle_policy.ack_policy is AckPolicy.ACK_FIRST:
            await self._message.ack()
        else:
            self._source.keep(self._message)
        return self._message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        message = self._message
        self._source.let_go(message)
        if error is not None and not hasattr(error, "__notes__"):  # of a batch, only the first message is named
            error.add_note(f"while processing {message!r}")
        is_undecodable = error is not None and error is message.undecodable
        verdict, failure = decide_outcome(
            self._settle_policy, error, message.attempt, is_undecodable=is_undecodable, is_settled=message.is_settled
        )
        try:
            if verdict is Verdict.ACK:
                await message.ack()
            elif verdict is Verdict.FAIL:
                await message.fail(failure)
            elif verdict is Verdict.RELEASE:
                message.release()
        except LiteMQError as unsettled:
            if error is None:
                raise
            error.add_note(f"the message could not be settled: {unsettled}")
        return isinstance(error, Retry)
