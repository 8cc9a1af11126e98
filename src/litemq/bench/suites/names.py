"""``litemq bench suite names``: a NameServer with 1,000 brokers of 1,000 topics, without sockets.

Its load at that size is 1,000 heartbeats per second, a registration per created topic, and a route
per client start.
"""

from __future__ import annotations

import atexit
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from litemq.bench.suite import Figure, at_least, at_most
from litemq.errors import LiteMQError
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.core import NameServer
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import BrokerFacts, Heartbeat, Opcode, TopicQueues, TopicRequest

__all__ = ["figures"]

_STARTED_AT = 1_700_000_000_000


class _Cluster:
    """A NameServer with registered brokers that all have the same topics."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self.topics = [f"topic-of-a-tenant-{n:05d}" for n in range(size)]
        self._folder = folder
        self._numbers = count()
        self._open(EmbeddedStore(folder / "cluster.db"))
        for number in range(size):
            self.ask(Opcode.REGISTER_BROKER, self.facts(number))

    def _open(self, store: EmbeddedStore) -> None:
        self._store = store
        self._nameserver = NameServer(store)

    def facts(self, number: int, *more: str) -> bytes:
        topics = [TopicQueues(topic=topic, queues=4) for topic in (*self.topics, *more)]
        host = f"10.0.{number >> 8}.{number & 255}"
        return BrokerFacts(
            name=_name(number), host=host, port=10911, started_at=_STARTED_AT, topics=topics
        ).SerializeToString()

    def ask(self, opcode: int, header: bytes) -> None:
        self._nameserver.handle(self, [Frame(1, opcode, 0, header, b"")])

    def answer(self, _frame: Frame, _header: bytes) -> None:
        pass

    def refuse(self, _frame: Frame, error: LiteMQError) -> None:
        raise error

    def requests_per_s(self, opcode: int, headers: Sequence[bytes]) -> float:
        """Measure requests per second."""
        rounds = max(1, 20_000 // len(headers))
        begin = time.perf_counter()
        for _ in range(rounds):
            for header in headers:
                self.ask(opcode, header)
        return rounds * len(headers) / (time.perf_counter() - begin)

    def request_ms(self, opcode: int, header: bytes) -> float:
        begin = time.perf_counter()
        self.ask(opcode, header)
        return (time.perf_counter() - begin) * 1000

    def register(self) -> float:
        """Measure the registration (ms) of a new broker."""
        number = self.size + next(self._numbers)
        took = self.request_ms(Opcode.REGISTER_BROKER, self.facts(number))
        self.ask(Opcode.DEREGISTER_BROKER, _heartbeat(number))
        return took

    def one_more_topic(self) -> float:
        return self.request_ms(Opcode.REGISTER_BROKER, self.facts(0, f"new-{next(self._numbers)}"))

    def first_route(self) -> float:
        """Measure a route of all brokers (ms) after one of them changed."""
        self.ask(Opcode.DEREGISTER_BROKER, _heartbeat(0))
        self.ask(Opcode.REGISTER_BROKER, self.facts(0))
        return self.request_ms(Opcode.FETCH_ROUTE, TopicRequest(topic=self.topics[0]).SerializeToString())

    def heartbeats(self) -> float:
        return self.requests_per_s(Opcode.HEARTBEAT, [_heartbeat(number) for number in range(self.size)])

    def routes(self) -> float:
        requests = [TopicRequest(topic=topic).SerializeToString() for topic in self.topics[:100]]
        for request in requests:
            self.ask(Opcode.FETCH_ROUTE, request)
        return self.requests_per_s(Opcode.FETCH_ROUTE, requests)

    def restart(self) -> float:
        self._store.close()
        begin = time.perf_counter()
        self._open(EmbeddedStore(self._folder / "cluster.db"))
        return time.perf_counter() - begin


def _name(number: int) -> str:
    return f"broker-{number:05d}"


def _heartbeat(number: int) -> bytes:
    return Heartbeat(name=_name(number), started_at=_STARTED_AT).SerializeToString()


def figures(scale: float) -> list[Figure]:
    """Return the figures of a NameServer, with goals that a slow host can meet."""
    folder = tempfile.TemporaryDirectory(prefix="litemq-bench-")
    atexit.register(folder.cleanup)
    size = max(10, int(1000 * scale))
    cluster = _Cluster(Path(folder.name), size)
    return [
        Figure("register", f"a new broker with {size} topics registers", "ms", cluster.register, at_most(20)),
        Figure("topic", "the same broker, one topic more", "ms", cluster.one_more_topic, at_most(20)),
        Figure("heartbeats", f"heartbeats of {size} brokers", "request/s", cluster.heartbeats, at_least(20_000)),
        Figure("routes", f"routes of {size} brokers, nothing changed", "request/s", cluster.routes, at_least(20_000)),
        Figure("route_made", f"a route of {size} brokers, one changed", "ms", cluster.first_route, at_most(20)),
        Figure("restart", f"restart with {size} brokers of {size} topics", "s", cluster.restart, at_most(5)),
    ]
