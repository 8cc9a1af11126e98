"""Routes as a client remembers them: a broker that is silent keeps its queues, or keys would move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from litemq.client.cluster.nameservers import Names
from litemq.client.config import ClientConfig
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import BrokerFacts, BrokerRoute, BrokersAnswer, BrokerState, Opcode, RouteAnswer, TopicQueues


class Told:
    """What the NameServer says: which brokers its routes name, and which it lists, alive or silent."""

    def __init__(self) -> None:
        self.routed = ["a", "b"]
        self.listed = {"a": True, "b": True}

    async def ask(self, opcode: int, _header: bytes, _within: float) -> bytes:
        if opcode == Opcode.FETCH_ROUTE:
            places = [BrokerRoute(name=name, host="h", port=1, queues=2, default_durability=2) for name in self.routed]
            return RouteAnswer(brokers=places).SerializeToString()
        topics = [TopicQueues(topic="orders", queues=2)]
        states = [
            BrokerState(facts=BrokerFacts(name=name, host="h", port=1, default_durability=2, topics=topics), alive=alive)
            for name, alive in self.listed.items()
        ]
        return BrokersAnswer(brokers=states).SerializeToString()


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("alive_by_now", [True, False])
def test_a_silent_broker_keeps_its_queues(monkeypatch: pytest.MonkeyPatch, is_known: bool, alive_by_now: bool) -> None:
    async def scenario() -> None:
        told = Told()
        names: Any = Names([("h", 1)], Peer.connect, ClientConfig())
        monkeypatch.setattr(names, "_ask", told.ask)
        if is_known:
            assert [place.alive for place in (await names.fetch("orders")).brokers] == [True, True]
        told.routed = ["a"]
        told.listed["b"] = alive_by_now  # it may come back between the two questions
        route = await names.fetch("orders")
        assert [(place.name, place.alive) for place in route.brokers] == [("a", True), ("b", alive_by_now)]
        del told.listed["b"]  # it has left for good
        assert [place.name for place in (await names.fetch("orders")).brokers] == ["a"]

    asyncio.run(scenario())
