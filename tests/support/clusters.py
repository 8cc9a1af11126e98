"""A cluster in this process: real brokers over memory stores, and a NameServer, without sockets."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.caller import Caller
from litemq.client.async_client import AsyncClient
from litemq.client.cluster import ClusterEngine
from litemq.client.transport.channel import NO_ATTEMPT, Attempt
from litemq.clock import SystemClock
from litemq.errors import ConnectionLostError, LiteMQError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    BrokerFacts,
    BrokerRoute,
    BrokersAnswer,
    BrokerState,
    Opcode,
    RouteAnswer,
    TopicQueues,
    TopicRequest,
)
from litemq.storage.memory_store import MemoryStore
from litemq.storage.store import Store
from litemq.testing.local_channel import LocalChannel, Service

NAMES = ("names", 9876)

# Short waits between retries. Timeouts are long, except in tests of timeouts: a busy machine may
# pause for a while.
SETTINGS: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "max_retry_backoff_ms": 20,
    "route_refresh_ms": 50,
    "session_timeout_ms": 60_000,
    "request_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "shutdown_timeout_ms": 60_000,
}


class LocalNames:
    """A NameServer that answers with the brokers' current topics."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def handle(self, caller: Caller, frames: Iterable[Frame]) -> None:
        for frame in frames:
            caller.answer(frame, self._answer(frame).SerializeToString())

    def _answer(self, frame: Frame) -> RouteAnswer | BrokersAnswer:
        brokers = self._cluster.brokers
        down = self._cluster.down
        if frame.opcode == Opcode.FETCH_ROUTE:
            topic = TopicRequest.FromString(frame.header).topic
            return RouteAnswer(
                brokers=[
                    BrokerRoute(name=name, host=name, port=1, queues=facts.queues, default_durability=2)
                    for name, broker in brokers.items()
                    for facts in broker.topics
                    if facts.name == topic and name not in down
                ]
            )
        facts = [
            BrokerFacts(
                name=name,
                host=name,
                port=1,
                default_durability=2,
                topics=[TopicQueues(topic=t.name, queues=t.queues) for t in b.topics],
            )
            for name, b in brokers.items()
        ]
        return BrokersAnswer(brokers=[BrokerState(facts=fact, alive=fact.name not in down) for fact in facts])

    def caller_gone(self, caller: Caller) -> None:
        """Do nothing: it keeps no state of callers."""


class LocalCluster:
    """Brokers by name. Each may be taken down with its connections, and brought back."""

    def __init__(self, names: Iterable[str], limits: BrokerLimits) -> None:
        self.stores: dict[str, Store] = {name: MemoryStore(SystemClock()) for name in names}
        self.brokers = {name: Broker(store, SystemClock(), limits) for name, store in self.stores.items()}
        self.down: set[str] = set()
        self.refused: Counter[str] = Counter()  # refused connections, by broker that is down
        self.channels: dict[str, list[LocalChannel]] = {name: [] for name in ("names", *self.brokers)}

    async def connect(
        self,
        host: str,
        port: int,  # noqa: ARG002
        *,
        client_id: str,
        timeout: float,  # noqa: ARG002, ASYNC109
        on_lost: Callable[[LiteMQError], None],
        attempt: Attempt = NO_ATTEMPT,  # noqa: ARG002
    ) -> LocalChannel:
        if host in self.down:
            self.refused[host] += 1
            raise ConnectionLostError(f"{host} is down")
        service: Service = LocalNames(self) if host == "names" else self.brokers[host]
        channel = LocalChannel(host, client_id, service, on_lost)
        self.channels[host].append(channel)
        return channel

    def take_down(self, name: str) -> None:
        self.down.add(name)
        self.cut(name)

    def cut(self, name: str) -> None:
        """End all connections."""
        channels, self.channels[name] = self.channels[name], []
        for channel in channels:
            channel.close(ConnectionLostError("cut"))

    def bring_back(self, name: str) -> None:
        self.down.discard(name)

    def replace(self, name: str, store: Store) -> None:
        """Give the broker another store, as after a restart."""
        limits = self.brokers[name].context.limits
        self.brokers[name].close()
        self.stores[name] = store
        self.brokers[name] = Broker(store, SystemClock(), limits)

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[AsyncClient]:
        client = AsyncClient("litemq://names", **SETTINGS | settings)
        client._make_engine = lambda _url, config: ClusterEngine([NAMES], config, connect=self.connect)
        async with client:
            yield client

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()


@asynccontextmanager
async def local_cluster(*names: str, limits: BrokerLimits | None = None) -> AsyncIterator[LocalCluster]:
    cluster = LocalCluster(names or ("a",), limits or BrokerLimits(auto_create_topics=True))
    try:
        yield cluster
    finally:
        cluster.close()
