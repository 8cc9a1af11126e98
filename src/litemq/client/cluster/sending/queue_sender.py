"""Sends to one queue: transmit the requests of the sequencer, and resolve their receipts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from litemq.client.backoff import Backoff
from litemq.client.cluster.sending.circuit_breaker import CircuitBreaker
from litemq.client.cluster.sending.request import Request
from litemq.client.cluster.sending.send_buffer import SendBuffer
from litemq.client.cluster.sending.sequencer import FailedRequest, Sequencer
from litemq.client.config import ClientConfig
from litemq.client.identity import new_producer_id
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.transport.channel import Channel
from litemq.errors import (
    ConnectionLostError,
    LiteMQError,
    NotConfirmedError,
    OverloadedError,
    RequestTimeoutError,
    SendOutcomeUnknownError,
    SequenceGapError,
    StoreFailedError,
    TopicNotFoundError,
)
from litemq.format.limits import RecordLimits
from litemq.format.record_encode import RecordTemplate
from litemq.net.sent_answers import unpack_sent_answer
from litemq.proto.wire_pb2 import Opcode, SendAnswer, SendRequest
from litemq.types import Durability

__all__ = ["QueueSender", "SenderConnection"]

_MAX_IN_FLIGHT: Final = 1024  # messages for each producer and queue: as many as a broker remembers
_MAX_TEMPLATES: Final = 256
_SLOW_S: Final = 1.0  # an answer that takes longer may never come: the host may be down
_SEND: Final = int(Opcode.SEND)

# The fields that messages of one template share: level, tags, content type, properties, priority.
TemplateKey = tuple[Durability, tuple[str, ...], str, tuple[tuple[str, str], ...], int]


class SenderConnection(Protocol):
    """The part of a ``BrokerConnection`` that a sender uses."""

    @property
    def channel(self) -> Channel | None:
        """The open channel, or ``None``."""
        ...

    @property
    def gave_up(self) -> bool:
        """Whether the client closed the last channel."""
        ...

    def lost(self, when: str) -> ConnectionLostError:
        """Return the error of a message that waited for the connection in vain."""
        ...

    def give_up(self, reason: LiteMQError) -> None:
        """Close a channel that does not answer, and connect again."""
        ...

    def start_connecting(self) -> None:
        """Connect in the background, unless it is connected or connecting."""
        ...

    def note_error(self, error: LiteMQError) -> None:
        """Note an error answer: it may be that of a former master."""
        ...

    def note_silence(self) -> None:
        """Note that the server takes long to answer: it may not be the master any more."""
        ...


class QueueSender:
    """The requests to one queue, in flight and waiting.

    Requests of durability ``none`` are unsequenced: they have no sequence numbers, and are sent
    once.
    """

    __slots__ = (
        "_answers",
        "_backoff",
        "_buffer",
        "_config",
        "_header",
        "_latency",
        "_loop",
        "_resume",
        "_template_id",
        "_templates",
        "_unsequenced",
        "_unsequenced_in_flight",
        "alive",
        "breaker",
        "broker",
        "connection",
        "default_level",
        "on_unknown_topic",
        "open",
        "open_unsequenced",
        "queue_id",
        "refusal",
        "sequencer",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        broker: str,
        queue_id: int,
        connection: SenderConnection,
        breaker: CircuitBreaker,
        buffer: SendBuffer,
        config: ClientConfig,
        *,
        on_unknown_topic: Callable[[], None],
    ) -> None:
        self.topic, self.broker, self.queue_id = topic, broker, queue_id
        self.connection = connection
        self._header = SendRequest(topic=topic, queue_id=queue_id).SerializeToString()
        self.breaker = breaker
        self.alive = True
        self.default_level = Durability.DISK
        self.sequencer = Sequencer(
            new_producer_id, max_requests=config.max_in_flight_requests, max_messages=_MAX_IN_FLIGHT
        )
        self.open: Request | None = None  # takes messages until it is sealed
        self.open_unsequenced: Request | None = None  # the same for durability ``none``
        self.refusal: LiteMQError | None = None  # the broker's last answer, if it was a retriable refusal
        self.on_unknown_topic = on_unknown_topic
        self._unsequenced: deque[Request] = deque()
        self._unsequenced_in_flight: dict[int, Request] = {}
        self._config = config
        self._buffer = buffer
        self._backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
        self._resume: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._answers, self._latency = 0, 0.0  # since the last report to the breaker
        self._template_id = self.sequencer.producer_id
        self._templates: dict[TemplateKey, RecordTemplate] = {}

    @property
    def is_idle(self) -> bool:
        return self.sequencer.is_idle and not self._unsequenced and not self._unsequenced_in_flight

    def template(self, key: TemplateKey) -> RecordTemplate:
        """Return the template for ``key``, with the current producer id of the queue."""
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            level, tags, content_type, properties, priority = key
            named = dict(properties)
            if content_type:
                named.setdefault("content-type", content_type)
            template = self._templates[key] = RecordTemplate(
                self.topic,
                tags=tags,
                properties=named,
                priority=priority,
                reliability=level,
                producer_id=self.sequencer.producer_id if level else 0,
                limits=RecordLimits(self._config.max_record_bytes),
            )
        return template

    def open_request(self, level: Durability) -> Request:
        """Open the request for messages of durability ``level``."""
        now = self._loop.time()
        if level:
            request = self.open = self.sequencer.open(now)
        else:
            request = self.open_unsequenced = Request(0, 0, now)
            self._unsequenced.append(request)
        return request

    def seal(self) -> None:
        """Seal the open requests: they take no more messages."""
        if self.open is not None:
            self.sequencer.seal(self.open)
            self.open = None
        if self.open_unsequenced is not None:
            self.open_unsequenced.sealed = True
            self.open_unsequenced = None

    def pump(self) -> None:
        """Send the requests that may be sent now."""
        if self._resume is not None:
            return
        channel = self.connection.channel
        if channel is None:
            self.connection.start_connecting()
            return
        sequencer = self.sequencer
        while sequencer.waiting and (request := sequencer.next_request()) is not None:
            self._send(channel, request)
        while (
            self._unsequenced
            and self._unsequenced[0].sealed
            and len(self._unsequenced_in_flight) < self._config.max_in_flight_requests
        ):
            request = self._unsequenced.popleft()
            request.sent_at = self._loop.time()
            self._unsequenced_in_flight[id(request)] = request
            channel.call(_SEND, self._header, b"".join(request.records), partial(self._on_unsequenced_answer, request))

    def send_alone(self, record: bytes, message_id: str, waiter: asyncio.Future[SendReceipt], *, pinned: bool) -> None:
        """Send one message as a request of its own: open, fill and seal it in one step."""
        sequencer = self.sequencer
        request = Request(sequencer.producer_id, sequencer.next_sequence, self._loop.time())
        request.records.append(record)
        request.ids.append(message_id)
        request.waiters.append(waiter)
        request.size = len(record)
        request.sealed = True
        request.pinned = pinned
        channel = self.connection.channel
        if channel is None or self._resume is not None:
            sequencer.next_sequence += 1
            sequencer.waiting.append(request)
            self.pump()
        elif sequencer.put(request):
            request.attempt = 1
            channel.call(_SEND, self._header, record, partial(self._on_answer, request, 1))

    def _send(self, channel: Channel, request: Request) -> None:
        request.attempt = attempt = request.attempt + 1
        request.sent_at = self._loop.time()
        records = request.records
        channel.call(
            _SEND,
            self._header,
            records[0] if len(records) == 1 else b"".join(records),
            partial(self._on_answer, request, attempt),
        )

    def _on_answer(
        self, request: Request, attempt: int, header: bytes, _attachment: bytes, error: LiteMQError | None
    ) -> None:
        if attempt != request.attempt:
            return  # of an earlier attempt
        if error is not None:
            self._on_error(request, error)
            return
        self._answers += 1
        self._latency += self._loop.time() - request.sent_at
        sequencer = self.sequencer
        failed = sequencer.acked(request)
        buffer = self._buffer
        buffer.used -= request.size
        if buffer.waiting:
            buffer.admit()
        self._settle(request, header, unpack_sent_answer(header))
        if failed or self.refusal is not None or not self.breaker.is_closed:
            self._on_recovery(failed)
        if sequencer.producer_id != self._template_id:
            self._drop_stale_templates()
        if sequencer.waiting:
            self.pump()

    def _on_recovery(self, failed: list[FailedRequest]) -> None:
        self._fail(failed)
        self._report(self._loop.time())
        if self.refusal is not None:
            self.refusal = None
            self._backoff.reset()

    def _report(self, now: float) -> None:
        """Report the answers so far to the breaker: one call for each would cost too much."""
        if self._answers:
            self.breaker.succeeded(self._latency / self._answers, now, self._answers)
            self._answers, self._latency = 0, 0.0

    def _settle(self, request: Request, header: bytes, plain: tuple[int, int] | None) -> None:
        if plain is not None:
            request.settle(SendReceipt, self.topic, self.broker, self.queue_id, *plain)
        else:
            self._settle_repeated(request, SendAnswer.FromString(header))

    def _settle_repeated(self, request: Request, answer: SendAnswer) -> None:
        """Resolve the receipts when some records were appended by an earlier attempt."""
        stored = [(earlier.queue_offset, earlier.store_timestamp) for earlier in answer.earlier]
        new = len(request.ids) - len(stored)
        stored += [(answer.queue_offset + n, answer.store_timestamp) for n in range(new)]
        for waiter, message_id, (offset, timestamp) in zip(request.waiters, request.ids, stored, strict=True):
            if not waiter.done():
                waiter.set_result(SendReceipt(self.topic, message_id, self.broker, self.queue_id, offset, timestamp))

    # Errors ---------------------------------------------------------------------------------------

    def _on_error(self, request: Request, error: LiteMQError) -> None:
        now = self._loop.time()
        sequencer = self.sequencer
        self._report(now)
        self.connection.note_error(error)
        if isinstance(error, (ConnectionLostError, RequestTimeoutError)):
            if request.first not in sequencer.sent:
                return  # already handled with the first error of this connection
            self.breaker.failed(now)
            failed = sequencer.lost(over=not self.connection.gave_up)
            self.connection.start_connecting()
        elif isinstance(error, StoreFailedError):
            # It does not mean "not appended": the broker knows what is on disk only after recovery.
            for sent in sequencer.sent.values():
                sent.attempt += 1  # ignore the other answers to these attempts
            self.breaker.failed(now)
            failed = sequencer.lost(over=True)
            self._pause(error)
        elif isinstance(error, NotConfirmedError):  # nor does this one
            self.breaker.failed(now)
            failed = sequencer.unconfirmed(request, error)
            self._pause(error)
        else:
            failed = sequencer.refused(request, error)
            if error.retriable:
                if not isinstance(error, OverloadedError):  # an overloaded broker works, it only limits the rate
                    self.breaker.failed(now)
                self._pause(error)
            elif isinstance(error, TopicNotFoundError):
                self.on_unknown_topic()
            elif not isinstance(error, SequenceGapError):
                self.breaker.failed(now)
        self._fail(failed)
        self._drop_stale_templates()
        self.pump()

    def _pause(self, error: LiteMQError) -> None:
        self.refusal = error
        if self._resume is None:  # else a request sent with it was refused before
            wait = self._backoff.next_delay(error.retry_after_ms if isinstance(error, OverloadedError) else 0)
            self._resume = self._loop.call_later(wait, self._end_pause)

    def _end_pause(self) -> None:
        self._resume = None
        self.pump()

    def _drop_stale_templates(self) -> None:
        """Drop the templates of an earlier producer id, and seal the request that uses one."""
        if self._template_id != self.sequencer.producer_id:
            self.seal()
            self._template_id = self.sequencer.producer_id
            self._templates.clear()

    def _on_unsequenced_answer(
        self, request: Request, header: bytes, _attachment: bytes, error: LiteMQError | None
    ) -> None:
        if self._unsequenced_in_flight.pop(id(request), None) is None:
            return
        if error is None:
            self._buffer.release(request.size)
            self._settle(request, header, unpack_sent_answer(header))
        elif isinstance(error, (ConnectionLostError, RequestTimeoutError)):
            self._fail(
                [
                    FailedRequest(
                        request, SendOutcomeUnknownError(f"{error}; messages of durability 'none' are not retried")
                    )
                ]
            )
        else:
            self._fail([FailedRequest(request, error)])
        if self._unsequenced:
            self.pump()

    def _fail(self, failed: Iterable[FailedRequest]) -> None:
        for request, error in failed:
            for waiter in request.waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            self._buffer.release(request.size)

    def sweep(self, now: float) -> None:
        """Close a connection that does not answer, and fail requests that are too old."""
        self._report(now)
        oldest = next(iter(self.sequencer.sent.values()), None) or next(
            iter(self._unsequenced_in_flight.values()), None
        )
        limit = self._config.request_timeout_ms / 1000
        if oldest is not None and now - oldest.sent_at > _SLOW_S:
            self.connection.note_silence()
        if oldest is not None and now - oldest.sent_at > limit:
            self.breaker.failed(now)
            self.connection.give_up(RequestTimeoutError(f"broker {self.broker!r} did not answer within {limit:g} s"))
        reason = self.connection.lost(f"within {self._config.delivery_timeout_ms} ms (delivery_timeout_ms)")
        born_before = now - self._config.delivery_timeout_ms / 1000
        self._fail(self.sequencer.expire(born_before, reason))
        while self._unsequenced and self._unsequenced[0].sealed and self._unsequenced[0].born_at <= born_before:
            self._fail([FailedRequest(self._unsequenced.popleft(), reason)])

    def waiters(self) -> list[asyncio.Future[SendReceipt]]:
        """Return the futures of all receipts that are pending."""
        held = [*self.sequencer.held(), *self._unsequenced, *self._unsequenced_in_flight.values()]
        return [waiter for request in held for waiter in request.waiters if not waiter.done()]

    def close(self, reason: LiteMQError) -> None:
        """Fail all pending messages with ``reason``; the outcome of those in flight is unknown."""
        if self._resume is not None:
            self._resume.cancel()
        self.open = self.open_unsequenced = None
        self._fail(self.sequencer.abandon(reason))
        in_flight = [
            FailedRequest(request, SendOutcomeUnknownError(str(reason)))
            for request in self._unsequenced_in_flight.values()
        ]
        self._fail([*in_flight, *(FailedRequest(request, reason) for request in self._unsequenced)])
        self._unsequenced.clear()
        self._unsequenced_in_flight.clear()
