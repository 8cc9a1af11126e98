"""Connections to brokers: one for each name and number, to the address known when it connects."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.config import ClientConfig
from litemq.errors import ConnectionLostError
from litemq.proto.wire_pb2 import Empty, Opcode
from support.on_loop import on_loop
from support.waiting import HANG_S, eventually


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


@pytest.mark.parametrize("is_refused", [True, False])
@on_loop
async def test_a_broker_that_has_moved_is_connected_at_once(is_refused: bool) -> None:
    """Neither a pause between two attempts nor an attempt that gets no answer delays it."""
    tried: list[tuple[str, int]] = []

    async def connect(host: str, port: int, **_: Any) -> Any:
        tried.append((host, port))
        if port == 1 and not is_refused:
            await asyncio.get_running_loop().create_future()
        if port == 1:
            raise ConnectionLostError("connection refused")
        return SimpleNamespace(is_open=True, close=lambda: None)

    hour_ms = 3_600_000
    connections = BrokerConnections(
        "names:1", connect, ClientConfig(retry_backoff_ms=hour_ms, max_retry_backoff_ms=hour_ms)
    )
    connections.learn("a", "h", 1)
    connection = connections.to("a")
    connection.start_connecting()
    await eventually(lambda: tried == [("h", 1)])
    connections.learn("a", "h", 1)  # nothing new
    connections.learn("b", "h", 3)
    assert connections.is_any_connecting
    connections.learn("a", "h", 2)
    assert (await connection.wait_open(HANG_S)).is_open
    assert tried == [("h", 1), ("h", 2)]
    await eventually(lambda: not connections.is_any_connecting)
    await connections.close()


def _counting() -> tuple[BrokerConnections, list[int], list[str]]:
    """Return connections, the ports that were connected to, and the ends of channels."""
    ports, ends = list[int](), list[str]()

    async def connect(host: str, port: int, **_: Any) -> Any:
        ports.append(port)
        channel = SimpleNamespace(is_open=True, close=lambda: None)
        channel.abort = lambda reason: ends.append(str(reason))
        return channel

    return BrokerConnections("names:1", connect, ClientConfig()), ports, ends


@on_loop
async def test_a_later_epoch_has_another_master_although_the_former_one_answers() -> None:
    connections, ports, ends = _counting()
    connections.learn("a", "h", 1, 1)
    await connections.to("a").wait_open(HANG_S)
    connections.learn("a", "h", 1, 2)  # elected again
    connections.learn("a", "h", 2, 2)  # restarted: its connection shows whether it ended
    assert (ports, ends) == ([1], [])
    connections.learn("a", "h", 3, 3)
    await connections.to("a").wait_open(HANG_S)
    assert (ports, ends) == ([1, 3], ["broker 'a' is at h:3 now"])
    assert connections.to("a").gave_up is False
    await connections.close()


@on_loop
async def test_an_older_address_does_not_replace_that_of_a_later_epoch() -> None:
    connections, ports, _ = _counting()
    doubts: list[str] = []
    connections.on_doubt = lambda: doubts.append("doubt")
    connections.learn("a", "h", 2, 2)
    connections.learn("a", "h", 1)  # of a route, which has no epoch
    assert (connections.addresses["a"], doubts) == (("h", 2), ["doubt"])
    connections.learn("a", "h", 2)
    assert len(doubts) == 1
    await connections.to("a").wait_open(HANG_S)
    connections.learn("a", "h", 1, 1)  # of a NameServer that is cut off
    assert connections.addresses["a"] == ("h", 2)
    connections.to("a").give_up(ConnectionLostError("it does not answer"))
    connections.learn("a", "h", 5, 1)  # the whole group was created again
    assert connections.addresses["a"] == ("h", 5)
    await eventually(lambda: ports == [2, 5])
    await connections.close()


async def _refuse(*_: Any, **__: Any) -> Any:
    raise ConnectionLostError("connection refused")
