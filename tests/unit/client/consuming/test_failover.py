"""Consumers during a failover: a broker that is not the master refuses all requests for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from litemq import AsyncClient
from litemq.broker.broker import Broker
from litemq.broker.runtime.caller import Caller
from litemq.client.cluster.routes import Routes
from litemq.client.consuming import feed
from litemq.client.consuming.outage import Outage
from litemq.client.engine.routes import Route
from litemq.errors import GroupUnavailableError, LiteMQError, NotMasterError
from litemq.net.frame import Frame
from support.clusters import local_cluster
from support.on_loop import on_loop
from support.waiting import eventually

_REFUSALS = 5


@pytest.mark.parametrize(
    "consume",
    [
        lambda mq: mq.consumer("orders", group_id="g"),
        lambda mq: mq.consumer("orders", group_id="g", mode="lease"),
        lambda mq: mq.reader("orders", start="earliest"),
    ],
    ids=["queues", "leases", "reader"],
)
@on_loop
async def test_a_consumer_waits_for_the_next_master(
    consume: Callable[[AsyncClient], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0

    def refuse(_broker: Broker, caller: Caller, frames: Iterable[Frame]) -> None:
        nonlocal refused
        for frame in frames:
            refused += 1
            caller.refuse(frame, NotMasterError("there is no master yet"))

    async with local_cluster() as cluster, cluster.client(fetch_wait_ms=20) as mq:
        await mq.admin.create_topic("orders", queues=1)
        await mq.send("orders", b"before")
        async with consume(mq) as consumer:
            bodies = (bytes(message.body) async for message in consumer)
            assert await anext(bodies) == b"before"
            with monkeypatch.context() as patched:
                patched.setattr(Broker, "handle", refuse)
                cluster.cut("a")
                await eventually(lambda: refused >= _REFUSALS)
            await mq.send("orders", b"after")
            assert await anext(bodies) == b"after"


@pytest.mark.parametrize("is_known", [True, False])
@on_loop
async def test_a_reader_that_does_not_follow_gives_up(is_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_route(_routes: Routes, _topic: str, *, create: bool) -> Route:
        raise GroupUnavailableError("there is no master yet")

    limits = {"request_timeout_ms": 100, "delivery_timeout_ms": 200}
    async with local_cluster() as cluster, cluster.client() as mq, cluster.client(**limits) as hasty:
        await mq.admin.create_topic("orders", queues=1)
        await mq.send("orders", b"one")
        async with hasty.reader("orders", follow=False) as reader:
            if is_known:
                monkeypatch.setattr(Broker, "handle", _refuse)
            else:
                monkeypatch.setattr(Routes, "_ask", no_route)
            with pytest.raises(NotMasterError if is_known else GroupUnavailableError, match="no master yet"):
                await anext(reader)


@pytest.mark.parametrize("mode", ["reader", "lease"])
@on_loop
async def test_a_long_outage_is_logged_once(
    mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delays: list[float] = []
    next_delay = Outage.next_delay

    def count(outage: Outage, min_ms: int = 0) -> float:
        delays.append(next_delay(outage, min_ms))
        return delays[-1]

    def warnings() -> int:
        return len([each for each in caplog.records if "fails, retrying" in each.message])

    monkeypatch.setattr(feed, "_LONG_S", 0.05)
    monkeypatch.setattr(Outage, "next_delay", count)
    async with local_cluster() as cluster, cluster.client() as mq:
        await mq.admin.create_topic("orders", queues=1)
        lasting = mq.reader("orders") if mode == "reader" else mq.consumer("orders", group_id="g", mode="lease")
        async with lasting as reader:
            with monkeypatch.context() as patched:
                patched.setattr(Broker, "handle", _refuse)
                taking = asyncio.create_task(anext(reader))
                await eventually(warnings)
                tries = len(delays)
                await eventually(lambda: len(delays) >= tries + 3)
            await mq.send("orders", b"one")
            assert bytes((await taking).body) == b"one"
    assert warnings() == 1


def _refuse(_broker: Broker, caller: Caller, frames: Iterable[Frame]) -> None:
    for frame in frames:
        caller.refuse(frame, NotMasterError("there is no master yet"))


@pytest.mark.parametrize("error", [GroupUnavailableError("no master"), NotMasterError("ask b")], ids=repr)
@pytest.mark.parametrize("is_known", [True, False])
@on_loop
async def test_a_consumer_retries_the_route(
    error: LiteMQError, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0

    async def refuse(_routes: Routes, _topic: str, *, create: bool) -> Route:
        nonlocal refused
        refused += 1
        raise error

    async with local_cluster() as cluster, cluster.client() as mq:
        await mq.admin.create_topic("orders", queues=1)
        consumer = mq.consumer("orders", group_id="g")
        if is_known:
            await mq.send("orders", b"before")
            assert bytes((await anext(consumer)).body) == b"before"
        with monkeypatch.context() as patched:
            patched.setattr(Routes, "_ask", refuse)
            taking = asyncio.ensure_future(consumer.take(1, 60))
            await eventually(lambda: refused >= _REFUSALS)
        await mq.send("orders", b"after")
        [message] = await taking
        assert bytes(message.body) == b"after"
        await consumer.close()


@on_loop
async def test_receive_continues_while_the_route_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_routes: Routes, _topic: str, *, create: bool) -> Route:
        raise GroupUnavailableError("no master")

    async with local_cluster() as cluster, cluster.client(route_refresh_ms=1) as mq:
        await mq.admin.create_topic("orders", queues=1)
        await mq.send("orders", b"1")
        assert len(await mq.receive("orders", group_id="g", wait=60)) == 1
        monkeypatch.setattr(Routes, "_ask", refuse)
        await mq.send("orders", b"2")
        await asyncio.sleep(0.01)  # the route is old
        assert len(await mq.receive("orders", group_id="g", wait=60)) == 1


@on_loop
async def test_receive_waits_for_the_next_master(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0

    def refuse(_broker: Broker, caller: Caller, frames: Iterable[Frame]) -> None:
        nonlocal refused
        for frame in frames:
            refused += 1
            caller.refuse(frame, NotMasterError("there is no master yet"))

    async with local_cluster() as cluster, cluster.client() as mq:
        await mq.admin.create_topic("orders", queues=1)
        await mq.receive("orders", group_id="g", wait=0)  # the client knows the broker
        with monkeypatch.context() as patched:
            patched.setattr(Broker, "handle", refuse)
            assert await mq.receive("orders", group_id="g", wait=0.2) == []
            assert refused


@on_loop
async def test_a_reader_without_follow_ends_at_the_next_master(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0

    def refuse(_broker: Broker, caller: Caller, frames: Iterable[Frame]) -> None:
        nonlocal refused
        for frame in frames:
            refused += 1
            caller.refuse(frame, NotMasterError("there is no master yet"))

    async with local_cluster() as cluster, cluster.client() as mq:
        await mq.admin.create_topic("orders", queues=1)
        await mq.send("orders", b"before")
        async with mq.reader("orders", follow=False) as reader:
            with monkeypatch.context() as patched:
                patched.setattr(Broker, "handle", refuse)
                await eventually(lambda: refused >= _REFUSALS)
            assert [bytes(message.body) async for message in reader] == [b"before"]
