"""Sending: messages are encoded, gathered by queue, sent together, and bounded in what they take of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.cluster.sending.circuit_breaker import CircuitBreaker
from litemq.client.cluster.sending.queue_sender import QueueSender, Way
from litemq.client.cluster.sending.request import Request
from litemq.client.cluster.sending.send_buffer import Room
from litemq.client.cluster.sending.topic_sender import Posted, QueueChooser, TopicSender
from litemq.client.config import ClientConfig
from litemq.client.engine.routes import Route, pick
from litemq.client.identity import MessageIds
from litemq.client.messages.delivery_options import PLAIN, Terms
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import ClientClosedError, InvalidArgumentError, LiteMQError
from litemq.types import DEFAULT_PRIORITY, BodyCodec, Durability, MessageType, check_name

__all__ = ["Producer"]

_SWEEP_SECONDS: Final = 0.1
_NORMAL: Final = MessageType.NORMAL  # a member of an enum costs much to look up
_DELAYED: Final = MessageType.DELAY
_RECORD_OVERHEAD: Final = 256  # what a message takes besides its body, about


class Producer:
    """All sends of one client."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        route: Callable[[str], Awaitable[Route]],
        way: Callable[[str, int, Callable[[], None]], Way],
        topic_gone: Callable[[str], None],
    ) -> None:
        self._config = config
        self._route = route
        self._way = way
        self._topic_gone = topic_gone
        self._loop = asyncio.get_running_loop()
        self._ids = MessageIds()
        self._topics: dict[str, TopicSender] = {}
        self._breakers: dict[str, CircuitBreaker] = {}
        self._growing: list[tuple[QueueChooser, QueueSender]] = []  # queues with a request that is not ripe
        self.room = Room(config.buffer_bytes)
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._flushing = 0  # how many wait for everything to go out
        self._new_future = self._loop.create_future
        self._max_batch_bytes = config.max_batch_bytes
        self._max_batch_messages = config.max_batch_messages
        self._linger = config.linger_ms / 1000
        self._alone = config.max_batch_messages == 1

    @property
    def topics(self) -> list[str]:
        """The topics that were sent to."""
        return list(self._topics)

    # One message --------------------------------------------------------------------------------------------------------------

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
        terms: Terms = PLAIN,
        waiter: asyncio.Future[SendReceipt] | None = None,
        /,
    ) -> asyncio.Future[SendReceipt]:
        """Take a message; the future is its receipt. Raises ``BufferFullError`` where too much waits.

        ``waiter`` is given by a message that comes for the second time, after its topic's route was found.
        """
        room = self.room
        sender = self._topics.get(topic)
        if sender is None:
            sender = self._new_topic(topic)
        if waiter is None:
            if room.taken >= room.limit:
                raise room.full()
            waiter = self._new_future()
            if not sender.queues or sender.unrouted:
                posted = Posted(body, codec, content_type, tags, keys, properties, ordering_key, level, terms, waiter)
                self._post_unrouted(sender, posted)
                return waiter
        chooser = sender.of_priority(terms.priority) if sender.classes or terms is not PLAIN else sender
        queue = chooser.for_key(ordering_key) if ordering_key else chooser.present or chooser.choose(keys)
        delay_time, expire_at, priority = terms
        if level is None:
            level = queue.default_level
            if tags or content_type or properties or priority != DEFAULT_PRIORITY:
                template = queue.template((level, tags, content_type, properties, priority))
            else:
                template = queue.plain or queue.plain_template()
        else:
            template = queue.template((level, tags, content_type, properties, priority))
        message_id, now = self._ids.next()
        sequencer = queue.sequencer
        record = template.encode(
            body,
            message_id=message_id,
            keys=keys,
            born_timestamp=now,
            sequence=sequencer.next_sequence if level else 0,
            sharding_key=ordering_key,
            codec=codec,
            delay_time=delay_time,
            expire_at=expire_at,
            message_type=_DELAYED if delay_time else _NORMAL,
        )
        size = len(record)
        room.taken += size
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        if self._alone and level:
            chooser.advance()
            queue.send_alone(record, message_id, waiter, pinned=bool(ordering_key))
            return waiter
        request = queue.open if level else queue.loose
        if request is None or request.size + size > self._max_batch_bytes:
            request = self._next_request(chooser, queue, request, level)
        if level:
            sequencer.next_sequence += 1
        if ordering_key:
            request.pinned = True
        request.records.append(record)
        request.ids.append(message_id)
        request.waiters.append(waiter)
        request.size += size
        if self._alone or len(request.records) >= self._max_batch_messages:
            self._send_request(chooser, queue)
        return waiter

    def _post_unrouted(self, sender: TopicSender, posted: Posted) -> None:
        """Keep a message until the route of its topic is known."""
        self.room.taken += len(posted.body) + _RECORD_OVERHEAD
        sender.unrouted.append(posted)
        self._find_route(sender)

    def _next_request(self, chooser: QueueChooser, queue: QueueSender, full: Request | None, level: Durability) -> Request:
        """Send the request that is ``full``, if there is one, and open the next one of ``queue``."""
        if full is not None:
            queue.ripen()
            queue.pump()
        request = queue.open_request(level)
        if not self._alone:
            self._grow(chooser, queue)
        return request

    def _send_request(self, chooser: QueueChooser, queue: QueueSender) -> None:
        """Send what ``queue`` has gathered; the next messages go to another queue."""
        queue.ripen()
        chooser.advance()
        queue.pump()

    def _grow(self, chooser: QueueChooser, queue: QueueSender) -> None:
        """See to it that what has begun to be gathered goes out."""
        if not self._growing:
            if self._linger and not self._flushing:
                self._loop.call_later(self._linger, self._send_gathered)
            else:
                self._loop.call_soon(self._send_gathered)
        self._growing.append((chooser, queue))

    def _send_gathered(self) -> None:
        growing, self._growing = self._growing, []
        for chooser, queue in growing:
            self._send_request(chooser, queue)

    async def queue_for(self, topic: str, broker: str, ordering_key: str, keys: Sequence[str], priority: int) -> QueueSender:
        """A queue for a message that is not posted here; of this broker, where one is named."""
        sender = self._topics.get(topic)
        if sender is None:
            sender = self._new_topic(topic)
        if not sender.queues:
            await self._find_queues(sender)
        chooser = sender.of_priority(priority)
        if ordering_key:
            queue = chooser.for_key(ordering_key)
            if broker and queue.broker != broker:
                raise InvalidArgumentError(
                    f"ordering_key={ordering_key!r} belongs to broker {queue.broker!r}, and the transaction is at {broker!r}: all messages of "
                    f"one transaction are at one broker"
                )
            return queue
        if not broker:
            queue = chooser.choose(keys)
            chooser.advance()
            return queue
        of_broker = [queue for queue in chooser.queues if queue.broker == broker]
        if not of_broker:
            raise InvalidArgumentError(
                f"broker {broker!r} has no queue of topic {topic!r}: all messages of one transaction are at one broker"
            )
        return of_broker[pick(len(of_broker))]

    async def _find_queues(self, sender: TopicSender) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        while not sender.queues:
            try:
                self.follow(await self._route(sender.topic))
            except LiteMQError as error:
                if not error.retriable or self._loop.time() >= until:
                    raise
                await asyncio.sleep(backoff.next())

    # Routes -------------------------------------------------------------------------------------------------------------------

    def _new_topic(self, topic: str) -> TopicSender:
        check_name(topic)
        sender = self._topics[topic] = TopicSender(topic, self._config, self._new_queue)
        return sender

    def _new_queue(self, topic: str, broker: str, queue_id: int) -> QueueSender:
        breaker = self._breakers.setdefault(broker, CircuitBreaker())

        def opened() -> None:
            sender.pump()

        sender = QueueSender(
            topic,
            broker,
            queue_id,
            self._way(broker, queue_id, opened),
            breaker,
            self.room,
            self._config,
            unknown_topic=lambda: self._topic_gone(topic),
        )
        sender.way.wake()
        return sender

    def _find_route(self, sender: TopicSender) -> None:
        if sender.routing is None:
            sender.routing = self._loop.create_task(self._follow_first_route(sender), name=f"litemq finds the route of {sender.topic}")

    async def _follow_first_route(self, sender: TopicSender) -> None:
        failure: LiteMQError | None = None
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        try:
            while not sender.queues:
                try:
                    self.follow(await self._route(sender.topic))
                except LiteMQError as error:
                    if not error.retriable or self._loop.time() >= until:
                        failure = error
                        break
                    await asyncio.sleep(backoff.next())
        finally:
            sender.routing = None
            unrouted, sender.unrouted = sender.unrouted, []
            for posted in unrouted:
                self.room.give_back(len(posted.body) + _RECORD_OVERHEAD)
                if posted.waiter.done():
                    continue
                if failure is not None or not sender.queues:
                    posted.waiter.set_exception(failure or ClientClosedError("the client was closed before the topic's route was known"))
                    continue
                try:
                    self.post(sender.topic, *posted)
                except Exception as error:  # noqa: BLE001  whoever sent it is told, and the others are sent
                    posted.waiter.set_exception(error)

    def follow(self, route: Route) -> None:
        """A route is known, or has changed."""
        sender = self._topics.get(route.topic)
        if sender is not None:
            sender.take(route)

    def forget(self, topic: str) -> None:
        """A topic is no more: the next message asks for its route again."""
        sender = self._topics.get(topic)
        if sender is not None:
            sender.queues = []

    # Keeping house ------------------------------------------------------------------------------------------------------------

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
                if sender.way.channel is None or sender.refusing:
                    self._move(topic, sender)
        if busy and not self._closed:
            self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _move(self, topic: TopicSender, sender: QueueSender) -> None:
        """What was certainly not stored and has no ordering key does not wait for a broker that is not well."""
        other = topic.elsewhere(sender)
        if other is not None:
            other.ripen()  # what is still growing keeps its numbers together
            for request in sender.sequencer.give_back():
                other.sequencer.adopt(request)
            other.pump()

    def waiters(self) -> list[asyncio.Future[SendReceipt]]:
        """All receipts that are still waited for."""
        waiters = []
        for topic in self._topics.values():
            waiters += [posted.waiter for posted in topic.unrouted]
            for sender in topic.senders:
                waiters += sender.waiters()
        return waiters

    async def flush(self, within: float | None = None) -> None:
        """Wait until everything that was sent before is stored or has failed."""
        self._send_gathered()
        waiters = self.waiters()
        if waiters:
            self._flushing += 1  # what still waits for its route is not held back once that is known
            try:
                await asyncio.wait(waiters, timeout=within)
            finally:
                self._flushing -= 1

    async def close(self, within: float) -> None:
        """Send what waits, and tell the rest that it was not."""
        await self.flush(within)
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        reason = ClientClosedError(f"the client was closed, and the message was not sent within {within:g} s (shutdown_timeout_ms)")
        for topic in self._topics.values():
            if topic.routing is not None:
                topic.routing.cancel()
            for sender in topic.senders:
                sender.close(reason)
        self.room.close()
