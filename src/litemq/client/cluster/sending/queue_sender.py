"""The sends to one queue: what the sequencer says goes out, and what comes back is told to those who wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from litemq.client.backoff import Backoff
from litemq.client.cluster.sending.circuit_breaker import CircuitBreaker
from litemq.client.cluster.sending.request import Request
from litemq.client.cluster.sending.send_buffer import Room
from litemq.client.cluster.sending.sequencer import Failed, Sequencer
from litemq.client.config import ClientConfig
from litemq.client.identity import new_producer_id
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.transport.channel import Channel
from litemq.errors import (
    ConnectionLostError,
    LiteMQError,
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
from litemq.types import DEFAULT_PRIORITY, Durability

__all__ = ["QueueSender", "Way"]

_MOST_IN_FLIGHT: Final = 1024  # messages a producer and queue: what a broker remembers
_MOST_TEMPLATES: Final = 256
_new_tuple: Final = tuple.__new__  # a named tuple's own way costs twice as much
_SEND: Final = int(Opcode.SEND)

# What messages of one kind share: level, tags, content type, properties.
TemplateKey = tuple[Durability, tuple[str, ...], str, tuple[tuple[str, str], ...], int]


class Way(Protocol):
    """The way to a broker: a connection that is made again when it ends."""

    @property
    def channel(self) -> Channel | None:
        """The connection there is."""
        ...

    @property
    def gave_up(self) -> bool:
        """Whether this side ended the last connection."""
        ...

    def give_up(self, reason: LiteMQError) -> None:
        """End a connection that does not answer."""
        ...

    def wake(self) -> None:
        """See to it that there will be a connection."""
        ...


class QueueSender:
    """Everything that is on its way to one queue, and what waits to follow."""

    __slots__ = (
        "_answers",
        "_backoff",
        "_config",
        "_header",
        "_latency",
        "_loop",
        "_loose",
        "_loose_in_flight",
        "_resume",
        "_room",
        "_template_id",
        "_templates",
        "alive",
        "breaker",
        "broker",
        "default_level",
        "loose",
        "open",
        "plain",
        "queue_id",
        "refusing",
        "sequencer",
        "topic",
        "unknown_topic",
        "way",
    )

    def __init__(
        self,
        topic: str,
        broker: str,
        queue_id: int,
        way: Way,
        breaker: CircuitBreaker,
        room: Room,
        config: ClientConfig,
        *,
        unknown_topic: Callable[[], None],
    ) -> None:
        self.topic, self.broker, self.queue_id = topic, broker, queue_id
        self.way = way
        self._header = SendRequest(topic=topic, queue_id=queue_id).SerializeToString()
        self.breaker = breaker
        self.alive = True
        self.default_level = Durability.DISK
        self.sequencer = Sequencer(new_producer_id, max_requests=config.max_in_flight_requests, max_messages=_MOST_IN_FLIGHT)
        self.open: Request | None = None  # still growing
        self.loose: Request | None = None  # still growing, of messages that are never repeated
        self.refusing = False  # the broker's last answer was that it cannot take more
        self.unknown_topic = unknown_topic
        self._loose: deque[Request] = deque()
        self._loose_in_flight: dict[int, Request] = {}
        self._config = config
        self._room = room
        self._backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
        self._resume: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._answers, self._latency = 0, 0.0  # since the breaker was told
        self._template_id = self.sequencer.producer_id
        self.plain: RecordTemplate | None = None
        self._templates: dict[TemplateKey, RecordTemplate] = {}

    @property
    def is_idle(self) -> bool:
        return self.sequencer.is_idle and not self._loose and not self._loose_in_flight

    def plain_template(self) -> RecordTemplate:
        """What encodes the messages that are nothing but a body and a key."""
        self.plain = template = self.template((self.default_level, (), "", (), DEFAULT_PRIORITY))
        return template

    def template(self, key: TemplateKey) -> RecordTemplate:
        """What encodes the messages of one kind, under the queue's present producer id."""
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
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
        """The request that a message of this level joins."""
        now = self._loop.time()
        if level:
            request = self.open = self.sequencer.open(now)
        else:
            request = self.loose = Request(0, 0, now)
            self._loose.append(request)
        return request

    def ripen(self) -> None:
        """Nothing more joins what has been gathered."""
        if self.open is not None:
            self.open.ripe = True
            self.open = None
        if self.loose is not None:
            self.loose.ripe = True
            self.loose = None

    def pump(self) -> None:
        """Send what may go."""
        if self._resume is not None:
            return
        channel = self.way.channel
        if channel is None:
            self.way.wake()
            return
        sequencer = self.sequencer
        while sequencer.waiting and (request := sequencer.next()) is not None:
            self._send(channel, request)
        while self._loose and self._loose[0].ripe and len(self._loose_in_flight) < self._config.max_in_flight_requests:
            request = self._loose.popleft()
            request.sent_at = self._loop.time()
            self._loose_in_flight[id(request)] = request
            channel.call(_SEND, self._header, b"".join(request.records), partial(self._answered_loose, request))

    def send_alone(self, record: bytes, message_id: str, waiter: asyncio.Future[SendReceipt], *, pinned: bool) -> None:
        """A message that shares its request with no other: the same as a request that is opened, filled and ripe, in fewer steps."""
        sequencer = self.sequencer
        request = Request(sequencer.producer_id, sequencer.next_sequence, self._loop.time())
        request.records.append(record)
        request.ids.append(message_id)
        request.waiters.append(waiter)
        request.size = len(record)
        request.ripe = True
        request.pinned = pinned
        channel = self.way.channel
        if channel is None or self._resume is not None:
            sequencer.next_sequence += 1
            sequencer.waiting.append(request)
            self.pump()
        elif sequencer.put(request):
            request.attempt = 1
            channel.call(_SEND, self._header, record, partial(self._answered, request, 1))

    def _send(self, channel: Channel, request: Request) -> None:
        request.attempt = attempt = request.attempt + 1
        request.sent_at = self._loop.time()
        records = request.records
        channel.call(_SEND, self._header, records[0] if len(records) == 1 else b"".join(records), partial(self._answered, request, attempt))

    def _answered(self, request: Request, attempt: int, header: bytes, _attachment: bytes, error: LiteMQError | None) -> None:
        if attempt != request.attempt:
            return  # it was sent again since
        if error is not None:
            self._troubled(request, error)
            return
        self._answers += 1
        self._latency += self._loop.time() - request.sent_at
        sequencer = self.sequencer
        failed = sequencer.acked(request)
        room = self._room
        room.taken -= request.size
        if room.waiting:
            room.admit()
        waiters = request.waiters
        plain = unpack_sent_answer(header)
        if plain is not None and len(waiters) == 1:
            waiter = waiters[0]
            if not waiter.done():
                waiter.set_result(_new_tuple(SendReceipt, (self.topic, request.ids[0], self.broker, self.queue_id, *plain)))
        else:
            self._settle(request, header, plain)
        if failed or self.refusing or not self.breaker.is_closed:
            self._recovered(failed)
        if sequencer.producer_id != self._template_id:
            self._renewed()
        if sequencer.waiting:
            self.pump()

    def _recovered(self, failed: list[Failed]) -> None:
        self._fail(failed)
        self._report(self._loop.time())
        if self.refusing:
            self.refusing = False
            self._backoff.reset()

    def _report(self, now: float) -> None:
        """Tell the breaker how it went since the last time: that costs too much to do for each request."""
        if self._answers:
            self.breaker.succeeded(self._latency / self._answers, now, self._answers)
            self._answers, self._latency = 0, 0.0

    def _settle(self, request: Request, header: bytes, plain: tuple[int, int] | None) -> None:
        if plain is not None:
            offset, timestamp = plain
            topic, broker, queue_id = self.topic, self.broker, self.queue_id
            step = 1 if offset >= 0 else 0
            for waiter, message_id in zip(request.waiters, request.ids, strict=True):
                if not waiter.done():
                    waiter.set_result(_new_tuple(SendReceipt, (topic, message_id, broker, queue_id, offset, timestamp)))
                offset += step
        else:
            self._settle_repeated(request, SendAnswer.FromString(header))

    def _settle_repeated(self, request: Request, answer: SendAnswer) -> None:
        """Some of the records had been appended by an earlier try."""
        places = [(earlier.queue_offset, earlier.store_timestamp) for earlier in answer.earlier]
        new = len(request.ids) - len(places)
        places += [(answer.queue_offset + n, answer.store_timestamp) for n in range(new)]
        for waiter, message_id, (offset, timestamp) in zip(request.waiters, request.ids, places, strict=True):
            if not waiter.done():
                waiter.set_result(SendReceipt(self.topic, message_id, self.broker, self.queue_id, offset, timestamp))

    # When it does not go well -------------------------------------------------------------------------------------------------

    def _troubled(self, request: Request, error: LiteMQError) -> None:
        now = self._loop.time()
        sequencer = self.sequencer
        self._report(now)
        if isinstance(error, (ConnectionLostError, RequestTimeoutError)):
            if request.first not in sequencer.sent:
                return  # all of this connection were counted as lost with the first of them
            self.breaker.failed(now)
            failed = sequencer.lost(over=not self.way.gave_up)
            self.way.wake()
        elif isinstance(error, StoreFailedError):
            # The one error that does not say "not appended": what the disk holds is known when the broker has recovered from it.
            for sent in sequencer.sent.values():
                sent.attempt += 1  # other answers to this try say nothing more
            self.breaker.failed(now)
            failed = sequencer.lost(over=True)
            self._wait_a_while(error)
        else:
            failed = sequencer.refused(request, error)
            if error.retriable:
                if not isinstance(error, OverloadedError):  # a broker that says when to come again is well
                    self.breaker.failed(now)
                self._wait_a_while(error)
            elif isinstance(error, TopicNotFoundError):
                self.unknown_topic()
            elif not isinstance(error, SequenceGapError):
                self.breaker.failed(now)
        self._fail(failed)
        self._renewed()
        self.pump()

    def _wait_a_while(self, error: LiteMQError) -> None:
        self.refusing = True
        if self._resume is None:  # else one that was sent with it was refused, too
            wait = self._backoff.next(error.retry_after_ms if isinstance(error, OverloadedError) else 0)
            self._resume = self._loop.call_later(wait, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        self.pump()

    def _renewed(self) -> None:
        """Templates that encode for a former producer id are of no use for the present one."""
        if self._template_id != self.sequencer.producer_id:
            self._template_id = self.sequencer.producer_id
            self._templates.clear()
            self.plain = None

    def _answered_loose(self, request: Request, header: bytes, _attachment: bytes, error: LiteMQError | None) -> None:
        if self._loose_in_flight.pop(id(request), None) is None:
            return
        if error is None:
            self._room.give_back(request.size)
            self._settle(request, header, unpack_sent_answer(header))
        elif isinstance(error, (ConnectionLostError, RequestTimeoutError)):
            self._fail([Failed(request, SendOutcomeUnknownError(f"{error}; messages of durability 'none' are not sent again"))])
        else:
            self._fail([Failed(request, error)])
        if self._loose:
            self.pump()

    def _fail(self, failed: Iterable[Failed]) -> None:
        for request, error in failed:
            for waiter in request.waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            self._room.give_back(request.size)

    def sweep(self, now: float) -> None:
        """Give up what has waited for too long."""
        self._report(now)
        oldest = next(iter(self.sequencer.sent.values()), None) or next(iter(self._loose_in_flight.values()), None)
        limit = self._config.request_timeout_ms / 1000
        if oldest is not None and now - oldest.sent_at > limit:
            self.breaker.failed(now)
            self.way.give_up(RequestTimeoutError(f"{self.broker} did not answer within {limit:g} s"))
        reason = ConnectionLostError(
            f"no connection to broker {self.broker!r} within {self._config.delivery_timeout_ms} ms (delivery_timeout_ms)"
        )
        born_before = now - self._config.delivery_timeout_ms / 1000
        self._fail(self.sequencer.expire(born_before, reason))
        while self._loose and self._loose[0].ripe and self._loose[0].born_at <= born_before:
            self._fail([Failed(self._loose.popleft(), reason)])

    def waiters(self) -> list[asyncio.Future[SendReceipt]]:
        """All that are still waited for."""
        held = [*self.sequencer.held(), *self._loose, *self._loose_in_flight.values()]
        return [waiter for request in held for waiter in request.waiters if not waiter.done()]

    def close(self, reason: LiteMQError) -> None:
        """Tell all who still wait that nobody will find out."""
        if self._resume is not None:
            self._resume.cancel()
        self.open = self.loose = None
        self._fail(self.sequencer.abandon(reason))
        on_way = [Failed(request, SendOutcomeUnknownError(str(reason))) for request in self._loose_in_flight.values()]
        self._fail([*on_way, *(Failed(request, reason) for request in self._loose)])
        self._loose.clear()
        self._loose_in_flight.clear()
