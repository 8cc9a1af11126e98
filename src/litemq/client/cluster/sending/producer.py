"""The producer: encode messages, batch them by queue, and bound the memory of unsent messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.cluster.sending.circuit_breaker import CircuitBreaker
from litemq.client.cluster.sending.queue_sender import QueueSender, SenderConnection
from litemq.client.cluster.sending.request import Request
from litemq.client.cluster.sending.send_buffer import SendBuffer
from litemq.client.cluster.sending.topic_sender import PendingMessage, QueueChooser, TopicSender
from litemq.client.config import ClientConfig, durability_level
from litemq.client.engine.engine import AddPlain
from litemq.client.engine.routes import Route, random_index
from litemq.client.identity import MESSAGE_ID_BYTES, new_message_ids
from litemq.client.messages.delivery_options import NO_OPTIONS, DeliveryOptions
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import ClientClosedError, InvalidArgumentError, LiteMQError
from litemq.types import DEFAULT_PRIORITY, BodyCodec, Durability, MessageType, check_name

__all__ = ["Producer"]

_SWEEP_SECONDS: Final = 0.1
_NORMAL: Final = MessageType.NORMAL  # looking up an enum member is slow
_DELAYED: Final = MessageType.DELAY
_RECORD_OVERHEAD: Final = 256  # bytes of a record besides the body, approximately


class Producer:
    """All sends of one client."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        route: Callable[[str], Awaitable[Route]],
        connection: Callable[[str, int, Callable[[], None]], SenderConnection],
        on_topic_gone: Callable[[str], None],
        add_plain: dict[str, AddPlain],
    ) -> None:
        """``add_plain`` gets, by topic, the function that adds to the request that is open."""
        self._config = config
        self._add_plain = add_plain
        self._level = None if config.durability is None else durability_level(config.durability)
        self._route = route
        self._connection = connection
        self._on_topic_gone = on_topic_gone
        self._loop = asyncio.get_running_loop()
        self._ids = new_message_ids()
        self._topics: dict[str, TopicSender] = {}
        self._breakers: dict[str, CircuitBreaker] = {}
        self._open: list[tuple[QueueChooser, QueueSender]] = []  # queues with a request that is not sealed
        self.buffer = SendBuffer(config.buffer_bytes)
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._flushing = 0  # calls of ``flush`` that wait
        self._new_future = self._loop.create_future
        self._max_batch_bytes = config.max_batch_bytes
        self._max_batch_messages = config.max_batch_messages
        self._linger = config.linger_ms / 1000
        self._alone = config.max_batch_messages == 1

    @property
    def topics(self) -> list[str]:
        """Return the topics that messages were sent to."""
        return list(self._topics)

    # One message ----------------------------------------------------------------------------------

    def post(
        self,
        topic: str,
        body: bytes,
        codec: BodyCodec,
        content_type: str,
        tags: tuple[str, ...],
        keys: Sequence[str],
        properties: tuple[tuple[str, str], ...],
        ordering_key: str,
        level: Durability | None,
        options: DeliveryOptions = NO_OPTIONS,
        waiter: asyncio.Future[SendReceipt] | None = None,
        /,
    ) -> asyncio.Future[SendReceipt]:
        """Take a message; the future is its receipt. Raises ``BufferFullError``.

        ``waiter`` is set when a message is posted again, after its topic's route was found.
        """
        buffer = self.buffer
        sender = self._topics.get(topic)
        if sender is None:
            sender = self._new_topic(topic)
        if waiter is None:
            if buffer.used >= buffer.limit:
                raise buffer.full_error()
            waiter = self._new_future()
            if not sender.queues or sender.unrouted:
                message = PendingMessage(
                    body, codec, content_type, tags, keys, properties, ordering_key, level, options, waiter
                )
                self._hold_unrouted(sender, message)
                return waiter
        chooser = sender.for_priority(options.priority) if sender.classes or options is not NO_OPTIONS else sender
        queue = chooser.for_key(ordering_key) if ordering_key else chooser.present or chooser.choose(keys)
        delay_time, expire_at, priority = options
        if level is None:
            level = queue.default_level
        template = queue.template((level, tags, content_type, properties, priority))
        message_id, now = self._ids.next()
        sequencer = queue.sequencer
        request = queue.open if level else queue.open_unsequenced
        sequence = 0
        if level:
            sequence = sequencer.next_sequence if request is None else request.first + len(request.records)
        record = template.encode(
            body,
            message_id=message_id,
            keys=keys,
            born_timestamp=now,
            sequence=sequence,
            sharding_key=ordering_key,
            codec=codec,
            delay_time=delay_time,
            expire_at=expire_at,
            message_type=_DELAYED if delay_time else _NORMAL,
        )
        size = len(record)
        buffer.used += size
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        if self._alone and level:
            chooser.advance()
            queue.send_alone(record, message_id, waiter, pinned=bool(ordering_key))
            return waiter
        if request is None or request.size + size > self._max_batch_bytes:
            request = self._next_request(chooser, queue, request, level)
            if queue is sender.present:
                self._take_plain(queue, request, level)
        if ordering_key:
            request.pinned = True
        request.records.append(record)
        request.ids.append(message_id)
        request.waiters.append(waiter)
        request.size += size
        if self._alone or len(request.records) >= self._max_batch_messages:
            self._send_request(chooser, queue)
        return waiter

    def _hold_unrouted(self, sender: TopicSender, message: PendingMessage) -> None:
        """Keep a message until the route of its topic is known."""
        self.buffer.used += len(message.body) + _RECORD_OVERHEAD
        sender.unrouted.append(message)
        self._find_route(sender)

    def _next_request(
        self, chooser: QueueChooser, queue: QueueSender, full: Request | None, level: Durability
    ) -> Request:
        """Send the request ``full``, if any, and open the next one of ``queue``.

        The message at hand has a number of ``queue``; the ones after it go to another queue.
        """
        if full is not None:
            self._send_request(chooser, queue)
        request = queue.open_request(level)
        if not self._alone:
            self._schedule_send(chooser, queue)
        return request

    def _take_plain(self, queue: QueueSender, request: Request, level: Durability) -> None:
        """Let ``request`` take the next messages to its topic that have only a body."""
        plain_level = queue.default_level if self._level is None else self._level
        if bool(plain_level) is not bool(level):
            return
        template = queue.template((plain_level, (), "", (), DEFAULT_PRIORITY))
        request.take_plain(
            template.head(MESSAGE_ID_BYTES),
            self._ids,
            self.buffer,
            self._new_future,
            self._config.max_record_bytes,
            self._max_batch_bytes,
            self._max_batch_messages,
            bool(level),
        )
        self._add_plain[queue.topic] = request.add

    def _send_request(self, chooser: QueueChooser, queue: QueueSender) -> None:
        """Seal and send the open request of ``queue``; the next messages go to another queue."""
        queue.seal()
        chooser.leave(queue)
        queue.pump()

    def _schedule_send(self, chooser: QueueChooser, queue: QueueSender) -> None:
        """Send the open request of ``queue`` at the end of this tick, or after ``linger_ms``."""
        if not self._open:
            if self._linger and not self._flushing:
                self._loop.call_later(self._linger, self._send_gathered)
            else:
                self._loop.call_soon(self._send_gathered)
        self._open.append((chooser, queue))

    def _send_gathered(self) -> None:
        open_queues, self._open = self._open, []
        for chooser, queue in open_queues:
            if queue.open is not None or queue.open_unsequenced is not None:  # else it was full, and has been sent
                queue.seal()
                queue.pump()
            chooser.advance()

    async def queue_for(
        self, topic: str, broker: str, ordering_key: str, keys: Sequence[str], priority: int
    ) -> QueueSender:
        """Choose the queue of a message that is not sent by ``post``.

        If ``broker`` is not empty, choose one of its queues.
        """
        sender = self._topics.get(topic)
        if sender is None:
            sender = self._new_topic(topic)
        if not sender.queues:
            await self._find_queues(sender)
        chooser = sender.for_priority(priority)
        if ordering_key:
            queue = chooser.for_key(ordering_key)
            if broker and queue.broker != broker:
                raise InvalidArgumentError(
                    f"ordering_key={ordering_key!r} belongs to broker {queue.broker!r}, "
                    f"and the transaction is on {broker!r}: "
                    "all messages of a transaction must be on one broker"
                )
            return queue
        if not broker:
            queue = chooser.choose(keys)
            chooser.advance()
            return queue
        queues = [queue for queue in chooser.queues if queue.broker == broker]
        if not queues:
            raise InvalidArgumentError(
                f"broker {broker!r} has no queue of topic {topic!r}: "
                "all messages of a transaction must be on one broker"
            )
        return queues[random_index(len(queues))]

    async def _find_queues(self, sender: TopicSender) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        while not sender.queues:
            try:
                self.update_route(await self._route(sender.topic))
            except LiteMQError as error:
                if not error.retriable or self._loop.time() >= until:
                    raise
                await asyncio.sleep(backoff.next_delay())

    # Routes ---------------------------------------------------------------------------------------

    def _new_topic(self, topic: str) -> TopicSender:
        check_name(topic)
        sender = self._topics[topic] = TopicSender(topic, self._config, self._new_queue)
        return sender

    def _new_queue(self, topic: str, broker: str, queue_id: int) -> QueueSender:
        breaker = self._breakers.setdefault(broker, CircuitBreaker())

        def on_open() -> None:
            sender.pump()

        sender = QueueSender(
            topic,
            broker,
            queue_id,
            self._connection(broker, queue_id, on_open),
            breaker,
            self.buffer,
            self._config,
            on_unknown_topic=lambda: self._on_topic_gone(topic),
        )
        sender.connection.start_connecting()
        return sender

    def _find_route(self, sender: TopicSender) -> None:
        if sender.routing is None:
            sender.routing = self._loop.create_task(
                self._find_first_route(sender), name=f"litemq finds the route of {sender.topic}"
            )

    async def _find_first_route(self, sender: TopicSender) -> None:
        failure: LiteMQError | None = None
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        try:
            while not sender.queues:
                try:
                    self.update_route(await self._route(sender.topic))
                except LiteMQError as error:
                    if not error.retriable or self._loop.time() >= until:
                        failure = error
                        break
                    await asyncio.sleep(backoff.next_delay())
        finally:
            sender.routing = None
            unrouted, sender.unrouted = sender.unrouted, []
            for message in unrouted:
                self.buffer.release(len(message.body) + _RECORD_OVERHEAD)
                if message.waiter.done():
                    continue
                if failure is not None or not sender.queues:
                    message.waiter.set_exception(
                        failure or ClientClosedError("the client was closed before the topic's route was found")
                    )
                    continue
                try:
                    self.post(sender.topic, *message)
                except Exception as error:  # noqa: BLE001  it belongs to this message: send the others
                    message.waiter.set_exception(error)

    def update_route(self, route: Route) -> None:
        """Use ``route`` from now on, if messages were sent to its topic."""
        sender = self._topics.get(route.topic)
        if sender is not None:
            sender.update_route(route)

    def forget(self, topic: str) -> None:
        """Drop the queues of a deleted topic: the next message fetches the route again."""
        sender = self._topics.get(topic)
        if sender is not None:
            sender.queues = []

    # Sweep, flush and close -----------------------------------------------------------------------

    def _sweep(self) -> None:
        self._sweeping = None
        now = self._loop.time()
        busy = False
        for topic in self._topics.values():
            busy = busy or bool(topic.unrouted)
            for sender in topic.senders:
                if sender.is_idle:
                    continue
                busy = True
                sender.sweep(now)
                if sender.connection.channel is None or sender.refusal is not None:
                    self._move(topic, sender)
        if busy and not self._closed:
            self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _move(self, topic: TopicSender, sender: QueueSender) -> None:
        """Move requests without ordering key and append risk to a queue of a healthy broker."""
        other = topic.other_broker_queue(sender)
        if other is not None:
            other.seal()  # the open request must have consecutive numbers
            for request in sender.sequencer.take_movable():
                other.sequencer.adopt(request)
            other.pump()

    def refusals(self) -> dict[str, str]:
        """Return why brokers refuse messages that are sent again, by broker."""
        senders = (sender for topic in self._topics.values() for sender in topic.senders)
        return {
            sender.broker: str(sender.refusal)
            for sender in senders
            if sender.refusal is not None and sender.connection.channel is not None and not sender.is_idle
        }

    def waiters(self) -> list[asyncio.Future[SendReceipt]]:
        """Return the futures of all receipts that are pending."""
        waiters = []
        for topic in self._topics.values():
            waiters += [message.waiter for message in topic.unrouted]
            for sender in topic.senders:
                waiters += sender.waiters()
        return waiters

    async def flush(self, within: float | None = None) -> None:
        """Wait until every message posted so far is stored or has failed."""
        self._send_gathered()
        waiters = self.waiters()
        if waiters:
            self._flushing += 1  # messages that wait for a route do not linger once it is found
            try:
                await asyncio.wait(waiters, timeout=within)
            finally:
                self._flushing -= 1

    async def close(self, within: float) -> None:
        """Send buffered messages for up to ``within`` seconds, then fail the rest."""
        await self.flush(within)
        self._closed = True
        self._add_plain.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
        reason = ClientClosedError(
            f"the client was closed before the message was sent, after {within:g} s (shutdown_timeout_ms)"
        )
        for topic in self._topics.values():
            if topic.routing is not None:
                topic.routing.cancel()
            for sender in topic.senders:
                sender.close(reason)
        self.buffer.close()
