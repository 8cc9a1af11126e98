"""A NameServer that is cut off from the brokers knows old addresses: the client asks another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from litemq.client.async_client import AsyncClient
from litemq.client.cluster import address_refresh
from litemq.client.cluster.engine import ClusterEngine
from litemq.client.transport.channel import NO_ATTEMPT, Attempt
from litemq.errors import LiteMQError
from litemq.proto.wire_pb2 import BrokersAnswer, RouteAnswer
from litemq.testing.local_channel import LocalChannel
from support.clusters import NAMES, SETTINGS, LocalCluster, LocalNames, local_cluster
from support.on_loop import on_loop


class _StaleNames(LocalNames):
    """Knows the address at which the broker was before."""

    def _answer(self, frame: Any) -> RouteAnswer | BrokersAnswer:
        answer = super()._answer(frame)
        for broker in answer.brokers:
            facts = broker if isinstance(answer, RouteAnswer) else broker.facts  # type: ignore[union-attr]
            facts.host = "old"  # type: ignore[union-attr]
        return answer


@on_loop
async def test_a_client_asks_another_nameserver_if_an_address_stays_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_refresh, "_STALE_S", 0.1)
    async with local_cluster() as cluster:
        async with cluster.client() as mq:
            await mq.admin.create_topic("orders", queues=1)
        cluster.down.add("old")
        client = AsyncClient("litemq://names", **SETTINGS)
        client._make_engine = lambda _url, config: ClusterEngine(
            [("stale", 1), NAMES], config, connect=_connecting_to_stale(cluster)
        )
        async with client:
            await client.send("orders", b"1")
        assert cluster.refused["old"]  # it has tried


def _connecting_to_stale(cluster: LocalCluster) -> Any:
    async def connect(
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ASYNC109
        on_lost: Callable[[LiteMQError], None],
        attempt: Attempt = NO_ATTEMPT,
    ) -> LocalChannel:
        if host == "stale":
            return LocalChannel(host, client_id, _StaleNames(cluster), on_lost)
        return await cluster.connect(host, port, client_id=client_id, timeout=timeout, on_lost=on_lost)

    return connect
