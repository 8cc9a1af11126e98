"""An in-memory broker for tests, on its own thread, for clients of any thread and event loop."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import defaultdict
from collections.abc import Coroutine
from itertools import count
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from litemq.broker.limits import BrokerLimits
from litemq.client.async_client import AsyncClient
from litemq.client.messages.message import Message
from litemq.clock import Clock, SystemClock
from litemq.testing.memory import MemoryCluster, offer, withdraw

__all__ = ["MemoryBroker"]

T = TypeVar("T")

_TIMEOUT_S: Final = 30
_numbers = count(1)


class MemoryBroker:
    """``with MemoryBroker() as broker:`` runs an empty in-memory broker.

    Clients connect to ``broker.url``.
    """

    def __init__(self, *, clock: Clock | None = None, auto_create_topics: bool = True, default_queues: int = 4) -> None:
        self.clock: Clock = clock or SystemClock()
        self.url = f"memory://litemq-broker-{next(_numbers)}"
        self._limits = BrokerLimits(auto_create_topics=auto_create_topics, default_queues=default_queues)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cluster: MemoryCluster | None = None

    def start(self) -> Self:
        """Start the broker. Prefer ``with``, which also closes it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=f"litemq {self.url}", daemon=True)
            self._thread.start()
            self._cluster = self._run_on_loop(self._open())
        return self

    async def _open(self) -> MemoryCluster:
        cluster = MemoryCluster(self.clock, self._limits)
        offer(self.url, cluster)
        return cluster

    def close(self) -> None:
        """Stop the broker; open clients lose their connections."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._run_on_loop(self._end())
        self._loop = self._thread = self._cluster = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_TIMEOUT_S)
        loop.close()

    async def _end(self) -> None:
        withdraw(self.url)
        await asyncio.sleep(0)  # let cancelled tasks end

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the broker's loop and wait for its result."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the broker is not running: use it inside `with MemoryBroker() as broker:`")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    # For tests ------------------------------------------------------------------------------------

    def messages(self, topic: str) -> list[Message]:
        """Return all messages of ``topic``, oldest first; none if there is no such topic."""
        return self._run_on_loop(self._messages(topic))

    async def _messages(self, topic: str) -> list[Message]:
        queues: dict[int, list[Message]] = defaultdict(list)
        async with AsyncClient(self.url) as mq:
            if topic not in await mq.admin.topics():
                return []
            async for message in mq.reader(topic, follow=False):
                queues[message.queue_id].append(message)
        # Queue order within a queue; store time, then message id, between queues.
        return list(heapq.merge(*queues.values(), key=lambda message: (message.store_timestamp, message.message_id)))

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic, as ``litemq topic create`` does."""
        self._run_on_loop(self._create_topic(topic, queues))

    async def _create_topic(self, topic: str, queues: int) -> None:
        async with AsyncClient(self.url) as mq:
            await mq.admin.create_topic(topic, queues=queues)

    def fire_due(self) -> None:
        """Process what is due by the broker's clock, such as timers and expired leases."""
        self._run_on_loop(self._fire_due())

    async def _fire_due(self) -> None:
        if self._cluster is not None:
            await self._cluster.broker.fire_due()

    def drop_connections(self) -> None:
        """Drop all connections, as a network failure would; clients reconnect."""
        self._run_on_loop(self._drop_connections())

    async def _drop_connections(self) -> None:
        if self._cluster is not None:
            self._cluster.drop_connections()
