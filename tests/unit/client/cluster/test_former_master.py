"""A former master that still answers: clients go to the next one without waiting for timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from litemq.broker.runtime.caller import Caller
from litemq.client.async_client import AsyncClient
from litemq.client.cluster import address_refresh
from litemq.client.cluster.engine import ClusterEngine
from litemq.client.transport.channel import NO_ATTEMPT, Attempt
from litemq.errors import (
    ConnectionLostError,
    LiteMQError,
    NotConfirmedError,
    NotEnoughReplicasError,
    NotMasterError,
)
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    BrokerFacts,
    BrokerRoute,
    BrokersAnswer,
    BrokerState,
    Opcode,
    ReplicaGroup,
    ReplicaGroupsAnswer,
    RouteAnswer,
    TopicQueues,
)
from litemq.testing.local_channel import LocalChannel
from support.clusters import SETTINGS, LocalCluster, local_cluster
from support.on_loop import on_loop
from support.waiting import eventually

_HOUR_MS = 3_600_000


class _Names:
    """A NameServer of one group, whose master has registered at the broker ``master``."""

    def __init__(self) -> None:
        self.master, self.registered, self.elected = "a", 1, 1

    def elect(self, master: str) -> None:
        self.master = master
        self.registered = self.elected = 2

    def handle(self, caller: Caller, frames: list[Frame]) -> None:
        for frame in frames:
            caller.answer(frame, self._answer(frame.opcode).SerializeToString())

    def _answer(self, opcode: int) -> RouteAnswer | BrokersAnswer | ReplicaGroupsAnswer:
        if opcode == Opcode.FETCH_ROUTE:
            route = BrokerRoute(name="g", host=self.master, port=1, queues=1, default_durability=2)
            return RouteAnswer(brokers=[route])
        if opcode == Opcode.LIST_REPLICA_GROUPS:
            return ReplicaGroupsAnswer(groups=[ReplicaGroup(name="g", epoch=self.elected, is_leased=True)])
        facts = BrokerFacts(
            name="g",
            host=self.master,
            port=1,
            default_durability=2,
            topics=[TopicQueues(topic="orders", queues=1)],
            epoch=self.registered,
        )
        return BrokersAnswer(brokers=[BrokerState(facts=facts, alive=True)])

    def caller_gone(self, caller: Caller) -> None:
        """Do nothing: it keeps no state of callers."""


class _Former:
    """The former master: it refuses requests with ``error``, or never answers them."""

    def __init__(self, error: LiteMQError | None) -> None:
        self._error = error
        self.refused = 0

    def handle(self, caller: Any, frames: list[Frame]) -> None:
        for frame in frames:
            self.refused += 1
            if self._error is not None:
                caller.refuse(frame, self._error)
        if isinstance(self._error, NotMasterError):
            caller.close(ConnectionLostError("this broker is not the master"))

    def caller_gone(self, caller: Caller) -> None:
        """Do nothing: it keeps no state of callers."""


def _client(cluster: LocalCluster, services: dict[str, Any], names: list[str], **settings: Any) -> AsyncClient:
    async def connect(
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ASYNC109
        on_lost: Callable[[LiteMQError], None],
        attempt: Attempt = NO_ATTEMPT,
    ) -> LocalChannel:
        return LocalChannel(host, client_id, services.get(host) or cluster.brokers[host], on_lost)

    client = AsyncClient("litemq://names", **SETTINGS | settings)
    client._make_engine = lambda _url, config: ClusterEngine([(name, 1) for name in names], config, connect=connect)
    return client


async def _create_topic(cluster: LocalCluster) -> None:
    async with cluster.client() as mq:
        await mq.admin.create_topic("orders", queues=1)


@pytest.mark.parametrize(
    "error", [NotConfirmedError("its lease has ended"), NotEnoughReplicasError("1 of 2"), None], ids=repr
)
@on_loop
async def test_a_send_goes_to_the_next_master_although_the_former_one_answers(error: LiteMQError | None) -> None:
    names, former = _Names(), _Former(error)
    async with local_cluster("a", "b") as cluster:
        await _create_topic(cluster)
        services = {"names": names, "a": former}
        async with _client(cluster, services, ["names"], route_refresh_ms=_HOUR_MS) as mq:
            sent = mq.send_nowait("orders", b"1")
            await eventually(lambda: former.refused > 0)
            names.elect("b")
            await sent
    assert former.refused


@on_loop
async def test_a_consumer_goes_to_the_next_master_although_the_former_one_answers() -> None:
    names = _Names()
    async with local_cluster("a", "b") as cluster:
        await _create_topic(cluster)
        async with _client(cluster, {"names": names}, ["names"]) as mq, mq.consumer("orders", group_id="g") as consumer:
            await mq.send("orders", b"1")
            assert bytes((await anext(consumer)).body) == b"1"
            names.elect("b")
            async with _client(cluster, {"names": names}, ["names"]) as other:
                await other.send("orders", b"1")  # the copy of the first message
                await other.send("orders", b"2")
            assert bytes((await anext(consumer)).body) == b"2"


@on_loop
async def test_a_master_that_has_not_registered_yet_is_asked_for_again() -> None:
    names = _Names()
    async with local_cluster("a", "b") as cluster:
        await _create_topic(cluster)
        async with _client(cluster, {"names": names}, ["names"], route_refresh_ms=_HOUR_MS) as mq:
            await mq.send("orders", b"1")
            assert mq._publisher is not None
            connections = cast("ClusterEngine", mq._publisher.engine)._connections
            names.elected = 2
            connections.on_doubt()
            await asyncio.sleep(0.3)  # it has asked in vain
            names.elect("b")
            await eventually(lambda: getattr(connections.to("g").channel, "address", "") == "b")


@on_loop
async def test_another_nameserver_is_asked_if_a_former_master_takes_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The former master refuses each request, but each attempt to connect to it succeeds."""
    monkeypatch.setattr(address_refresh, "_STALE_S", 0.2)
    stale, names, former = _Names(), _Names(), _Former(NotMasterError("ask b"))
    names.elect("b")
    async with local_cluster("a", "b") as cluster:
        await _create_topic(cluster)
        services = {"stale": stale, "names": names, "a": former}
        async with _client(cluster, services, ["stale", "names"]) as mq:
            await mq.send("orders", b"1")
    assert former.refused > 1
