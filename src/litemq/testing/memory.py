"""The engine of ``memory://``: a cluster in this process, which ends when the last client closes.

It is a real NameServer and a real broker with an in-memory store, without sockets or files. Clients
with the same URL on one event loop share a cluster; ``memory://`` and ``memory://other`` are two
clusters. The cluster runs on the loop of its first client. A cluster passed to ``offer`` lasts
until ``withdraw``, and serves clients on any loop and thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from litemq.broker.broker import Broker, BrokerIdentity
from litemq.broker.limits import BrokerLimits
from litemq.client.cluster import ClusterEngine
from litemq.client.config import ClientConfig
from litemq.client.transport.channel import NO_ATTEMPT, Answer, Attempt, Channel
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
    """A NameServer and a broker. Create it on the event loop that it runs on."""

    def __init__(self, clock: Clock | None = None, limits: BrokerLimits | None = None) -> None:
        clock = self.clock = clock or SystemClock()
        self.loop = asyncio.get_running_loop()
        self._cluster_store = EmbeddedStore()
        self._nameserver = NameServer(self._cluster_store, clock=FakeClock())  # a stopped clock: no heartbeats needed
        self._store = MemoryStore(clock)
        self.broker = Broker(
            self._store,
            clock,
            limits or BrokerLimits(auto_create_topics=True),
            announcer=self,
            identity=BrokerIdentity("memory"),
            session_clock=SystemClock(),  # group members do send heartbeats
        )
        self._registration = LocalChannel("names", "broker", self._nameserver)
        self._channels: dict[LocalChannel, asyncio.AbstractEventLoop] = {}
        self._closed = False
        self._register().add_done_callback(lambda answer: answer.exception())  # before the first request of a client

    async def announce(self) -> None:
        """Publish the broker's topics to the NameServer in this process."""
        await self._register()

    def _register(self) -> asyncio.Future[Answer]:
        topics = [
            TopicQueues(topic=topic.name, queues=topic.queues, has_priorities=topic.has_priorities)
            for topic in self.broker.topics
        ]
        facts = BrokerFacts(
            name="memory",
            host=_BROKER_ADDRESS[0],
            port=_BROKER_ADDRESS[1],
            started_at=1,
            default_durability=Durability.DISK,
            topics=topics,
        )
        return self._registration.ask(Opcode.REGISTER_BROKER, facts.SerializeToString())

    async def connect(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ARG002, ASYNC109  connecting is immediate
        on_lost: Callable[[LiteMQError], None],
        attempt: Attempt = NO_ATTEMPT,  # noqa: ARG002  requests do not wait in a channel that is closed
    ) -> Channel:
        """Open a channel to the NameServer or the broker, on the running loop."""
        if self._closed:
            raise ConnectionLostError("the in-memory cluster is closed")
        service: Service = self._nameserver if (host, port) == _NAMESERVER_ADDRESS else self.broker
        here = asyncio.get_running_loop()
        if here is not self.loop:
            service = RemoteService(service, self.loop)
        channel = LocalChannel(f"{host}:{port}", client_id, service, on_lost)
        self._channels[channel] = here
        return channel

    def drop_connections(self) -> None:
        """Drop all connections, as a network failure would; clients reconnect."""
        channels, self._channels = self._channels, {}
        for channel, loop in channels.items():
            lost = ConnectionLostError("the connection was dropped")
            if loop is self.loop:
                channel.abort(lost)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(channel.abort, lost)

    def close(self) -> None:
        self._closed = True
        self.broker.close()
        self.drop_connections()
        self._registration.close()
        self._store.close()
        self._cluster_store.close()


class _SharedCluster:
    """The cluster of a URL, with the number of its clients."""

    def __init__(self, cluster: MemoryCluster, *, offered: bool) -> None:
        self.cluster = cluster
        self.offered = offered
        self.users = 0


_shared: dict[str, _SharedCluster] = {}
_lock = threading.Lock()


def offer(url: str, cluster: MemoryCluster) -> None:
    """Make ``cluster`` available under ``url`` to clients on any event loop, until ``withdraw``."""
    with _lock:
        _shared[url] = _SharedCluster(cluster, offered=True)


def withdraw(url: str) -> None:
    """Close the cluster of ``url``; open clients lose their connections.

    Call it on the cluster's loop.
    """
    with _lock:
        shared = _shared.pop(url)
    shared.cluster.close()


class MemoryEngine(ClusterEngine):
    """The engine of one client of an in-memory cluster."""

    def __init__(self, url: str, config: ClientConfig) -> None:
        self._url = url
        self._cluster: MemoryCluster | None = None

        async def connect(
            host: str,
            port: int,
            *,
            client_id: str,
            timeout: float,  # noqa: ASYNC109
            on_lost: Callable[[LiteMQError], None],
            attempt: Attempt = NO_ATTEMPT,
        ) -> Channel:
            if self._cluster is None:
                raise ConnectionLostError(f"{self._url} is closed")
            return await self._cluster.connect(
                host, port, client_id=client_id, timeout=timeout, on_lost=on_lost, attempt=attempt
            )

        super().__init__([_NAMESERVER_ADDRESS], config, connect)

    async def open(self) -> None:
        here = asyncio.get_running_loop()
        with _lock:
            shared = _shared.get(self._url)
            if shared is None or (shared.cluster.loop.is_closed() and not shared.offered):  # its clients did not close
                shared = _shared[self._url] = _SharedCluster(MemoryCluster(), offered=False)
            if shared.cluster.loop is not here and not shared.offered:
                raise UnsupportedFeatureError(
                    f"{self._url} is in use on another event loop: close its clients first, "
                    "use another name, memory://…, "
                    "or use litemq.testing.MemoryBroker, which serves all loops"
                )
            shared.users += 1
        self._cluster = shared.cluster
        await super().open()

    def wall_ms(self) -> int:
        """Return the time of the broker's clock, so that a test that moves it ends delays."""
        return super().wall_ms() if self._cluster is None else self._cluster.clock.wall_ms()

    async def close(self, within: float) -> None:
        await super().close(within)
        cluster, self._cluster = self._cluster, None
        with _lock:
            shared = _shared.get(self._url)
            if cluster is None or shared is None or shared.cluster is not cluster:
                return  # not opened, or the cluster is closed
            shared.users -= 1
            if shared.users or shared.offered:
                return
            del _shared[self._url]
        cluster.close()


def open_engine(url: str, config: ClientConfig) -> MemoryEngine:
    """Make the engine for ``memory://[name]``."""
    return MemoryEngine(url, config)
