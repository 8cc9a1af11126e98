"""Links to brokers: one for each name and number, to the address that is known when it connects."""

from typing import Any

import pytest

from litemq.client.cluster.links import Links
from litemq.client.config import ClientConfig
from litemq.errors import ConnectionLostError
from litemq.proto.wire_pb2 import Empty, Opcode
from support.on_loop import on_loop


@on_loop
async def test_a_queue_stays_with_one_link() -> None:
    links = Links("names:1", _refuse, ClientConfig(connections_per_broker=2))
    assert links.to("a") is links.to("a", 0)
    assert links.to("a") is not links.to("b")
    opened: list[str] = []
    assert links.of_queue("a", 0, lambda: opened.append("0")) is links.of_queue("a", 2, lambda: opened.append("2"))
    assert links.of_queue("a", 1, lambda: opened.append("1")) is links.to("a", 1)
    for callback in links.to("a").when_open:
        callback()
    assert opened == ["0", "2"]
    await links.close()


@on_loop
async def test_a_broker_that_no_nameserver_knows() -> None:
    links = Links("names:1", _refuse, ClientConfig(connect_timeout_ms=100, request_timeout_ms=200, retry_backoff_ms=1))
    with pytest.raises(ConnectionLostError, match=r"where broker 'a' is, no NameServer says \(names:1\)"):
        await links.ask("a", Opcode.LIST_TOPICS, Empty())
    await links.close()


async def _refuse(*_: Any, **__: Any) -> Any:
    raise ConnectionLostError("nobody listens")
