"""A received message: its fields, its value, and how the caller settles it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Protocol

from litemq.client.messages.serializers import CONTENT_TYPE, Serializers
from litemq.client.settling.ack_policy import AckPolicy, Failure, Handling, Verdict, one_line, outcome_of
from litemq.client.settling.retry_policy import Retry, RetryPolicy, retry_delay
from litemq.client.settling.run_limits import retry_of
from litemq.client.settling.settlements import Place, Settlements, place_of
from litemq.client.times import lease_ms
from litemq.errors import AlreadySettledError, BodyCodecError, LiteMQError, SerializationError
from litemq.format.compression import decompress
from litemq.format.messages import MessageFields
from litemq.types import BodyCodec, DeadReason

__all__ = ["Message", "Source"]


class Source(Protocol):
    """Where messages come from: what it takes to read them, and to settle them. A lease is one, and a queue that is read."""

    @property
    def broker(self) -> str: ...

    @property
    def serializers(self) -> Serializers: ...

    @property
    def max_body_bytes(self) -> int: ...

    @property
    def handling(self) -> Handling: ...

    @property
    def lost(self) -> Mapping[Message, LiteMQError]:
        """Those of its messages that it has no longer, and why."""
        ...

    def ack(self, message: Message, fields: MessageFields) -> Settlements | None:
        """It is done; ``None``: and there is nobody to wait for."""
        ...

    def fail(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """A try failed."""
        ...

    def release(self, message: Message, fields: MessageFields) -> bool:
        """It was not tried to the end: whoever comes next may have it. Says whether that settles it."""
        ...

    def extend(self, message: Message, fields: MessageFields, length_ms: int) -> Awaitable[None]:
        """Keep it for so long from now on."""
        ...

    def keep(self, message: Message) -> None:
        """See to it that it stays here while it is processed."""
        ...

    def let_go(self, message: Message) -> None:
        """It is not processed any more."""
        ...


class Message:
    """A message as it was received. Settle it once: with ``ack``, ``nack`` or ``reject``, or by leaving ``process``."""

    __slots__ = ("_attempt", "_body", "_fields", "_settled", "_source", "_undecodable")

    def __init__(self, fields: MessageFields, source: Source, attempt: int = 1) -> None:
        self._fields = fields
        self._source = source
        self._body: bytes | None = None
        self._settled = False
        self._attempt = attempt
        self._undecodable: LiteMQError | None = None

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
            self._body = decompress(fields.body, fields.codec, max_bytes=self._source.max_body_bytes)
        return self._body

    @property
    def value(self) -> Any:
        """What the topic's serializer makes of the body."""
        try:
            return self._source.serializers.loads(self.topic, self.body, self._fields.properties.get(CONTENT_TYPE, ""))
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
        return self._source.broker

    @property
    def queue_id(self) -> int:
        return self._fields.queue_id

    @property
    def queue_offset(self) -> int:
        return self._fields.queue_offset

    @property
    def attempt(self) -> int:
        """Which try this is for the group, 1 being the first."""
        return self._attempt

    @property
    def undecodable(self) -> LiteMQError | None:
        """Why its ``value`` cannot be read, once somebody has tried."""
        return self._undecodable

    @property
    def size(self) -> int:
        """How many bytes its body has, as it was stored."""
        return len(self._fields.body)

    @property
    def is_settled(self) -> bool:
        return self._settled

    def __repr__(self) -> str:
        fields = self._fields
        return f"<Message {fields.message_id} of {fields.topic}, {self.broker}/{fields.queue_id} at {fields.queue_offset}, {len(fields.body)} bytes>"

    @property
    def is_lost(self) -> bool:
        """Whether its lease ended before it was settled: somebody else may have it by now."""
        return self in self._source.lost

    # Settling -----------------------------------------------------------------------------------------------------------------

    async def ack(self) -> None:
        """It is done, and does not come again. Under a lease, this waits until the broker has stored so."""
        settlements = self._hand_in()
        if settlements is not None:
            await settlements.outcome(self._place)

    def ack_nowait(self) -> asyncio.Future[None]:
        """The same without waiting: the future is done when the broker has stored it. What is acknowledged together travels together."""
        settlements = self._hand_in()
        if settlements is not None:
            return settlements.outcome(self._place)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    @property
    def _place(self) -> Place:
        """Where it stands at its broker, as settlements name it."""
        return place_of(self._fields)

    def _hand_in(self) -> Settlements | None:
        """Acknowledge it in the request that is returned, which knows when it is done; without a lease there is none to wait for."""
        self._check_open()
        settlements = self._source.ack(self, self._fields)
        self._settled = True
        return settlements

    def _check_open(self) -> None:
        if self._settled:
            raise AlreadySettledError(f"message {self.message_id} was settled before: settle it once, by hand or with process()")
        lost = self._source.lost
        if lost and self in lost:
            raise lost[self]

    async def nack(self, *, delay: float | timedelta | None = None) -> None:
        """The try failed: it comes again, at once or after ``delay`` seconds; after too many tries it goes to the dead letters."""
        after = 0.0 if delay is None else retry_delay(delay, "delay")
        await self.fail(Failure(after, self._source.handling.retry.max_retries))

    async def reject(self, *, reason: str = "") -> None:
        """No try will do: straight to the dead letters, where ``reason`` is read by people."""
        await self.fail(Failure(is_final=True, reason=DeadReason.CONSUME_ERROR, error=one_line(reason)))

    async def fail(self, failure: Failure) -> None:
        """The try failed, and this is all there is to say about it: what ``nack`` and ``reject`` are made of."""
        self._check_open()
        settlements = self._source.fail(self, self._fields, failure)
        self._settled = True
        await settlements.outcome(place_of(self._fields))

    def release(self) -> None:
        """It was not tried to the end: whoever comes next may have it. Without a lease, whoever reads the queue next."""
        self._check_open()
        self._settled = self._source.release(self, self._fields)

    async def extend(self, lease: float | timedelta) -> None:
        """Keep it for ``lease`` seconds from now. While ``process`` runs, that is done by itself."""
        self._check_open()
        await self._source.extend(self, self._fields, lease_ms(lease))

    def process(self, ack_policy: AckPolicy | None = None, *, retry: RetryPolicy | None = None) -> AbstractAsyncContextManager[Message]:
        """``async with message.process():`` settles it when the block ends, as the ack policy says; by default an error means another try.

        Its lease is renewed until then. Errors go on, but for ``Retry``.
        """
        handling = self._source.handling
        return _Processing(
            self, self._source, Handling(ack_policy or handling.ack_policy, retry or retry_of(self.properties, handling.retry))
        )


class _Processing(AbstractAsyncContextManager[Message]):
    __slots__ = ("_handling", "_message", "_source")

    def __init__(self, message: Message, source: Source, handling: Handling) -> None:
        self._message = message
        self._source = source
        self._handling = handling

    async def __aenter__(self) -> Message:
        if self._handling.ack_policy is AckPolicy.ACK_FIRST:
            await self._message.ack()
        else:
            self._source.keep(self._message)
        return self._message

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        message = self._message
        self._source.let_go(message)
        if error is not None and not hasattr(error, "__notes__"):  # of a batch, the first one is named
            error.add_note(f"while this message was processed: {message!r}")
        is_undecodable = error is not None and error is message.undecodable
        verdict, failure = outcome_of(self._handling, error, message.attempt, is_undecodable=is_undecodable, is_settled=message.is_settled)
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
            error.add_note(f"and it could not be settled: {unsettled}")
        return isinstance(error, Retry)
