"""The engine of ``memory://``: a whole cluster in this process, gone when the last client closes.

One NameServer, one broker, the real ones, over a store in memory; no socket, no file. Clients on one event loop that use the same URL share
it: ``memory://`` and ``memory://other`` are two clusters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from litemq.broker.config import BrokerLimits
from litemq.broker.core import Broker
from litemq.client.channel import Channel
from litemq.client.cluster import ClusterEngine
from litemq.client.config import ClientConfig
from litemq.clock import Clock, FakeClock, SystemClock
from litemq.errors import ConnectionLostError, LiteMQError, UnsupportedFeatureError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.core import NameServer
from litemq.proto.wire_pb2 import BrokerFacts, Opcode, TopicQueues
from litemq.storage.memory_store import MemoryStore
from litemq.testing.local_channel import LocalChannel, Service
from litemq.types import Durability

__all__ = ["MemoryCluster", "MemoryEngine", "open_engine"]

_NAMES = ("names", 1)
_BROKER = ("broker", 2)


class MemoryCluster:
    """A NameServer and a broker; made on the event loop that they run on."""

    def __init__(self, clock: Clock | None = None, limits: BrokerLimits | None = None) -> None:
        clock = clock or SystemClock()
        self.loop = asyncio.get_running_loop()
        self._cluster_store = EmbeddedStore()
        self._names = NameServer(self._cluster_store, clock=FakeClock())  # no heart has to beat here: for it no time passes
        self._store = MemoryStore(clock)
        self.broker = Broker(self._store, clock, limits or BrokerLimits(auto_create_topics=True), announce=self._register)
        self._registering = LocalChannel("names", "broker", self._names)
        self._channels: set[LocalChannel] = set()
        self._registered = self.loop.create_task(self._register())

    async def _register(self) -> None:
        topics = [TopicQueues(topic=topic.name, queues=topic.queues) for topic in self.broker.topics]
        facts = BrokerFacts(
            name="memory", host=_BROKER[0], port=_BROKER[1], started_at=1, default_durability=Durability.DISK, topics=topics
        )
        await self._registering.ask(Opcode.REGISTER_BROKER, facts.SerializeToString())

    async def connect(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ARG002, ASYNC109  it takes no time
        lost: Callable[[LiteMQError], None],
    ) -> Channel:
        """A channel to the NameServer or the broker."""
        await self._registered
        service: Service = self._names if (host, port) == _NAMES else self.broker
        channel = LocalChannel(f"{host}:{port}", client_id, service, lost)
        self._channels.add(channel)
        return channel

    def drop_connections(self) -> None:
        """End all connections at once, as a network would: clients come again by themselves."""
        channels, self._channels = self._channels, set()
        for channel in channels:
            channel.abort(ConnectionLostError("the connection was dropped"))

    def close(self) -> None:
        """Everything is gone."""
        self.broker.close()
        self.drop_connections()
        self._registering.close()
        self._store.close()
        self._cluster_store.close()


_clusters: dict[str, tuple[MemoryCluster, int]] = {}  # those in use, and by how many clients


class MemoryEngine(ClusterEngine):
    """A client's way into a cluster in this process."""

    def __init__(self, url: str, config: ClientConfig) -> None:
        self._url = url
        self._cluster: MemoryCluster | None = None

        async def connect(
            host: str,
            port: int,
            *,
            client_id: str,
            timeout: float,  # noqa: ASYNC109
            lost: Callable[[LiteMQError], None],
        ) -> Channel:
            if self._cluster is None:
                raise ConnectionLostError(f"{self._url} is closed")
            return await self._cluster.connect(host, port, client_id=client_id, timeout=timeout, lost=lost)

        super().__init__([_NAMES], config, connect)

    async def open(self) -> None:
        known = _clusters.get(self._url)
        if known is not None and known[0].loop.is_closed():
            del _clusters[self._url]  # whoever used it went without closing
            known = None
        cluster, users = known or (MemoryCluster(), 0)
        if cluster.loop is not asyncio.get_running_loop():
            raise UnsupportedFeatureError(
                f"{self._url} is in use on another event loop, and lives there: close its clients first, or use another name, memory://…"
            )
        _clusters[self._url] = (cluster, users + 1)
        self._cluster = cluster
        await super().open()

    async def close(self, within: float) -> None:
        await super().close(within)
        if self._cluster is None:
            return
        cluster, users = _clusters.pop(self._url)
        self._cluster = None
        if users > 1:
            _clusters[self._url] = (cluster, users - 1)
        else:
            cluster.close()


def open_engine(url: str, config: ClientConfig) -> MemoryEngine:
    """The engine of a URL ``memory://[name]``."""
    return MemoryEngine(url, config)
