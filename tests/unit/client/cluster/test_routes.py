"""Routes: one request at a time for a topic, missing topics created, and each route passed on."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from litemq.client.cluster.routes import Routes
from litemq.client.engine.routes import BrokerAddress, Route
from litemq.errors import NoRouteError, TopicNotFoundError
from litemq.proto.wire_pb2 import BrokerFacts, BrokerState, CreateTopicRequest, Opcode, QueueRange, TopicAnswer
from litemq.types import Durability
from support.on_loop import on_loop


class _NameServers:
    """A fake of the NameServers: brokers, and the routes of some topics."""

    description = "nameservers:1"

    def __init__(self, *brokers: str, down: str = "") -> None:
        self.asked: Counter[str] = Counter()
        self.routes: dict[str, Route] = {}
        self._states = [
            BrokerState(facts=BrokerFacts(name=name, host=f"host-{name}", port=1), alive=name != down)
            for name in brokers
        ]

    async def fetch(self, topic: str) -> Route | None:
        self.asked[topic] += 1
        await asyncio.sleep(0)
        return self.routes.get(topic)

    async def brokers(self) -> list[BrokerState]:
        return self._states

    def cache(self, route: Route) -> None:
        self.routes[route.topic] = route

    def cached(self, topic: str) -> Route | None:
        return self.routes.get(topic)


class _Connections:
    """A fake of the connections: each broker has two queues of every topic."""

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self.created: list[tuple[str, str]] = []

    async def ask(self, broker: str, opcode: int, request: Any) -> bytes:
        assert broker in self.addresses  # else a connection could not open
        if opcode == Opcode.CREATE_TOPIC:
            self.created.append((broker, request.topic))
        return TopicAnswer(queues=[QueueRange(queue_id=0), QueueRange(queue_id=1)]).SerializeToString()


def _routes(nameservers: _NameServers) -> tuple[Routes, _Connections, list[Route]]:
    connections, passed_on = _Connections(), list[Route]()
    return Routes(nameservers, connections, passed_on.append), connections, passed_on  # type: ignore[arg-type]


@on_loop
async def test_concurrent_callers_share_one_request() -> None:
    nameservers = _NameServers("a")
    nameservers.cache(Route("orders", (BrokerAddress("a", "host-a", 1, 4, Durability.DISK),)))
    routes, connections, passed_on = _routes(nameservers)
    first, second = await asyncio.gather(routes.route("orders"), routes.route("orders"))
    assert first is second
    assert (nameservers.asked["orders"], passed_on, connections.addresses) == (1, [first], {"a": ("host-a", 1)})
    assert await routes.known("orders") is first
    assert await routes.topic_brokers("orders") == ["a"]
    assert nameservers.asked["orders"] == 2


@on_loop
async def test_a_topic_is_created_on_the_brokers_that_are_alive() -> None:
    nameservers = _NameServers("a", "b", "c", down="b")
    routes, connections, passed_on = _routes(nameservers)
    with pytest.raises(TopicNotFoundError, match="litemq topic create orders"):
        await routes.route("orders")
    assert [broker.name for broker in (await routes.known("orders")).brokers] == ["a", "c"]
    assert connections.created == [("a", "orders"), ("c", "orders")]
    assert passed_on == [nameservers.routes["orders"]]
    assert await routes.alive() == ["a", "c"]
    with pytest.raises(NoRouteError, match=r"broker b is not alive .* choose from a, c"):
        await routes.create(CreateTopicRequest(topic="bills"), ["a", "b"])


@on_loop
async def test_system_topics_are_on_each_broker() -> None:
    routes, _, _ = _routes(_NameServers("a", "b", down="b"))
    assert (await routes.route("LITEMQ_SYS_TIMER")).brokers == (BrokerAddress("a", "host-a", 1, 2, Durability.NONE),)


@on_loop
async def test_without_a_live_broker_no_topic_is_missing() -> None:
    routes, _, _ = _routes(_NameServers("a", down="a"))
    for call in (routes.route("orders"), routes.route("orders", create=True), routes.alive()):
        with pytest.raises(NoRouteError, match="no broker is alive"):
            await call


@on_loop
async def test_close_cancels_pending_requests() -> None:
    routes, _, _ = _routes(_NameServers("a"))
    waiting = asyncio.ensure_future(routes.route("orders"))
    await asyncio.sleep(0)
    await routes.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
