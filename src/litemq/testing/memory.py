"""The engine of ``memory://``: a whole cluster in this process, gone when the last client closes.

One NameServer, one broker, the real ones, over a store in memory; no socket, no file. Clients on one event loop that use the same URL share
it: ``memory://`` and ``memory://other`` are two clusters. It lives on the loop of the first of them. One that is offered under a URL, as
``MemoryBroker`` does, stays until it is withdrawn, and clients on any loop, in any thread, may use it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from litemq.broker.broker import Broker, BrokerIdentity
from litemq.broker.limits import BrokerLimits
from litemq.client.cluster import ClusterEngine
from litemq.client.config import ClientConfig
from litemq.client.transport.channel import Answer, Channel
from litemq.clock import Clock, FakeClock, SystemClock
from litemq.errors import ConnectionLostError, LiteMQError, UnsupportedFeatureError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.core import NameServer
from litemq.proto.wire_pb2 import BrokerFacts, Opcode, TopicQueues
from litemq.storage.memory_store import MemoryStore
from litemq.testing.bridge import RemoteService
from litemq.testing.local_channel import LocalChannel, Service
from litemq.types import Durability

__all__ = ["MemoryCluster", "MemoryEngine", "offer", "open_engine", "withdraw"]

_NAMESERVER_ADDRESS = ("names", 1)
_BROKER_ADDRESS = ("broker", 2)


class MemoryCluster:
    """A NameServer and a broker; made on the event loop that they run on."""

    def __init__(self, clock: Clock | None = None, limits: BrokerLimits | None = None) -> None:
        clock = self.clock = clock or SystemClock()
        self.loop = asyncio.get_running_loop()
        self._cluster_store = EmbeddedStore()
        self._nameserver = NameServer(self._cluster_store, clock=FakeClock())  # its clock stands still: no heartbeat is needed
        self._store = MemoryStore(clock)
        self.broker = Broker(
            self._store,
            clock,
            limits or BrokerLimits(auto_create_topics=True),
            announcer=self,
            identity=BrokerIdentity("memory"),
            session_clock=SystemClock(),  # members of groups do send heartbeats
        )
        self._registration = LocalChannel("names", "broker", self._nameserver)
        self._channels: dict[LocalChannel, asyncio.AbstractEventLoop] = {}
        self._closed = False
        self._register().add_done_callback(lambda answer: answer.exception())  # before anybody's first request

    async def announce(self) -> None:
        """Publish the broker's topics to the NameServer in this process."""
        await self._register()

    def _register(self) -> asyncio.Future[Answer]:
        topics = [TopicQueues(topic=topic.name, queues=topic.queues, has_priorities=topic.has_priorities) for topic in self.broker.topics]
        facts = BrokerFacts(
            name="memory", host=_BROKER_ADDRESS[0], port=_BROKER_ADDRESS[1], started_at=1, default_durability=Durability.DISK, topics=topics
        )
        return self._registration.ask(Opcode.REGISTER_BROKER, facts.SerializeToString())

    async def connect(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ARG002, ASYNC109  it takes no time
        lost: Callable[[LiteMQError], None],
    ) -> Channel:
        """A channel to the NameServer or the broker, from the loop that is running."""
        if self._closed:
            raise ConnectionLostError("the cluster in memory is closed")
        service: Service = self._nameserver if (host, port) == _NAMESERVER_ADDRESS else self.broker
        here = asyncio.get_running_loop()
        if here is not self.loop:
            service = RemoteService(service, self.loop)
        channel = LocalChannel(f"{host}:{port}", client_id, service, lost)
        self._channels[channel] = here
        return channel

    def drop_connections(self) -> None:
        """End all connections at once, as a network would: clients come again by themselves."""
        channels, self._channels = self._channels, {}
        for channel, loop in channels.items():
            lost = ConnectionLostError("the connection was dropped")
            if loop is self.loop:
                channel.abort(lost)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(channel.abort, lost)

    def close(self) -> None:
        """Everything is gone."""
        self._closed = True
        self.broker.close()
        self.drop_connections()
        self._registration.close()
        self._store.close()
        self._cluster_store.close()


class _SharedCluster:
    """A cluster under a URL, with the number of clients that use it."""

    def __init__(self, cluster: MemoryCluster, *, offered: bool) -> None:
        self.cluster = cluster
        self.offered = offered
        self.users = 0


_shared: dict[str, _SharedCluster] = {}
_lock = threading.Lock()


def offer(url: str, cluster: MemoryCluster) -> None:
    """Let clients on any event loop use a cluster, until it is withdrawn."""
    with _lock:
        _shared[url] = _SharedCluster(cluster, offered=True)


def withdraw(url: str) -> None:
    """No more clients find it; on the cluster's own loop. Those that are left lose their connections."""
    with _lock:
        shared = _shared.pop(url)
    shared.cluster.close()


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

        super().__init__([_NAMESERVER_ADDRESS], config, connect)

    async def open(self) -> None:
        here = asyncio.get_running_loop()
        with _lock:
            shared = _shared.get(self._url)
            if shared is None or (shared.cluster.loop.is_closed() and not shared.offered):  # its users went without closing
                shared = _shared[self._url] = _SharedCluster(MemoryCluster(), offered=False)
            if shared.cluster.loop is not here and not shared.offered:
                raise UnsupportedFeatureError(
                    f"{self._url} is in use on another event loop, and lives there: close its clients first, use another name, memory://…, "
                    "or litemq.testing.MemoryBroker, which serves all loops"
                )
            shared.users += 1
        self._cluster = shared.cluster
        await super().open()

    def wall_ms(self) -> int:
        """The clock of the broker: a delay ends when a test has moved it so far."""
        return super().wall_ms() if self._cluster is None else self._cluster.clock.wall_ms()

    async def close(self, within: float) -> None:
        await super().close(within)
        cluster, self._cluster = self._cluster, None
        with _lock:
            shared = _shared.get(self._url)
            if cluster is None or shared is None or shared.cluster is not cluster:
                return  # it was never opened, or the cluster is gone
            shared.users -= 1
            if shared.users or shared.offered:
                return
            del _shared[self._url]
        cluster.close()


def open_engine(url: str, config: ClientConfig) -> MemoryEngine:
    """The engine of a URL ``memory://[name]``."""
    return MemoryEngine(url, config)
