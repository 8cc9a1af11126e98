"""Producers and consumers that record what they see, and continue when servers fail."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.config import DurabilityName
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import LiteMQError, SendOutcomeUnknownError
from support.history import History, Name, Position

TOPIC: Final = "orders"
IN_FLIGHT: Final = 64
_KEYS: Final = 8
_UNACKED: Final = 50  # messages that a consumer leaves unacknowledged, to be redelivered


@dataclass
class Gaps:
    """The longest time without an event, by name."""

    last: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)

    def tick(self, what: str) -> None:
        now = time.monotonic()
        self.longest[what] = max(self.longest.get(what, 0.0), now - self.last.get(what, now))
        self.last[what] = now


@dataclass
class ChaosLoad:
    """The load against a cluster, and the history that it records."""

    url: str
    history: History = field(default_factory=History)
    acks: Gaps = field(default_factory=Gaps)  # by broker
    arrivals: Gaps = field(default_factory=Gaps)  # by group
    errors: list[str] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def client(self, **settings: int) -> AsyncClient:
        return AsyncClient(self.url, shutdown_timeout_ms=10_000, **settings)  # type: ignore[arg-type]

    # Sending --------------------------------------------------------------------------------------

    async def produce(self, producer: int, *, durability: DurabilityName, pause: float, one_by_one: bool) -> None:
        """Keep a number of sends in flight until the load ends; every ninth message has no key."""
        free = asyncio.Semaphore(IN_FLIGHT)
        async with self.client(max_batch_messages=1 if one_by_one else 1024) as mq:
            number = 0
            while not self.stopping.is_set():
                await free.acquire()
                key = number % (_KEYS + 1)
                self._send(mq, Name(producer, f"k{key}" if key < _KEYS else "", number), durability, free)
                number += 1
                if number % IN_FLIGHT == 0:
                    await asyncio.sleep(pause)
            await mq.flush()

    def _send(self, mq: AsyncClient, name: Name, durability: DurabilityName, free: asyncio.Semaphore) -> None:
        self.history.begin(name, time.monotonic())
        try:
            sent = mq.send_nowait(TOPIC, name.to_bytes() + b" " * 100, ordering_key=name.key, durability=durability)
        except LiteMQError as error:
            self._failed(name, error)
            free.release()
            return

        def done(sent: asyncio.Future[SendReceipt]) -> None:
            free.release()
            error = sent.exception()
            if error is None:
                receipt = sent.result()
                position = receipt.broker, receipt.queue_id, receipt.queue_offset
                self.history.acked(name, position, time.monotonic())
                self.acks.tick(receipt.broker)
            else:
                self._failed(name, error)

        sent.add_done_callback(done)

    def _failed(self, name: Name, error: BaseException) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")
        if not isinstance(error, SendOutcomeUnknownError):
            self.history.refused(name)

    # Consuming ------------------------------------------------------------------------------------

    async def consume(self, group: str, lives: float) -> None:
        """Consume for a group until cancelled. Each new consumer finds messages of the last one."""
        life = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(lives):
                    await self._consume_once(group, life)
            life += 1

    async def _consume_once(self, group: str, life: int) -> None:
        unacked: list[Message] = []
        async with contextlib.AsyncExitStack() as stack:
            mq = await self._start_client(stack)
            consumer = await stack.enter_async_context(mq.consumer(TOPIC, group_id=group))
            async for message in consumer:
                self.history.delivered(group, life, *seen(message))
                self.arrivals.tick(group)
                unacked.append(message)
                if len(unacked) >= 2 * _UNACKED:
                    for done in unacked[:_UNACKED]:
                        await done.ack()
                    del unacked[:_UNACKED]

    async def _start_client(self, stack: contextlib.AsyncExitStack) -> AsyncClient:
        """Start a client, once a NameServer answers: until then, it fails at once."""
        while True:
            try:
                return await stack.enter_async_context(self.client())
            except LiteMQError as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.2)

    async def read_log(self) -> None:
        """Return the messages in the log, read by the public reader."""
        self.history.log.clear()
        async with self.client() as mq:
            async for message in mq.reader(TOPIC, follow=False):
                self.history.log.append(seen(message))

    async def wait_until_all_isseen(self, within: float) -> None:
        """Wait until each group has received all messages in the log.

        On a timeout, the checker reports missing messages.
        """
        until = time.monotonic() + within
        stored = {name for name, _ in self.history.log}
        while (  # noqa: ASYNC110
            any(stored - self.history.seen_by(group).keys() for group in self.history.groups)
            and time.monotonic() < until
        ):
            await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def running(
    load: ChaosLoad,
    *,
    lives: float,
    settle: float,
    pauses: tuple[float, float, float] = (0, 0.02, 0.02),
    durabilities: tuple[DurabilityName, DurabilityName, DurabilityName] = ("disk", "disk", "memory"),
) -> AsyncIterator[ChaosLoad]:
    """Run producers and consumers of several kinds. After the block, stop them and read the log.

    Each producer pauses after each group of messages, so ``pauses`` sets the rates. Servers fail
    only in ways that ``durabilities`` survive.
    """
    async with load.client() as mq:
        await mq.admin.create_topic(TOPIC, queues=2)
    consumers = [
        asyncio.create_task(load.consume("steady", lives=3600)),
        asyncio.create_task(load.consume("changing", lives=lives)),
    ]
    producers = [
        asyncio.create_task(load.produce(number, durability=durability, pause=pause, one_by_one=number == 0))
        for number, (durability, pause) in enumerate(zip(durabilities, pauses, strict=True))
    ]
    try:
        yield load
        load.stopping.set()
        async with asyncio.timeout(settle):
            await asyncio.gather(*producers)
        await load.read_log()
        await load.wait_until_all_isseen(settle)
        failed = [task for task in consumers if task.done()]
        assert not failed, f"a consumer ended: {failed}"
    finally:
        for task in (*producers, *consumers):
            task.cancel()
        await asyncio.gather(*producers, *consumers, return_exceptions=True)


def seen(message: Message) -> tuple[Name, Position]:
    """Return the name and the position of a message of the load."""
    return Name.from_bytes(message.body), (message.broker, message.queue_id, message.queue_offset)
