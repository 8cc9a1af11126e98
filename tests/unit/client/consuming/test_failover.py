"""Consumers during a failover: a broker that is not the master refuses all requests for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from litemq import AsyncClient
from litemq.broker.broker import Broker
from litemq.broker.runtime.caller import Caller
from litemq.errors import NotMasterError
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
