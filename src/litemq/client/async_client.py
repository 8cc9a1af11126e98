"""The client, asynchronous: the source of the synchronous one, which is generated from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self, TypedDict

from litemq.client.admin import AsyncAdmin
from litemq.client.config import (
    AssignmentChoice,
    ClientConfig,
    CompressionType,
    ConsumeMode,
    DurabilityName,
    OffsetReset,
    QueueChoice,
    durability_level,
)
from litemq.client.consuming.ack_batch import ack_batch
from litemq.client.consuming.broadcast_consumer import BroadcastConsumer
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.lease_consumer import LeaseConsumer
from litemq.client.consuming.ordered_consumer import MAX_HELD, OrderedConsumer
from litemq.client.consuming.reader import Reader, Start
from litemq.client.dead_letters.dead_letters import DeadLetters
from litemq.client.engine.engine import Backend, LeaseTerms
from litemq.client.engine.registry import find_engine
from litemq.client.engine.selection import Selection, selection_of
from litemq.client.extensions.middleware import Middleware, Publish, around_sending
from litemq.client.handlers.app import AsyncApp
from litemq.client.handlers.subscription import Subscription
from litemq.client.jobs.jobs import Jobs
from litemq.client.leases.lease import lease_terms
from litemq.client.leases.leases import Leases
from litemq.client.leases.receiver import Receiver
from litemq.client.messages.delivery_options import PLAIN, Terms, in_batch, terms_of
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.serializers import Serializer, Serializers
from litemq.client.settling.ack_policy import AckPolicy, Handling
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.client.timers.timers import Timers
from litemq.client.times import seconds
from litemq.client.transactions.admin import Transactions
from litemq.client.transactions.half_messages import HalfMessages
from litemq.client.transactions.listener import Answering, Decision, PreparedMessage, TransactionListener, decided
from litemq.client.transactions.transaction import OnError, Transaction, TransactionReceipt, check_properties
from litemq.errors import BufferFullError, ClientClosedError, InvalidArgumentError, LiteMQError
from litemq.format.compression import compress
from litemq.types import BodyCodec, Durability, check_name, check_readable

__all__ = ["AsyncClient"]

_NO_CODEC: Final = BodyCodec.NONE
_RETRY: Final = RetryPolicy()
_CODECS: Final = {"none": BodyCodec.NONE, "lz4": BodyCodec.LZ4, "zstd": BodyCodec.ZSTD}
_LEVELS: Final[dict[str | None, Durability | None]] = {None: None, **{level.name.lower(): level for level in Durability}}


class _ConsumerOptions(TypedDict):
    reset: OffsetReset
    commits: bool
    leases: Leases
    handling: Handling
    selection: Selection


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
        self._engine: Backend | None = None
        self._feeds: list[Feed] = []
        self._leases: Leases | None = None
        self._halves: HalfMessages | None = None
        self._answering: dict[str, Answering] = {}
        self._receivers: dict[tuple[str, str, LeaseTerms, Handling], Receiver] = {}
        self._seen = False  # by layers or plug-ins, whatever is sent
        self._codec = _CODECS[compression_type]
        self._level = _LEVELS[durability]
        # Bytes stay as they are: what most messages are, and what must cost least.
        self._plain = self._codec is BodyCodec.NONE and not serializers

    # Opening and closing ------------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect. Better: ``async with``, which also closes."""
        if self._engine is None:
            engine = self._make_engine(self.url, self.config)
            try:
                await engine.open()
            except BaseException:
                await engine.close(0)
                raise
            self._engine = engine
            self._plugins.load()
            self._see_sending()
            await self._plugins.startup(self)
        return self

    async def close(self) -> None:
        """Send what waits, commit what was acknowledged, and end; all within ``shutdown_timeout_ms``."""
        engine = self._engine
        if engine is None:
            return
        await self._plugins.shutdown(self)
        within = self.config.shutdown_timeout_ms / 1000
        until = asyncio.get_running_loop().time() + within
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                closing = [*(feed.close() for feed in self._feeds), *(receiver.close() for receiver in self._receivers.values())]
                closing += [answering.close() for answering in self._answering.values()]
                await asyncio.gather(*closing, return_exceptions=True)
                if self._leases is not None:
                    await self._leases.close()
        self._engine = self._leases = self._halves = None
        self._answering.clear()
        self._feeds.clear()
        self._receivers.clear()
        await engine.close(max(0.0, until - asyncio.get_running_loop().time()))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    def _opened(self) -> Backend:
        if self._engine is None:
            raise ClientClosedError('the client is not open: use it inside `async with litemq.AsyncClient("…") as mq:`')
        return self._engine

    def _opened_with_leases(self) -> tuple[Backend, Leases]:
        engine = self._opened()
        if self._leases is None:
            self._leases = Leases(engine, self.config, self._serializers)
        return engine, self._leases

    @property
    def is_open(self) -> bool:
        return self._engine is not None

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
        engine = self._engine or self._opened()
        if self._seen:
            message = OutgoingMessage(
                body, tags, keys, properties or {}, ordering_key, delay, deliver_at, ttl, priority, delay_level, batch_id
            )
            return await self._send_seen(engine, topic, message, durability)
        terms = PLAIN
        if delay is not None or deliver_at is not None or ttl is not None or priority is not None or delay_level is not None:
            terms = terms_of(engine.wall_ms(), delay, deliver_at, ttl, priority, delay_level)
        if batch_id:
            properties = in_batch(properties, batch_id)
        while True:
            try:
                if type(body) is bytes and self._plain and durability is None and not (tags or keys or properties) and terms is PLAIN:
                    waiter = engine.post(topic, body, _NO_CODEC, "", (), (), (), ordering_key, self._level)
                else:
                    waiter = self._post(engine, topic, body, tags, keys, properties, ordering_key, durability, terms)
            except BufferFullError:
                await engine.wait_for_room()
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
        engine = self._engine or self._opened()
        if self._seen:
            message = OutgoingMessage(
                body, tags, keys, properties or {}, ordering_key, delay, deliver_at, ttl, priority, delay_level, batch_id
            )
            return asyncio.ensure_future(self._send_seen(engine, topic, message, durability))
        terms = PLAIN
        if delay is not None or deliver_at is not None or ttl is not None or priority is not None or delay_level is not None:
            terms = terms_of(engine.wall_ms(), delay, deliver_at, ttl, priority, delay_level)
        if batch_id:
            properties = in_batch(properties, batch_id)
        if type(body) is bytes and self._plain and durability is None and not (tags or keys or properties) and terms is PLAIN:
            return engine.post(topic, body, _NO_CODEC, "", (), (), (), ordering_key, self._level)
        return self._post(engine, topic, body, tags, keys, properties, ordering_key, durability, terms)

    async def send_batch(
        self, topic: str, messages: Sequence[OutgoingMessage | bytes | str], *, durability: DurabilityName | None = None
    ) -> list[SendReceipt]:
        """Send many messages, and wait for all. Where some fail, the first error is raised, with a note that says which."""
        engine = self._opened()
        waiting: list[asyncio.Future[SendReceipt]] = []
        for message in messages:
            each = message if isinstance(message, OutgoingMessage) else OutgoingMessage(message)
            if self._seen:
                waiting.append(asyncio.ensure_future(self._send_seen(engine, topic, each, durability)))
            else:
                try:
                    waiting.append(self._post_each(engine, topic, each, durability))
                except BufferFullError:
                    waiting.append(await self._post_patiently(engine, topic, each, durability))
        receipts: list[SendReceipt] = []
        failed: dict[int, Exception] = {}
        try:
            for number, waiter in enumerate(waiting):  # they come a request at a time: most are there when it is their turn
                try:
                    receipts.append(await waiter)
                except Exception as error:  # noqa: BLE001  the others are waited for all the same
                    failed[number] = error
        except asyncio.CancelledError:
            for waiter in waiting:
                waiter.cancel()
            raise
        if failed:
            first = next(iter(failed.values()))
            first.add_note(f"{len(receipts)} of {len(waiting)} messages were stored; not those with the numbers {list(failed)[:20]}")
            raise first
        return receipts

    async def _post_patiently(
        self, engine: Backend, topic: str, each: OutgoingMessage, durability: DurabilityName | None
    ) -> asyncio.Future[SendReceipt]:
        """Hand over a message of a batch once there is room; where it cannot be sent, the others can."""
        while True:
            try:
                return self._post_each(engine, topic, each, durability)
            except BufferFullError:
                await engine.wait_for_room()

    def _post_each(
        self, engine: Backend, topic: str, each: OutgoingMessage, durability: DurabilityName | None
    ) -> asyncio.Future[SendReceipt]:
        """Hand over a message of a batch; raises ``BufferFullError`` where there is no room for it yet."""
        try:
            terms = PLAIN
            if each.has_terms:
                terms = terms_of(engine.wall_ms(), each.delay, each.deliver_at, each.ttl, each.priority, each.delay_level)
            properties = in_batch(each.properties, each.batch_id) if each.batch_id else each.properties
            if type(each.body) is bytes and self._plain and durability is None and not (each.tags or each.keys or properties):
                return engine.post(topic, each.body, _NO_CODEC, "", (), (), (), each.ordering_key, self._level, terms)
            return self._post(engine, topic, each.body, each.tags, each.keys, properties, each.ordering_key, durability, terms)
        except BufferFullError:
            raise
        except LiteMQError as reason:
            refused: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
            refused.set_exception(reason)
            return refused

    def _see_sending(self) -> None:
        """Find out whether anybody wants to see what is sent: if not, nothing is slower for it."""
        self._seen = self._plugins.hears_sending or any(type(layer).publish is not Middleware.publish for layer in self._layers)

    async def _send_seen(self, engine: Backend, topic: str, message: OutgoingMessage, durability: DurabilityName | None) -> SendReceipt:
        """Send a message through the layers, and tell the plug-ins."""

        async def post(topic: str, message: OutgoingMessage) -> SendReceipt:
            receipt = await (await self._post_patiently(engine, topic, message, durability))
            self._plugins.produced(topic, message, receipt)
            return receipt

        return await around_sending(self._layers, post)(topic, message)

    def _through(self, post: Publish) -> Publish:
        """What sends a message, with the layers around it, where there are any."""
        if not self._seen:
            return post

        async def told(topic: str, message: OutgoingMessage) -> SendReceipt:
            receipt = await post(topic, message)
            self._plugins.produced(topic, message, receipt)
            return receipt

        return around_sending(self._layers, told)

    async def flush(self) -> None:
        """Wait until everything that was sent before is stored or has failed."""
        await self._opened().flush()

    def _post(
        self,
        engine: Backend,
        topic: str,
        body: Any,
        tags: str | Sequence[str],
        keys: str | Sequence[str],
        properties: Mapping[str, str] | None,
        ordering_key: str,
        durability: DurabilityName | None,
        terms: Terms,
    ) -> asyncio.Future[SendReceipt]:
        body, content_type = self._serializers.dumps(topic, body)
        codec = BodyCodec.NONE
        if self._codec is not BodyCodec.NONE and len(body) >= self.config.compression_min_bytes:
            smaller = compress(body, self._codec)
            if len(smaller) < len(body):
                body, codec = smaller, self._codec
        if durability is None:
            durability = self.config.durability
        if durability is not None and durability not in _LEVELS:
            durability_level(durability)  # says what to choose
        return engine.post(
            topic,
            body,
            codec,
            content_type,
            _words(tags) if tags else (),
            _words(keys) if keys else (),
            tuple(properties.items()) if properties else (),
            ordering_key,
            _LEVELS[durability],
            terms,
        )

    def serializer(self, topic: str, serializer: Serializer) -> None:
        """Choose how the bodies of a topic are written and read."""
        self._serializers.choose(check_name(topic), serializer)
        self._plain = False

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
        engine = self._opened()
        if on_error not in ("rollback", "ask"):
            raise InvalidArgumentError(f"on_error={on_error!r}: choose rollback or ask")
        check_name(topic)
        check_name(group_id, "group")
        if self._halves is None:
            self._halves = HalfMessages(engine.transactions, self.config, self._serializers)
        properties = check_properties(check_after, max_checks)
        return Transaction(
            engine.transactions, self._halves, topic, group_id, durability, on_error, properties, self._through, engine.wall_ms
        )

    async def send_transaction(
        self,
        topic: str,
        body: Any,
        *,
        group_id: str,
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
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> TransactionReceipt:
        """Send a message that nobody sees until ``commit(receipt.transaction_id)``, which may be said by any client."""
        message = OutgoingMessage(body, tags, keys, properties or {}, ordering_key, delay, deliver_at, ttl, priority, delay_level, batch_id)
        transaction = self.transaction(topic, group_id=group_id, durability=durability, check_after=check_after, max_checks=max_checks)
        receipt = await transaction.send_message(message)
        return TransactionReceipt(transaction.id, topic, receipt.message_id, receipt.broker, receipt.queue_id, receipt.store_timestamp)

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
        answering = self._answering.get(group_id)
        if answering is None:
            raise InvalidArgumentError(f"group {group_id!r} has no listener here: mq.transaction_listener({group_id!r}, listener) first")
        outgoing = message if isinstance(message, OutgoingMessage) else OutgoingMessage(message)
        transaction = self.transaction(topic, group_id=group_id, durability=durability, check_after=check_after, max_checks=max_checks)
        receipt = await transaction.send_message(outgoing)
        prepared = PreparedMessage(topic, outgoing, receipt.message_id, transaction.id)
        decision = await decided(answering.listener.execute, prepared, arg)
        if decision is Decision.COMMIT:
            await transaction.commit()
        elif decision is Decision.ROLLBACK:
            await transaction.rollback()
        place = (receipt.message_id, receipt.broker, receipt.queue_id, receipt.store_timestamp)
        return TransactionReceipt(transaction.id, topic, *place, transaction.state)

    async def commit(self, transaction_id: str) -> None:
        """Let everybody see a transaction's messages. Saying it again does no harm; what was decided first stands."""
        await self.transactions.commit(transaction_id)

    async def rollback(self, transaction_id: str) -> None:
        """Nobody will see a transaction's messages."""
        await self.transactions.rollback(transaction_id)

    def transaction_listener(self, group_id: str, listener: TransactionListener) -> None:
        """Have a listener answer for a group's transactions, whoever began them, while this client is open."""
        engine = self._opened()
        if check_name(group_id, "group") in self._answering:
            raise InvalidArgumentError(f"group {group_id!r} has a listener here already")
        self._answering[group_id] = Answering(engine.transactions, group_id, listener, self.config, self._serializers)

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
        engine, leases = self._opened_with_leases()
        check_name(topic)
        check_name(group_id, "group")
        handling = Handling(ack_policy, retry or RetryPolicy())
        reset = auto_offset_reset or self.config.auto_offset_reset
        if reset not in ("earliest", "latest", "error"):
            raise InvalidArgumentError(f"auto_offset_reset={reset!r}: choose earliest, latest or error")
        consumer: Consumer
        if mode == "lease":
            ahead = self.config.max_poll_records if max_poll_records is None else max_poll_records
            if ordered:
                raise InvalidArgumentError("ordered=True with leases, which come in no order: choose mode='queue'")
            terms = lease_terms(lease, handling, reset, selection)
            consumer = LeaseConsumer(
                engine, topic, group_id, self.config, self._serializers, leases=leases, terms=terms, handling=handling, ahead=ahead
            )
        elif mode in ("queue", "broadcast"):
            commits = self.config.enable_auto_commit if enable_auto_commit is None else enable_auto_commit
            place = (engine, topic, group_id, self.config, self._serializers)
            options = _ConsumerOptions(reset=reset, commits=commits, leases=leases, handling=handling, selection=selection)
            if mode == "broadcast":
                if not self._has_client_id:
                    raise InvalidArgumentError("a broadcast's progress is kept by client: give the client a client_id= that stays the same")
                consumer = BroadcastConsumer(*place, ordered=ordered, max_held=max_held, **options)
            elif ordered:
                consumer = OrderedConsumer(*place, max_held=max_held, **options)
            else:
                consumer = Consumer(*place, **options)
        else:
            raise InvalidArgumentError(f"mode={mode!r}: choose queue, lease or broadcast")
        self._keep(consumer)
        return consumer

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
        key = (topic, group_id, lease_terms(lease, handling, self.config.auto_offset_reset, selection_of(tags, where)), handling)
        patience = seconds(wait, "wait")
        engine, leases = self._opened_with_leases()
        receiver = self._receivers.get(key)
        if receiver is None:
            check_name(topic)
            check_name(group_id, "group")
            receiver = self._receivers[key] = Receiver(engine, leases, *key, self.config)
        return await receiver.receive(max_messages, patience)

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
        engine = self._opened()
        reader = Reader(engine, check_readable(topic), self.config, self._serializers, start=start, follow=follow, selection=selection)
        self._keep(reader)
        return reader

    def _keep(self, feed: Feed) -> None:
        """Close it with the client, unless it is closed before."""
        self._feeds = [each for each in self._feeds if not each.is_closed]
        self._feeds.append(feed)

    def _consume(self, subscription: Subscription, concurrency: int) -> Consumer:
        """What a handler is called with. Under leases no more is taken than is soon handled: others may have time for it."""
        return self.consumer(
            subscription.topic,
            group_id=subscription.group_id,
            mode=subscription.mode,
            lease=subscription.lease,
            max_poll_records=concurrency * (subscription.batch or 1) if subscription.mode == "lease" else None,
            ack_policy=subscription.ack_policy,
            retry=subscription.retry,
            tags=subscription.tags,
            where=subscription.where,
            ordered=subscription.ordered,
        )

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


def _words(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
