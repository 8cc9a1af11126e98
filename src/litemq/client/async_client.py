"""The client, asynchronous: the source of the synchronous one, which is generated from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack

from litemq.client.admin import AsyncAdmin
from litemq.client.config import AssignmentChoice, ClientConfig, CompressionType, ConsumeMode, DurabilityName, OffsetReset, QueueChoice
from litemq.client.consuming.ack_batch import ack_batch
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.open_feeds import OpenFeeds
from litemq.client.consuming.opening import ConsumerSettings
from litemq.client.consuming.ordered_consumer import MAX_HELD
from litemq.client.consuming.reader import Reader, Start
from litemq.client.dead_letters.dead_letters import DeadLetters
from litemq.client.engine.engine import Backend
from litemq.client.engine.registry import find_engine
from litemq.client.engine.selection import selection_of
from litemq.client.handlers.app import AsyncApp
from litemq.client.handlers.subscription import Subscription
from litemq.client.jobs.jobs import Jobs
from litemq.client.leases.lease import lease_terms
from litemq.client.messages.delivery_options import PLAIN, in_batch, terms_of
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.send_options import SendOptions, outgoing_message
from litemq.client.messages.serializers import Serializer, Serializers
from litemq.client.publishing import Publisher
from litemq.client.settling.ack_policy import AckPolicy, Handling
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.client.timers.timers import Timers
from litemq.client.times import seconds
from litemq.client.transactions.admin import Transactions
from litemq.client.transactions.execution import execute_transaction, send_transaction
from litemq.client.transactions.half_messages import HalfMessages
from litemq.client.transactions.listener import TransactionListener
from litemq.client.transactions.listeners import Listeners
from litemq.client.transactions.transaction import OnError, Transaction, TransactionReceipt, check_properties
from litemq.errors import BufferFullError, ClientClosedError, InvalidArgumentError
from litemq.types import BodyCodec, check_name

__all__ = ["AsyncClient"]

_NO_CODEC: Final = BodyCodec.NONE
_RETRY: Final = RetryPolicy()


class AsyncClient(AsyncApp):
    """``async with AsyncClient("litemq://127.0.0.1:9876") as mq:`` sends and receives. One client serves a whole program."""

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
        max_poll_records: int = 1024,
        prefetch_bytes: int = 8 * 1024 * 1024,
        fetch_wait_ms: int = 5_000,
        max_body_bytes: int = 64 * 1024 * 1024,
        offsets_directory: str = "~/.litemq/offsets",
        connections_per_broker: int = 1,
        connect_timeout_ms: int = 5_000,
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
            max_poll_records=max_poll_records,
            prefetch_bytes=prefetch_bytes,
            fetch_wait_ms=fetch_wait_ms,
            max_body_bytes=max_body_bytes,
            offsets_directory=offsets_directory,
            connections_per_broker=connections_per_broker,
            connect_timeout_ms=connect_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            max_retry_backoff_ms=max_retry_backoff_ms,
            route_refresh_ms=route_refresh_ms,
            shutdown_timeout_ms=shutdown_timeout_ms,
        )
        self._has_client_id = bool(client_id)
        self.url = url
        self._make_engine = find_engine(url)
        self._serializers = Serializers(serializers)
        self._publisher: Publisher | None = None  # of an open client
        self._feeds: OpenFeeds | None = None
        self._halves: HalfMessages | None = None
        self._listeners = Listeners(self.config, self._serializers)

    # Opening and closing ------------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect. Better: ``async with``, which also closes."""
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
        """Send what waits, commit what was acknowledged, and end; all within ``shutdown_timeout_ms``."""
        if self._publisher is None:
            return
        engine = self._publisher.engine
        await self._plugins.shutdown(self)
        within = self.config.shutdown_timeout_ms / 1000
        until = asyncio.get_running_loop().time() + within
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.gather(self._listeners.close(), *([self._feeds.close()] if self._feeds else []))
        self._publisher = self._feeds = self._halves = None
        await engine.close(max(0.0, until - asyncio.get_running_loop().time()))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    def _opened_publisher(self) -> Publisher:
        if self._publisher is None:
            raise ClientClosedError('the client is not open: use it inside `async with litemq.AsyncClient("…") as mq:`')
        return self._publisher

    def _opened(self) -> Backend:
        return self._opened_publisher().engine

    def _opened_feeds(self) -> OpenFeeds:
        engine = self._opened()
        if self._feeds is None:
            self._feeds = OpenFeeds(engine, self.config, self._serializers)
        return self._feeds

    @property
    def is_open(self) -> bool:
        return self._publisher is not None

    # Sending ------------------------------------------------------------------------------------------------------------------

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
        """Send a message, and wait until it is stored as safely as its durability promises.

        ``delay_level`` is one of RocketMQ's 18 (1 s … 2 hours). Delayed messages with one ``batch_id`` can be cancelled together.
        """
        publisher = self._publisher or self._opened_publisher()
        if publisher.is_observed:
            message = OutgoingMessage(
                body, tags, keys, properties or {}, ordering_key, delay, deliver_at, ttl, priority, delay_level, batch_id
            )
            return await publisher.publish(topic, message, durability)
        terms = PLAIN
        if delay is not None or deliver_at is not None or ttl is not None or priority is not None or delay_level is not None:
            terms = terms_of(publisher.engine.wall_ms(), delay, deliver_at, ttl, priority, delay_level)
        if batch_id:
            properties = in_batch(properties, batch_id)
        is_plain = type(body) is bytes and publisher.is_plain and durability is None and not (tags or keys or properties) and terms is PLAIN
        while True:
            try:
                if is_plain:
                    waiter = publisher.engine_post(topic, body, _NO_CODEC, "", (), (), (), ordering_key, publisher.level)
                else:
                    waiter = publisher.post(topic, body, tags, keys, properties, ordering_key, durability, terms)
            except BufferFullError:
                await publisher.engine.wait_for_room()
            else:
                return await waiter

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
        """Hand over a message; the future is its receipt. Raises ``BufferFullError`` where too much waits already."""
        publisher = self._publisher or self._opened_publisher()
        if publisher.is_observed:
            message = OutgoingMessage(
                body, tags, keys, properties or {}, ordering_key, delay, deliver_at, ttl, priority, delay_level, batch_id
            )
            return asyncio.ensure_future(publisher.publish(topic, message, durability))
        terms = PLAIN
        if delay is not None or deliver_at is not None or ttl is not None or priority is not None or delay_level is not None:
            terms = terms_of(publisher.engine.wall_ms(), delay, deliver_at, ttl, priority, delay_level)
        if batch_id:
            properties = in_batch(properties, batch_id)
        if type(body) is bytes and publisher.is_plain and durability is None and not (tags or keys or properties) and terms is PLAIN:
            return publisher.engine_post(topic, body, _NO_CODEC, "", (), (), (), ordering_key, publisher.level)
        return publisher.post(topic, body, tags, keys, properties, ordering_key, durability, terms)

    async def send_batch(
        self, topic: str, messages: Sequence[OutgoingMessage | bytes | str], *, durability: DurabilityName | None = None
    ) -> list[SendReceipt]:
        """Send many messages, and wait for all. Where some fail, the first error is raised, with a note that says which."""
        return await self._opened_publisher().publish_batch(topic, messages, durability)

    async def flush(self) -> None:
        """Wait until everything that was sent before is stored or has failed."""
        await self._opened().flush()

    def serializer(self, topic: str, serializer: Serializer) -> None:
        """Choose how the bodies of a topic are written and read."""
        self._serializers.choose(check_name(topic), serializer)
        self._refresh_sending()

    def _refresh_sending(self) -> None:
        """Have the publisher read again which layers, plug-ins and serializers there are."""
        if self._publisher is not None:
            self._publisher.refresh()

    # Transactions -------------------------------------------------------------------------------------------------------------

    def transaction(
        self,
        topic: str,
        *,
        group_id: str,
        durability: DurabilityName | None = None,
        on_error: OnError = "rollback",
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> Transaction:
        """``async with mq.transaction("orders", group_id="shop") as tx:`` sends messages that are seen all together, or not at all.

        Leaving the block commits, an error rolls back; with ``on_error="ask"`` it leaves the outcome open. What is open, and where this process
        dies in between, a ``transaction_listener`` of the same group is asked for: ``check_after`` seconds after the first message, and then
        again, ``max_checks`` times at most.
        """
        publisher = self._opened_publisher()
        engine = publisher.engine
        if on_error not in ("rollback", "ask"):
            raise InvalidArgumentError(f"on_error={on_error!r}: choose rollback or ask")
        check_name(topic)
        check_name(group_id, "group")
        if self._halves is None:
            self._halves = HalfMessages(engine.transactions, self.config, self._serializers)
        properties = check_properties(check_after, max_checks)
        return Transaction(
            engine.transactions, self._halves, topic, group_id, durability, on_error, properties, publisher.through, engine.wall_ms
        )

    async def send_transaction(
        self,
        topic: str,
        body: Any,
        *,
        group_id: str,
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
        **options: Unpack[SendOptions],
    ) -> TransactionReceipt:
        """Send a message that nobody sees until ``commit(receipt.transaction_id)``, which any client may call.

        ``options`` are those of ``send``.
        """
        durability = options.pop("durability", None)
        message = outgoing_message("send_transaction", body, options)
        transaction = self.transaction(topic, group_id=group_id, durability=durability, check_after=check_after, max_checks=max_checks)
        return await send_transaction(transaction, topic, message)

    async def execute_transaction(
        self,
        topic: str,
        message: OutgoingMessage | bytes | str,
        arg: Any = None,
        *,
        group_id: str,
        durability: DurabilityName | None = None,
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> TransactionReceipt:
        """Send a message, have the group's listener ``execute`` what it is about, and end the transaction as that says."""
        listener = self._listeners.find(group_id)
        outgoing = message if isinstance(message, OutgoingMessage) else OutgoingMessage(message)
        transaction = self.transaction(topic, group_id=group_id, durability=durability, check_after=check_after, max_checks=max_checks)
        return await execute_transaction(transaction, topic, outgoing, listener, arg)

    async def commit(self, transaction_id: str) -> None:
        """Let everybody see a transaction's messages. Saying it again does no harm; what was decided first stands."""
        await self.transactions.commit(transaction_id)

    async def rollback(self, transaction_id: str) -> None:
        """Nobody will see a transaction's messages."""
        await self.transactions.rollback(transaction_id)

    def transaction_listener(self, group_id: str, listener: TransactionListener) -> None:
        """Have a listener answer for a group's transactions, whoever began them, while this client is open."""
        self._listeners.add(self._opened().transactions, group_id, listener)

    @property
    def transactions(self) -> Transactions:
        """Those that wait for their outcome, and those that have ended not long ago."""
        engine = self._opened()
        return Transactions(engine.transactions, self.config, self._serializers, engine.wall_ms)

    # Receiving ----------------------------------------------------------------------------------------------------------------

    def consumer(
        self,
        topic: str,
        *,
        group_id: str,
        mode: ConsumeMode = "queue",
        auto_offset_reset: OffsetReset | None = None,
        enable_auto_commit: bool | None = None,
        lease: float | timedelta = 60.0,
        max_poll_records: int | None = None,
        ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
        retry: RetryPolicy | None = None,
        tags: str | Sequence[str] = (),
        where: str = "",
        ordered: bool = False,
        max_held: int = MAX_HELD,
    ) -> Consumer:
        """``async for message in mq.consumer("orders", group_id="billing"):`` reads for a group. Acknowledge each message when it is done.

        With ``mode="queue"`` the queues are assigned, and read in order; with ``mode="lease"`` each message is leased for ``lease``
        seconds, any number of consumers share them, and up to ``max_poll_records`` of each broker wait here. ``ack_policy`` and ``retry``
        are what ``process()`` goes by. With ``mode="broadcast"`` every client gets everything; its progress is in a file under its client_id.

        ``tags`` ("A || B") or ``where`` ("price > 10") choose messages; the brokers look for them, and all consumers of a group choose
        alike. ``ordered``: a message comes when the one before it with the same ordering key is settled; one that fails holds its key, and
        up to ``max_held`` messages of a queue behind it.
        """
        selection = selection_of(tags, where)
        feeds = self._opened_feeds()
        settings = ConsumerSettings(
            mode=mode,
            reset=auto_offset_reset or self.config.auto_offset_reset,
            commits=self.config.enable_auto_commit if enable_auto_commit is None else enable_auto_commit,
            lease=lease,
            ahead=self.config.max_poll_records if max_poll_records is None else max_poll_records,
            handling=Handling(ack_policy, retry or _RETRY),
            selection=selection,
            ordered=ordered,
            max_held=max_held,
            has_client_id=self._has_client_id,
        )
        return feeds.consumer(topic, group_id, settings)

    async def receive(
        self,
        topic: str,
        *,
        group_id: str,
        max_messages: int = 32,
        wait: float | timedelta = 20.0,
        lease: float | timedelta = 60.0,
        ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
        retry: RetryPolicy | None = None,
        tags: str | Sequence[str] = (),
        where: str = "",
    ) -> list[Message]:
        """Up to so many messages for a group: those that are there, or that come first within ``wait``. Settle each one within its lease.

        A message that is not settled within ``lease`` seconds comes again, to whoever asks; ``process()`` and ``extend()`` keep it longer.
        """
        if not isinstance(max_messages, int) or max_messages < 1:
            raise InvalidArgumentError(f"max_messages={max_messages!r}: choose 1 or more")
        handling = Handling(ack_policy, retry or _RETRY)
        terms = lease_terms(lease, handling, self.config.auto_offset_reset, selection_of(tags, where))
        patience = seconds(wait, "wait")
        return await self._opened_feeds().receiver(topic, group_id, terms, handling).receive(max_messages, patience)

    async def ack_batch(self, messages: Sequence[Message]) -> None:
        """Acknowledge many messages, and wait for all. Where some fail, the first error is raised, with a note that says which."""
        await ack_batch(messages)

    def reader(
        self,
        topic: str,
        *,
        start: Start | Literal["earliest", "latest"] = "earliest",
        follow: bool = True,
        tags: str | Sequence[str] = (),
        where: str = "",
    ) -> Reader:
        """Read a topic without a group, from anywhere; with ``follow=False`` only what is there now.

        ``tags`` ("A || B") or ``where`` ("price > 10") choose messages; the brokers look for them.
        """
        selection = selection_of(tags, where)
        return self._opened_feeds().reader(topic, start, selection, follow=follow)

    def _consume(self, subscription: Subscription, concurrency: int) -> Consumer:
        return self.consumer(subscription.topic, **subscription.consumer_options(concurrency))

    def dead_letters(self, topic_or_group: str) -> DeadLetters:
        """What has died of a topic, or for a group: listed, looked at, sent on."""
        return DeadLetters(self._opened(), topic_or_group, self.config, self._serializers)

    @property
    def jobs(self) -> Jobs:
        """Messages that are sent at the times of a schedule."""
        return Jobs(self._opened(), self._serializers)

    @property
    def timers(self) -> Timers:
        """Messages that were sent with a delay: cancelled, delivered at another time, listed."""
        return Timers(self._opened(), self.config, self._serializers)

    @property
    def admin(self) -> AsyncAdmin:
        """Topics and brokers."""
        return AsyncAdmin(self._opened(), self.config, self._serializers)
