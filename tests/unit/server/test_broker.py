"""The broker process on real sockets: it registers, serves and recovers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from litemq.errors import ConnectionLostError, InvalidArgumentError, StoreFailedError, StoreLockedError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import CreateTopicRequest, Opcode, PullRequest, SendAnswer, SendRequest
from litemq.server.broker import run_broker
from litemq.server.broker_config import BrokerConfig
from litemq.storage.disk_store import DiskStore
from support.callers import records
from support.name_processes import Client, running_nameserver
from support.waiting import HANG_S


@asynccontextmanager
async def running_broker(data: Path, nameserver: int, name: str = "a") -> AsyncIterator[Peer]:
    """Run a complete broker and connect to it."""
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    config = BrokerConfig(
        broker_name=name,
        port=0,
        nameservers=(f"127.0.0.1:{nameserver}",),
        data_path=str(data / name),
        file_size=8 << 20,
    )
    running = asyncio.create_task(run_broker(config, lambda _host, port: listening.set_result(port), stop))
    await asyncio.wait((listening, running), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    peer = await Peer.connect("127.0.0.1", listening.result(), client_id="tester", timeout=HANG_S)
    try:
        yield peer
    finally:
        peer.close()
        stop.set()
        await running


def test_a_broker_registers_serves_and_recovers(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_nameserver(tmp_path / "names") as names, Client.connect(names) as client:
            send = SendRequest(topic="orders", queue_id=1).SerializeToString()
            async with running_broker(tmp_path, names) as peer:
                await peer.ask(Opcode.CREATE_TOPIC, CreateTopicRequest(topic="orders", queues=2).SerializeToString())
                await client.wait_route("orders", {"a": int(peer.address.rpartition(":")[2])})
                answers = await asyncio.gather(
                    *(peer.ask(Opcode.SEND, send, records(producer_id=5, first=n)) for n in range(100))
                )
                assert [SendAnswer.FromString(answer.header).queue_offset for answer in answers] == list(range(100))
            await client.wait_route("orders", {})
            async with running_broker(tmp_path, names) as peer:
                # The same sends again: nothing of them is new, and what follows is.
                again = SendAnswer.FromString((await peer.ask(Opcode.SEND, send, records(101, producer_id=5))).header)
                assert [earlier.queue_offset for earlier in again.earlier] == list(range(100))
                assert again.queue_offset == 100
                pull = PullRequest(topic="orders", queue_id=1, offset=0, max_messages=1000)
                assert (await peer.ask(Opcode.PULL, pull.SerializeToString())).attachment.count(b"LMQ\x02") == 101

    asyncio.run(main())


def test_a_data_directory_has_one_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_nameserver(tmp_path / "names") as names, running_broker(tmp_path, names):
            with pytest.raises(StoreLockedError):
                async with running_broker(tmp_path, names):
                    pass

    asyncio.run(main())


def test_listening_beyond_loopback_needs_insecure(tmp_path: Path) -> None:
    config = BrokerConfig(host="0.0.0.0", port=0, data_path=str(tmp_path), file_size=8 << 20)  # noqa: S104
    with pytest.raises(InvalidArgumentError, match="--insecure"):
        asyncio.run(run_broker(config, lambda *_: None, asyncio.Event()))


def test_a_broker_whose_store_fails_exits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A supervisor restarts it, and the next opening recovers."""
    stores: list[DiskStore] = []

    class Observed(DiskStore):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            stores.append(self)

    async def main() -> None:
        async with running_nameserver(tmp_path / "names") as names, running_broker(tmp_path, names) as peer:
            stores[0]._log.fail("fsync failed: Input/output error")
            with pytest.raises((StoreFailedError, ConnectionLostError)):
                await peer.ask(Opcode.CREATE_TOPIC, CreateTopicRequest(topic="orders", queues=2).SerializeToString())

    monkeypatch.setattr("litemq.server.broker.DiskStore", Observed)
    with pytest.raises(StoreFailedError, match="Input/output error"):
        asyncio.run(main())
    assert "ERROR" in {record.levelname for record in caplog.records if "Input/output" in record.getMessage()}
