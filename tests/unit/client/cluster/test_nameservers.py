"""Cached routes: a silent broker keeps its queues, so that keys do not move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from litemq.client.cluster.nameservers import NameServers
from litemq.client.config import ClientConfig
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import BrokerFacts, BrokerRoute, BrokersAnswer, BrokerState, Opcode, RouteAnswer, TopicQueues


class FakeNameServer:
    """The brokers in routes (``routed``), and all brokers, alive or not (``listed``)."""

    def __init__(self) -> None:
        self.routed = ["a", "b"]
        self.listed = {"a": True, "b": True}

    async def ask(self, opcode: int, _header: bytes, _within: float) -> bytes:
        if opcode == Opcode.FETCH_ROUTE:
            brokers = [BrokerRoute(name=name, host="h", port=1, queues=2, default_durability=2) for name in self.routed]
            return RouteAnswer(brokers=brokers).SerializeToString()
        topics = [TopicQueues(topic="orders", queues=2)]
        states = [
            BrokerState(
                facts=BrokerFacts(name=name, host="h", port=1, default_durability=2, topics=topics), alive=alive
            )
            for name, alive in self.listed.items()
        ]
        return BrokersAnswer(brokers=states).SerializeToString()


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("alive_by_now", [True, False])
def test_a_silent_broker_keeps_its_queues(monkeypatch: pytest.MonkeyPatch, is_known: bool, alive_by_now: bool) -> None:
    async def scenario() -> None:
        server = FakeNameServer()
        nameservers: Any = NameServers([("h", 1)], Peer.connect, ClientConfig())
        monkeypatch.setattr(nameservers, "_ask", server.ask)
        if is_known:
            assert [broker.alive for broker in (await nameservers.fetch("orders")).brokers] == [True, True]
        server.routed = ["a"]
        server.listed["b"] = alive_by_now  # it may come back between the two requests
        route = await nameservers.fetch("orders")
        assert [(broker.name, broker.alive) for broker in route.brokers] == [("a", True), ("b", alive_by_now)]
        del server.listed["b"]  # it has left for good
        assert [broker.name for broker in (await nameservers.fetch("orders")).brokers] == ["a"]

    asyncio.run(scenario())
