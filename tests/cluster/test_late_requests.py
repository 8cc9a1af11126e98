"""Requests that arrive when their client has given them up and has connected again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from litemq.client.async_client import AsyncClient
from litemq.client.cluster import ClusterEngine
from litemq.errors import LiteMQError
from litemq.net.client import Peer
from litemq.net.event_loop import run
from support.chaos_cluster import cluster
from support.late_proxy import LateProxy

TOPIC: Final = "orders"
SETTINGS: Final[dict[str, Any]] = {
    "request_timeout_ms": 300,
    "delivery_timeout_ms": 600,
    "connect_timeout_ms": 5_000,
    "connections_per_broker": 1,
}


def _client(names: int, proxy: LateProxy, **settings: Any) -> AsyncClient:
    """Return a client whose connections to brokers go through ``proxy``."""

    async def connect(host: str, port: int, **options: Any) -> Peer:
        return await Peer.connect(host, port if port == names else proxy.port, **options)

    client = AsyncClient(f"litemq://127.0.0.1:{names}", **settings)
    client._make_engine = lambda _url, config: ClusterEngine([("127.0.0.1", names)], config, connect=connect)
    return client


def test_messages_that_were_given_up_never_follow_later_ones_of_their_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        with cluster(tmp_path) as (names, brokers):
            brokers.pop("b").kill()
            async with LateProxy(brokers["a"].port) as proxy, _client(names.port, proxy, **SETTINGS) as mq:
                await mq.admin.create_topic(TOPIC, queues=1)
                await mq.send(TOPIC, b"0", ordering_key="k")
                proxy.withhold()
                sends = [mq.send_nowait(TOPIC, b"%d" % number, ordering_key="k") for number in (1, 2, 3)]
                given_up = await asyncio.gather(*sends, return_exceptions=True)
                assert all(isinstance(outcome, LiteMQError) for outcome in given_up)
                await proxy.accept()
                await mq.send(TOPIC, b"4", ordering_key="k")
                await proxy.deliver()
                await mq.send(TOPIC, b"5", ordering_key="k")
                stored = [message.body async for message in mq.reader(TOPIC, follow=False)]
            assert stored == [b"0", b"4", b"5"]

    run(scenario())
