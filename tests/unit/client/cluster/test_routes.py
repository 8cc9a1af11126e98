"""Routes: asked for once at a time, created where brokers do that, and passed on."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from litemq.client.cluster.routes import Routes
from litemq.client.engine.routes import BrokerPlace, Route
from litemq.errors import NoRouteError, TopicNotFoundError
from litemq.proto.wire_pb2 import BrokerFacts, BrokerState, CreateTopicRequest, Opcode, QueueRange, TopicAnswer
from litemq.types import Durability
from support.on_loop import on_loop


class _Names:
    """Knows brokers, and the routes of some topics."""

    described = "names:1"

    def __init__(self, *brokers: str, down: str = "") -> None:
        self.asked: Counter[str] = Counter()
        self.routes: dict[str, Route] = {}
        self._states = [BrokerState(facts=BrokerFacts(name=name, host=f"host-{name}", port=1), alive=name != down) for name in brokers]

    async def fetch(self, topic: str) -> Route | None:
        self.asked[topic] += 1
        await asyncio.sleep(0)
        return self.routes.get(topic)

    async def brokers(self) -> list[BrokerState]:
        return self._states

    def remember(self, route: Route) -> None:
        self.routes[route.topic] = route

    def remembered(self, topic: str) -> Route | None:
        return self.routes.get(topic)


class _Links:
    """Brokers that have two queues of every topic."""

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self.created: list[tuple[str, str]] = []

    async def ask(self, broker: str, opcode: int, request: Any) -> bytes:
        assert broker in self.addresses  # a link could not connect otherwise
        if opcode == Opcode.CREATE_TOPIC:
            self.created.append((broker, request.topic))
        return TopicAnswer(queues=[QueueRange(queue_id=0), QueueRange(queue_id=1)]).SerializeToString()


def _routes(names: _Names) -> tuple[Routes, _Links, list[Route]]:
    links, passed_on = _Links(), list[Route]()
    return Routes(names, links, passed_on.append), links, passed_on  # type: ignore[arg-type]


@on_loop
async def test_callers_share_one_question() -> None:
    names = _Names("a")
    names.remember(Route("orders", (BrokerPlace("a", "host-a", 1, 4, Durability.DISK),)))
    routes, links, passed_on = _routes(names)
    first, second = await asyncio.gather(routes.route("orders"), routes.route("orders"))
    assert first is second
    assert (names.asked["orders"], passed_on, links.addresses) == (1, [first], {"a": ("host-a", 1)})
    assert await routes.known("orders") is first
    assert await routes.brokers_of("orders") == ["a"]
    assert names.asked["orders"] == 2


@on_loop
async def test_a_topic_is_created_on_the_brokers_that_are_alive() -> None:
    names = _Names("a", "b", "c", down="b")
    routes, links, passed_on = _routes(names)
    with pytest.raises(TopicNotFoundError, match="litemq topic create orders"):
        await routes.route("orders")
    assert [place.name for place in (await routes.known("orders")).brokers] == ["a", "c"]
    assert links.created == [("a", "orders"), ("c", "orders")]
    assert passed_on == [names.routes["orders"]]
    assert await routes.alive() == ["a", "c"]
    with pytest.raises(NoRouteError, match=r"no broker b is alive, .* choose of a, c"):
        await routes.create(CreateTopicRequest(topic="bills"), ["a", "b"])


@on_loop
async def test_each_broker_has_the_topics_of_the_system() -> None:
    routes, _, _ = _routes(_Names("a", "b", down="b"))
    assert (await routes.route("LITEMQ_SYS_TIMER")).brokers == (BrokerPlace("a", "host-a", 1, 2, Durability.NONE),)


@on_loop
async def test_without_a_broker_no_topic_is_gone() -> None:
    routes, _, _ = _routes(_Names("a", down="a"))
    for question in (routes.route("orders"), routes.route("orders", create=True), routes.alive()):
        with pytest.raises(NoRouteError, match="no broker is alive"):
            await question


@on_loop
async def test_close_ends_questions_under_way() -> None:
    routes, _, _ = _routes(_Names("a"))
    waiting = asyncio.ensure_future(routes.route("orders"))
    await asyncio.sleep(0)
    await routes.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
