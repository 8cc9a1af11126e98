"""The asynchronous client: send, receive, and give access to all other features.

``tools/async_to_sync.py`` generates the synchronous client from this file.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from litemq.client.admin import AsyncAdmin
from litemq.client.config import (
    AssignmentChoice,
    ClientConfig,
    CompressionType,
    DurabilityName,
    OffsetReset,
    QueueChoice,
    ReadFrom,
)
from litemq.client.consuming.client_api import ConsumingApi
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.open_feeds import OpenFeeds
from litemq.client.dead_letters.dead_letters import DeadLetters
from litemq.client.engine.engine import Engine
from litemq.client.engine.registry import find_engine
from litemq.client.extensions.middleware import Publish
from litemq.client.handlers.app import AsyncApp
from litemq.client.handlers.subscription import Subscription
from litemq.client.jobs.jobs import Jobs
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.serializers import Serializer, Serializers
from litemq.client.publishing import Publisher
from litemq.client.timers.timers import Timers
from litemq.client.transactions.client_api import TransactionApi
from litemq.client.transactions.half_messages import HalfMessages
from litemq.client.transactions.listener_registry import ListenerRegistry
from litemq.client.typed_topics.client_api import TypedTopicApi
from litemq.errors import ClientClosedError
from litemq.types import check_name

__all__ = ["AsyncClient"]


class AsyncClient(TypedTopicApi, AsyncApp, ConsumingApi, TransactionApi):
    """The asynchronous client of a LiteMQ cluster.

    Use it as ``async with AsyncClient("litemq://127.0.0.1:9876") as mq:``. One client serves a
    whole program. It belongs to one event loop. ``open`` connects it.

    Durations are in milliseconds and sizes in bytes.

    Args:
        url: The engine and its address: ``litemq://HOST:PORT`` of a NameServer, several of them
            separated by commas, or ``memory://``.
        client_id: The name of this client in logs and of its broadcast progress. Default: host,
            process and a random suffix.
        durability: How safely a broker stores a message before it confirms it. Default: the
            broker's setting.
        linger_ms: How long the first message of a batch waits for further ones.
        max_batch_bytes: The largest batch.
        max_batch_messages: The most messages in a batch.
        max_in_flight_requests: Unanswered send requests per queue.
        buffer_bytes: The size of the send buffer.
        compression_type: How bodies are compressed: ``none``, ``lz4`` or ``zstd``.
        compression_min_bytes: Smaller bodies are not compressed.
        queue_choice: How the client selects the queue of a message without ``ordering_key``.
        delivery_timeout_ms: How long a send is retried.
        max_record_bytes: The largest message, all fields included.
        auto_offset_reset: Where a new group starts: ``earliest``, ``latest``, or ``error``.
        enable_auto_commit: Commit the offsets of acknowledged messages in the background.
        auto_commit_interval_ms: The time between two commits.
        session_timeout_ms: After this time without a heartbeat, a consumer loses its queues to
            others of its group.
        assignment: How brokers distribute queues in a group: ``average``, ``consistent_hash`` or
            ``same_zone``.
        zone: The zone of this client, for ``assignment="same_zone"``.
        read_from: Who serves readers, look-ups by key and offsets by time in a replicated group:
            its ``master``, or a ``replica``, which may be behind. If none is in sync, the master
            serves.
        max_poll_records: The most messages in one pull or lease request.
        prefetch_bytes: The size of a consumer's prefetch buffer.
        fetch_wait_ms: How long a broker may hold a request until messages arrive.
        max_body_bytes: The largest size of a body after decompression.
        offsets_directory: The directory with the progress of broadcast consumers.
        connections_per_broker: TCP connections to each broker.
        connect_timeout_ms: How long a connection attempt may take.
        contact_timeout_ms: Lists go on without a broker that does not answer for this long.
        request_timeout_ms: How long a request may take; at most ``delivery_timeout_ms``.
        retry_backoff_ms: The delay before the first retry of a request.
        max_retry_backoff_ms: The largest delay between retries.
        route_refresh_ms: How often the client asks the NameServer for new brokers and queues.
        shutdown_timeout_ms: How long ``close`` and ``run`` may take to finish running work.
        serializers: The serializer of each topic. Other topics take bytes, strings and JSON values.

    Raises:
        InvalidArgumentError: A setting is out of range, or no engine has the scheme of ``url``.
    """

    def __init__(
        self,
        url: str = "litemq://127.0.0.1:9876",
        *,
        client_id: str = "",
        durability: DurabilityName | None = None,
        linger_ms: int = 0,
        max_batch_bytes: int = 256 * 1024,
        max_batch_messages: int = 1024,
        max_in_flight_requests: int = 32,
        buffer_bytes: int = 32 * 1024 * 1024,
        compression_type: CompressionType = "none",
        compression_min_bytes: int = 1024,
        queue_choice: QueueChoice = "round_robin",
        delivery_timeout_ms: int = 30_000,
        max_record_bytes: int = 4 * 1024 * 1024,
        auto_offset_reset: OffsetReset = "earliest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 200,
        session_timeout_ms: int = 5_000,
        assignment: AssignmentChoice = "average",
        zone: str = "",
        read_from: ReadFrom = "master",
        max_poll_records: int = 1024,
        prefetch_bytes: int = 8 * 1024 * 1024,
        fetch_wait_ms: int = 5_000,
        max_body_bytes: int = 64 * 1024 * 1024,
        offsets_directory: str = "~/.litemq/offsets",
        connections_per_broker: int = 1,
        connect_timeout_ms: int = 5_000,
        contact_timeout_ms: int = 1_000,
        request_timeout_ms: int = 10_000,
        retry_backoff_ms: int = 50,
        max_retry_backoff_ms: int = 1_000,
        route_refresh_ms: int = 5_000,
        shutdown_timeout_ms: int = 30_000,
        serializers: Mapping[str, Serializer] | None = None,
    ) -> None:
        super().__init__()
        self.config = ClientConfig(
            client_id=client_id,
            durability=durability,
            linger_ms=linger_ms,
            max_batch_bytes=max_batch_bytes,
            max_batch_messages=max_batch_messages,
            max_in_flight_requests=max_in_flight_requests,
            buffer_bytes=buffer_bytes,
            compression_type=compression_type,
            compression_min_bytes=compression_min_bytes,
            queue_choice=queue_choice,
            delivery_timeout_ms=delivery_timeout_ms,
            max_record_bytes=max_record_bytes,
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            session_timeout_ms=session_timeout_ms,
            assignment=assignment,
            zone=zone,
            read_from=read_from,
            max_poll_records=max_poll_records,
            prefetch_bytes=prefetch_bytes,
            fetch_wait_ms=fetch_wait_ms,
            max_body_bytes=max_body_bytes,
            offsets_directory=offsets_directory,
            connections_per_broker=connections_per_broker,
            connect_timeout_ms=connect_timeout_ms,
            contact_timeout_ms=contact_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            max_retry_backoff_ms=max_retry_backoff_ms,
            route_refresh_ms=route_refresh_ms,
            shutdown_timeout_ms=shutdown_timeout_ms,
        )
        self._has_client_id = bool(client_id)
        self._use_url(url)
        self._serializers = Serializers(serializers)
        self._publisher: Publisher | None = None  # of an open client
        self._feeds: OpenFeeds | None = None
        self._halves: HalfMessages | None = None
        self._listeners = ListenerRegistry(self.config, self._serializers)

    def _use_url(self, url: str) -> None:
        """Choose the cluster, before ``open``."""
        self.url = url
        self._make_engine = find_engine(url)

    # Opening and closing --------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect to the cluster. Prefer ``async with``, which also closes the client.

        Returns:
            This client.

        Raises:
            NetworkError: No NameServer answers at the address in the client's URL.
            InvalidArgumentError: The address in the client's URL is invalid.
        """
        if self._publisher is None:
            engine = self._make_engine(self.url, self.config)
            try:
                await engine.open()
            except BaseException:
                await engine.close(0)
                raise
            self._plugins.load()
            self._publisher = Publisher(engine, self.config, self._serializers, self._layers, self._plugins)
            await self._plugins.startup(self)
        return self

    async def close(self) -> None:
        """Send buffered messages, commit acknowledged ones, and disconnect.

        All within ``shutdown_timeout_ms``; the receipts of messages that are still unsent fail. A
        closed client can be opened again. Raises nothing.
        """
        if self._publisher is None:
            return
        engine = self._publisher.engine
        await self._plugins.shutdown(self)
        within = self.config.shutdown_timeout_ms / 1000
        until = asyncio.get_running_loop().time() + within
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._results.close()
                await asyncio.gather(self._listeners.close(), *([self._feeds.close()] if self._feeds else []))
        self._publisher = self._feeds = self._halves = None
        await engine.close(max(0.0, until - asyncio.get_running_loop().time()))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _opened_publisher(self) -> Publisher:
        if self._publisher is None:
            raise ClientClosedError('the client is not open: use it inside `async with litemq.AsyncClient("…") as mq:`')
        return self._publisher

    def _opened(self) -> Engine:
        return self._opened_publisher().engine

    def _opened_feeds(self) -> OpenFeeds:
        engine = self._opened()
        if self._feeds is None:
            self._feeds = OpenFeeds(engine, self.config, self._serializers)
        return self._feeds

    @property
    def is_open(self) -> bool:
        """Whether the client is connected."""
        return self._publisher is not None

    # Sending --------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        body: Any,
        *,
        tags: str | Sequence[str] = (),
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str = "",
        durability: DurabilityName | None = None,
        delay: float | timedelta | None = None,
        deliver_at: datetime | None = None,
        ttl: float | timedelta | None = None,
        priority: int | None = None,
        delay_level: int | None = None,
        batch_id: str = "",
    ) -> SendReceipt:
        """Send a message and wait until it is stored as safely as its durability requires.

        Args:
            topic: The topic to send to.
            body: Bytes, a string, a JSON value, or a value for the topic's serializer.
            tags: Labels that consumers filter by.
            keys: Business keys; ``mq.admin.find`` looks messages up by key.
            properties: Further named values; consumers filter by them with ``where``.
            ordering_key: Messages with the same key go to one queue and stay in order.
            durability: ``none``, ``memory``, ``disk`` or ``replicas``. Default: the client's
                setting.
            delay: Seconds until delivery, up to 365 days.
            deliver_at: The time of delivery, with a time zone.
            ttl: Seconds from delivery until the message expires.
            priority: 0 … 255, in topics with priorities; 255 is delivered first.
            delay_level: One of RocketMQ's delay levels, 1 (1 s) … 18 (2 hours).
            batch_id: ``mq.timers.cancel_batch`` cancels all delayed messages with this id.

        Returns:
            The receipt, with the message's id, broker, queue and offset.

        Raises:
            InvalidArgumentError, SerializationError: An argument is invalid, or the message is too
                large.
            TopicNotFoundError: The topic does not exist, and the broker does not create topics on
                demand.
            UnsupportedFeatureError: The broker does not support the durability.
            NoRouteError, ConnectionLostError, OverloadedError, BacklogFullError, DiskFullError: No
                broker stored the message within ``delivery_timeout_ms``.
            SendOutcomeUnknownError: The connection was lost: the message may be stored or not.
            ClientClosedError: The client is not open.
        """
        publisher = self._publisher or self._opened_publisher()
        add = publisher.add_plain.get(topic) if type(topic) is str else None
        if (
            add is not None
            and not (tags or keys or properties or ordering_key or batch_id)
            and (durability is None and delay is None and deliver_at is None)
            and (ttl is None and priority is None and delay_level is None)
            and (waiter := add(body)) is not None
        ):
            return await waiter
        timing = (delay, deliver_at, ttl, priority, delay_level)
        options = (tags, keys, properties, ordering_key, durability, *timing, batch_id)
        return await publisher.send(topic, body, options)

    def send_nowait(
        self,
        topic: str,
        body: Any,
        *,
        tags: str | Sequence[str] = (),
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ordering_key: str = "",
        durability: DurabilityName | None = None,
        delay: float | timedelta | None = None,
        deliver_at: datetime | None = None,
        ttl: float | timedelta | None = None,
        priority: int | None = None,
        delay_level: int | None = None,
        batch_id: str = "",
    ) -> asyncio.Future[SendReceipt]:
        """Add a message to the send buffer and return at once.

        Args:
            topic: The topic to send to.
            body: As in ``send``.
            tags, keys, properties, ordering_key, durability: As in ``send``.
            delay, deliver_at, ttl, priority, delay_level, batch_id: As in ``send``.

        Returns:
            A future of the receipt. It fails with the errors of ``send``.

        Raises:
            BufferFullError: The send buffer is full. Await ``send`` or ``flush`` instead.
            InvalidArgumentError: An argument is invalid.
            SerializationError: The serializer cannot write ``body``.
            ClientClosedError: The client is not open.
        """
        publisher = self._publisher or self._opened_publisher()
        add = publisher.add_plain.get(topic) if type(topic) is str else None
        if (
            add is not None
            and not (tags or keys or properties or ordering_key or batch_id)
            and (durability is None and delay is None and deliver_at is None)
            and (ttl is None and priority is None and delay_level is None)
            and (waiter := add(body)) is not None
        ):
            return waiter
        timing = (delay, deliver_at, ttl, priority, delay_level)
        options = (tags, keys, properties, ordering_key, durability, *timing, batch_id)
        return publisher.send_nowait(topic, body, options)

    async def send_batch(
        self, topic: str, messages: Sequence[OutgoingMessage | bytes | str], *, durability: DurabilityName | None = None
    ) -> list[SendReceipt]:
        """Send messages and wait until all are stored or have failed.

        Args:
            topic: The topic to send to.
            messages: ``OutgoingMessage`` objects, or bodies without options.
            durability: As in ``send``, for all messages.

        Returns:
            The receipts, in the order of ``messages``.

        Raises:
            LiteMQError: Some messages failed. The first error is raised, with a note that lists the
                failed messages. See ``send`` for the classes.
            ClientClosedError: The client is not open.
        """
        return await self._opened_publisher().publish_batch(topic, messages, durability)

    async def flush(self) -> None:
        """Wait until all messages sent before are stored or have failed.

        Raises:
            ClientClosedError: The client is not open.
        """
        await self._opened().flush()

    @property
    def refusals(self) -> dict[str, str]:
        """Why brokers refuse messages at the moment, by broker.

        The client sends them again, for up to ``delivery_timeout_ms``. Empty: no broker does.
        """
        return self._opened().refusals()

    def serializer(self, topic: str, serializer: Serializer) -> None:
        """Set the serializer of a topic, for messages sent and received from now on.

        Args:
            topic: The topic.
            serializer: Converts values to bodies and back.

        Raises:
            InvalidArgumentError: ``topic`` is no valid topic name.
        """
        self._serializers.choose(check_name(topic), serializer)
        self._refresh_sending()

    def _refresh_sending(self) -> None:
        if self._publisher is not None:
            self._publisher.refresh()

    def _layers_around(self) -> Callable[[Publish], Publish]:
        return self._opened_publisher().through

    # Receiving ------------------------------------------------------------------------------------

    def _consume(self, subscription: Subscription, concurrency: int) -> Consumer:
        return self.consumer(subscription.topic, **subscription.consumer_options(concurrency))

    def dead_letters(self, topic_or_group: str) -> DeadLetters:
        """Return the dead letters of a topic or of a consumer group.

        Args:
            topic_or_group: The name of a topic, or else of a group, in all topics.

        Raises:
            InvalidArgumentError: ``topic_or_group`` is no valid name.
            ClientClosedError: The client is not open.
        """
        return DeadLetters(self._opened(), topic_or_group, self.config, self._serializers)

    @property
    def jobs(self) -> Jobs:
        """Scheduled messages: create, change, pause and trigger jobs.

        Raises:
            ClientClosedError: The client is not open.
        """
        return Jobs(self._opened(), self._serializers)

    @property
    def timers(self) -> Timers:
        """Delayed messages: cancel, reschedule and list them.

        Raises:
            ClientClosedError: The client is not open.
        """
        return Timers(self._opened(), self.config, self._serializers)

    @property
    def admin(self) -> AsyncAdmin:
        """Topics, groups, brokers and archives, for operators.

        Raises:
            ClientClosedError: The client is not open.
        """
        return AsyncAdmin(self._opened(), self.config, self._serializers)
