"""Routes: one request at a time for a topic, missing topics created, and each route passed on."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.cluster.routes import Routes
from litemq.client.config import ClientConfig
from litemq.client.engine.routes import BrokerAddress, Route
from litemq.errors import ConnectionLostError, NoRouteError, TopicNotFoundError
from litemq.proto.wire_pb2 import (
    BrokerFacts,
    BrokerState,
    CreateTopicRequest,
    Opcode,
    QueueRange,
    ReplicaFacts,
    ReplicaGroup,
    TopicAnswer,
)
from litemq.types import Durability
from support.on_loop import on_loop


class _NameServers:
    """A fake of the NameServers: brokers, and the routes of some topics."""

    addresses = (("nameservers", 1),)
    description = "nameservers:1"

    def __init__(self, *brokers: str, down: str = "") -> None:
        self.down = down
        self.asked: Counter[str] = Counter()
        self.routes: dict[str, Route] = {}
        self.fetched: Route | None = None  # the same for all topics
        self.groups: list[ReplicaGroup] = []
        self.lost: set[str] = set()  # topics that it does not know any more
        self._states = [
            BrokerState(facts=BrokerFacts(name=name, host=f"host-{name}", port=1), alive=name != down)
            for name in brokers
        ]

    async def fetch(self, topic: str) -> Route | None:
        self.asked[topic] += 1
        await asyncio.sleep(0)
        if topic in self.lost:
            return None
        if self.fetched is not None:
            self.cache(self.fetched)
        return self.routes.get(topic)

    async def brokers(self) -> list[BrokerState]:
        return self._states

    async def replica_groups(self) -> list[ReplicaGroup]:
        return self.groups

    def cache(self, route: Route) -> None:
        self.routes[route.topic] = route

    def cached(self, topic: str) -> Route | None:
        return self.routes.get(topic)


class _Connections:
    """A fake of the connections: each broker has two queues of every topic."""

    def __init__(self, down: str = "") -> None:
        self.down = down
        self.addresses: dict[str, tuple[str, int]] = {}
        self.outages: dict[str, str] = {}
        self.created: list[tuple[str, str]] = []

    def learn(self, broker: str, host: str, port: int, _epoch: int = 0) -> None:
        self.addresses[broker] = (host, port)

    async def ask(self, broker: str, opcode: int, request: Any) -> bytes:
        assert broker in self.addresses  # else a connection could not open
        if opcode == Opcode.CREATE_TOPIC:
            self.created.append((broker, request.topic))
        return TopicAnswer(queues=[QueueRange(queue_id=0), QueueRange(queue_id=1)]).SerializeToString()

    def to(self, broker: str) -> "_Connection":
        return _Connection(broker == self.down)


class _Connection:
    """A fake of a connection to a broker that is up or down."""

    def __init__(self, is_down: bool) -> None:
        self._is_down = is_down
        self.is_open = not is_down

    async def probe(self, within: float) -> None:
        if self._is_down:
            raise ConnectionLostError(f"refused within {within:g} s")


def _routes(nameservers: _NameServers) -> tuple[Routes, _Connections, list[Route]]:
    connections, passed_on = _Connections(nameservers.down), list[Route]()
    contacts = BrokerContacts(nameservers, connections, ClientConfig())  # type: ignore[arg-type]
    routes = Routes(nameservers, connections, contacts, passed_on.append)  # type: ignore[arg-type]
    return routes, connections, passed_on


@on_loop
async def test_concurrent_callers_share_one_request() -> None:
    nameservers = _NameServers("a")
    nameservers.cache(Route("orders", (BrokerAddress("a", "host-a", 1, 4, Durability.DISK),)))
    routes, connections, passed_on = _routes(nameservers)
    first, second = await asyncio.gather(routes.route("orders"), routes.route("orders"))
    assert first is second
    assert (nameservers.asked["orders"], passed_on, connections.addresses) == (1, [first], {"a": ("host-a", 1)})
    assert await routes.known("orders") is first
    assert (await routes.survey("orders")).brokers == ["a"]
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
    survey = await routes.survey("LITEMQ_SYS_TIMER")
    assert (survey.brokers, survey.missing) == (["a"], {"b": "refused within 1 s; silent for 0 s"})


@on_loop
async def test_a_survey_contacts_each_broker_whatever_the_nameserver_says() -> None:
    nameservers = _NameServers("a", "b", "c", down="b")
    routes, connections, _ = _routes(nameservers)
    assert (await routes.survey()).brokers == ["a", "c"]
    connections.down = "c"  # the NameServer has not noticed that c is down and b is back
    survey = await routes.survey()
    assert (survey.asked, survey.brokers, survey.missing) == (["a", "b", "c"], ["a", "b"], {"c": "refused within 1 s"})


@on_loop
async def test_a_survey_without_any_answer_is_refused() -> None:
    routes, _, _ = _routes(_NameServers("a", down="a"))
    with pytest.raises(NoRouteError, match=r"broker a does not answer \(refused within 1 s; silent for 0 s\)"):
        await routes.survey()
    with pytest.raises(NoRouteError, match=r"no broker is alive .* `litemq broker --nameserver nameservers:1`"):
        await _routes(_NameServers())[0].survey()


@on_loop
async def test_a_new_topic_is_surveyed_before_the_nameserver_knows_it() -> None:
    nameservers = _NameServers("a", "b")
    routes, _, _ = _routes(nameservers)
    with pytest.raises(TopicNotFoundError):
        await routes.survey("orders")
    await routes.create(CreateTopicRequest(topic="orders"), ["b"])
    assert (await routes.survey("orders")).asked == ["b"]


@on_loop
async def test_without_a_live_broker_no_topic_is_missing() -> None:
    routes, _, _ = _routes(_NameServers("a", down="a"))
    for call in (routes.route("orders"), routes.route("orders", create=True), routes.alive()):
        with pytest.raises(NoRouteError, match="no broker is alive"):
            await call


@on_loop
async def test_a_route_keeps_a_group_without_a_master_that_the_nameserver_has_forgotten() -> None:
    nameservers = _NameServers("a")
    group = BrokerAddress("g", "host-g", 1, 4, Durability.DISK)
    nameservers.cache(Route("orders", (group,)))
    nameservers.lost.add("orders")
    routes, _, _ = _routes(nameservers)
    nameservers.groups = [ReplicaGroup(name="g", epoch=1, obstacle="an election")]
    kept = group._replace(alive=False)
    assert (await routes.route("orders")).brokers == (kept,)
    nameservers.lost.clear()
    other = BrokerAddress("a", "host-a", 1, 4, Durability.DISK)
    nameservers.fetched = Route("orders", (other,))
    assert (await routes.route("orders")).brokers == (other, kept)
    nameservers.groups = [ReplicaGroup(name="g", epoch=2, is_leased=True, replicas=[ReplicaFacts(alive=True)])]
    assert (await routes.route("orders")).brokers == (other,)  # it was deleted there
    nameservers.fetched = None
    nameservers.lost.add("orders")
    with pytest.raises(TopicNotFoundError):
        await routes.route("orders")


@on_loop
async def test_close_cancels_pending_requests() -> None:
    routes, _, _ = _routes(_NameServers("a"))
    waiting = asyncio.ensure_future(routes.route("orders"))
    await asyncio.sleep(0)
    await routes.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
