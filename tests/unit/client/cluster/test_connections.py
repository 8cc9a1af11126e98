"""Connections to brokers: one for each name and number, to the address known when it connects."""

from typing import Any

import pytest

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.config import ClientConfig
from litemq.errors import ConnectionLostError
from litemq.proto.wire_pb2 import Empty, Opcode
from support.on_loop import on_loop


@on_loop
async def test_a_queue_stays_with_one_connection() -> None:
    connections = BrokerConnections("names:1", _refuse, ClientConfig(connections_per_broker=2))
    assert connections.to("a") is connections.to("a", 0)
    assert connections.to("a") is not connections.to("b")
    opened: list[str] = []
    assert connections.for_queue("a", 0, lambda: opened.append("0")) is connections.for_queue(
        "a", 2, lambda: opened.append("2")
    )
    assert connections.for_queue("a", 1, lambda: opened.append("1")) is connections.to("a", 1)
    for callback in connections.to("a").on_open:
        callback()
    assert opened == ["0", "2"]
    await connections.close()


@on_loop
async def test_a_broker_that_no_nameserver_knows() -> None:
    connections = BrokerConnections(
        "names:1", _refuse, ClientConfig(connect_timeout_ms=100, request_timeout_ms=200, retry_backoff_ms=1)
    )
    with pytest.raises(ConnectionLostError, match=r"no NameServer \(names:1\) knows the address of broker 'a'"):
        await connections.ask("a", Opcode.LIST_TOPICS, Empty())
    await connections.close()


async def _refuse(*_: Any, **__: Any) -> Any:
    raise ConnectionLostError("connection refused")
