"""Producers and readers of a simulation, which record what they see."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from litemq.client.async_client import AsyncClient
from litemq.client.config import DurabilityName, ReadFrom
from litemq.client.messages.message import Message
from litemq.errors import LiteMQError, SendOutcomeUnknownError
from litemq.storage.state import QueueKey
from support.history import History, Name, Position
from support.sim.cluster import CLIENTS, URL, Cluster

__all__ = ["LEVELS", "TOPIC", "Load"]

TOPIC: Final = "orders"
LEVELS: Final[tuple[DurabilityName, ...]] = ("memory", "disk", "replicas")
_GROUP: Final = "consumers"
_QUEUES: Final = 2
_KEYS: Final = 2
_MOST_IN_FLIGHT: Final = (1, 3, 8)  # of a key
_BODIES: Final = (20, 200, 2000)


@dataclass
class Load:
    """The load on a cluster. A producer's number is the position of its level in ``LEVELS``."""

    cluster: Cluster
    random: random.Random
    history: History = field(default_factory=History)
    # By reader, what it has read, in order. What is read is confirmed and must last.
    seen: list[tuple[Name, Position]] = field(default_factory=list)
    is_stopping: bool = False
    consumer: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.replica_ack: Literal["memory", "disk"] = "memory" if self.random.random() < 0.2 else "disk"
        self._read_from: ReadFrom = "replica" if self.random.random() < 0.5 else "master"
        # Retention drops what is more than a segment.
        self._bodies = _BODIES if self.cluster.max_log_bytes is None else (2000, 3500)

    @asynccontextmanager
    async def client(self, name: str, read_from: ReadFrom = "master") -> AsyncIterator[AsyncClient]:
        """Open a client with short timeouts, once a NameServer answers."""
        while True:
            mq = self._new_client(name, read_from)
            try:
                await mq.open()
            except LiteMQError as error:
                self.cluster.trace("not open", name, repr(error))
                await asyncio.sleep(0.2)
            else:
                break
        async with mq:
            yield mq

    def _new_client(self, name: str, read_from: ReadFrom) -> AsyncClient:
        return AsyncClient(
            URL,
            client_id=name,
            connect_timeout_ms=1_000,
            request_timeout_ms=2_000,
            delivery_timeout_ms=6_000,
            fetch_wait_ms=1_000,
            shutdown_timeout_ms=1_000,
            read_from=read_from,
        )

    async def create_topic_as_client(self) -> None:
        """Create the topic in a process of its own."""
        await self.cluster.run_to_end(self._create_topic)

    async def _create_topic(self) -> None:
        """Create the topic, once there is a master."""
        async with self.client("creator") as mq:
            while True:
                try:
                    await mq.admin.create_topic(TOPIC, queues=_QUEUES, replica_ack=self.replica_ack)
                except LiteMQError as error:
                    self.cluster.trace("no topic", repr(error))
                    await asyncio.sleep(0.2)
                else:
                    return

    def start(self) -> None:
        """Start the producers and the reader, each as a process of its own."""
        for number in range(len(LEVELS)):
            self.cluster.run_client(CLIENTS[0], lambda number=number: self._produce(number))  # type: ignore[misc]
        self.cluster.run_client(CLIENTS[1], self._read)
        self.consumer = self.cluster.run_consumer(CLIENTS[1], self._consume)

    # Sending --------------------------------------------------------------------------------------

    async def _produce(self, producer: int) -> None:
        """Send from several tasks, each with its own key."""
        pause = self.random.choice([0.3, 0.6, 1.2])
        async with self.client(f"producer-{producer}") as mq, asyncio.TaskGroup() as tasks:
            for key in range(_KEYS):
                tasks.create_task(self._send_all(mq, producer, key, pause, self.random.choice(_MOST_IN_FLIGHT)))

    async def _send_all(self, mq: AsyncClient, producer: int, key: int, pause: float, most: int) -> None:
        """Send until the load ends, up to ``most`` messages at a time."""
        free, number = asyncio.Semaphore(most), key
        async with asyncio.TaskGroup() as tasks:
            while not self.is_stopping:
                for _ in range(burst := self.random.randint(1, most)):
                    await free.acquire()
                    sending = tasks.create_task(self.send(mq, Name(producer, f"k{key}" if key else "", number)))
                    sending.add_done_callback(lambda _: free.release())
                    number += _KEYS
                await asyncio.sleep(self.random.expovariate(1 / pause) * burst)

    async def send(self, mq: AsyncClient, name: Name) -> bool:
        """Send a message and record the outcome; return whether it was acknowledged."""
        counts = self.cluster.counts
        self.history.begin(name)
        body = name.to_bytes() + b" " * self.random.choice(self._bodies)
        try:
            receipt = await mq.send_nowait(
                TOPIC, body, keys=[f"n{name.number % 7}"], ordering_key=name.key, durability=LEVELS[name.producer]
            )
        except LiteMQError as error:
            counts["failed sends"] += 1
            self.cluster.trace("failed", name, type(error).__name__)
            if not isinstance(error, SendOutcomeUnknownError):
                self.history.refused(name)
            return False
        position = receipt.broker, receipt.queue_id, receipt.queue_offset
        self.history.acked(name, position)
        counts["acked"] += 1
        counts[f"acked {LEVELS[name.producer]}"] += 1
        self.cluster.trace("acked", name, position)
        return True

    async def send_last(self, name: Name) -> None:
        """Send until a message is acknowledged."""
        async with self.client("last") as mq:
            while not await self.send(mq, name):
                name = name._replace(number=name.number + 1)
                await asyncio.sleep(0.2)

    # Reading --------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read from the beginning, and again after an error, until the load ends."""
        async with self.client("reader", self._read_from) as mq:
            while not self.is_stopping:
                await self._read_for(mq, self.random.uniform(1, 8))

    async def _read_for(self, mq: AsyncClient, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), mq.reader(TOPIC) as reader:
                async for message in reader:
                    self.seen.append(_seen(message))
                    self.cluster.counts[f"read from {self._read_from}"] += 1
        except TimeoutError:
            pass
        except LiteMQError as error:
            self.cluster.trace("reader", type(error).__name__)
            await asyncio.sleep(0.2)

    async def _consume(self) -> None:
        """Consume for a group, and acknowledge, until cancelled."""
        life = 0
        async with self.client("consumer") as mq:
            while True:
                try:
                    async with mq.consumer(TOPIC, group_id=_GROUP) as consumer:
                        async for message in consumer:
                            self.history.delivered(_GROUP, life, *_seen(message))
                            self.cluster.counts["delivered"] += 1
                            await message.ack()
                except LiteMQError as error:
                    self.cluster.trace("consumer", type(error).__name__)
                    life += 1
                    await asyncio.sleep(0.2)

    def is_dropped(self, position: Position) -> bool:
        """Return whether retention has dropped the message at ``position``."""
        name = self.cluster.master
        store = self.cluster.processes[name].store if name is not None else None
        topic = store.state.topic(TOPIC) if store is not None else None
        if store is None or topic is None:
            return False
        _, queue, offset = position
        return offset < store.state.start_offsets.get(QueueKey(topic.topic_id, queue), 0)

    @property
    def stored(self) -> set[Name]:
        """The messages in the log that retention has not dropped meanwhile."""
        return {name for name, position in self.history.log if not self.is_dropped(position)}

    @property
    def is_consumed(self) -> bool:
        """Whether the group has received all that is in the log."""
        return not self.stored - self.history.seen_by(_GROUP).keys()

    async def read_log(self) -> None:
        """Read the whole topic as it is now."""
        async with self.client("final-reader") as mq:
            self.history.log = [_seen(message) async for message in mq.reader(TOPIC, follow=False)]


def _seen(message: Message) -> tuple[Name, Position]:
    return Name.from_bytes(message.body), (message.broker, message.queue_id, message.queue_offset)
