"""The NameServer process: start, crashes, damage, stop."""

import asyncio
from pathlib import Path

import pytest

from litemq.errors import AddressInUseError, InvalidArgumentError, ProtocolError, StoreLockedError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import Opcode, Registered
from litemq.server.nameserver import run_nameserver
from litemq.server.nameserver_config import NameServerConfig
from support.name_processes import HEARTBEAT_MS, LEASE_MS, SHORT_LEASE, Client, NameServerProcess, running_nameserver
from support.names import broker_facts
from support.waiting import HANG_S, eventually

BROKER = broker_facts("a", port=1000, orders=4)


async def _register(client: Client) -> Registered:
    answer = await client.peer.request(Opcode.REGISTER_BROKER, BROKER.SerializeToString(), timeout=HANG_S)
    return Registered.FromString(answer.header)


def test_a_broker_registers_and_expires(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_nameserver(tmp_path / "long") as port, Client.connect(port) as client:
            answer = await _register(client)
            assert (answer.known, answer.heartbeat_ms, answer.lease_ms) == (True, HEARTBEAT_MS, LEASE_MS)
            assert await client.route("orders") == {"a": 1000}
        async with running_nameserver(tmp_path / "short", **SHORT_LEASE) as port, Client.connect(port) as client:
            lease_ms = (await _register(client)).lease_ms
            assert lease_ms == SHORT_LEASE["heartbeat_timeout_ms"]
            await client.wait_route("orders", {})
            silent = (await client.brokers())["a"]
            assert not silent.alive
            assert silent.heard_ms_ago >= lease_ms  # not before its time

    asyncio.run(main())


def test_registrations_survive_sigkill(tmp_path: Path) -> None:
    async def main() -> None:
        with NameServerProcess(tmp_path) as first:
            async with Client.connect(first.port) as client:
                await _register(client)
            first.kill()
        with NameServerProcess(tmp_path) as second:
            async with Client.connect(second.port) as client:
                assert await client.route("orders") == {"a": 1000}
            assert second.stop() == 0
        with NameServerProcess(tmp_path, **SHORT_LEASE) as third:
            async with Client.connect(third.port) as client:
                await client.wait_route("orders", {})  # it did not come back
            assert third.stop() == 0

    asyncio.run(main())


@pytest.mark.timing  # a second passes for a busy machine, too; with a clock that waits: test_core.py
def test_a_suspended_nameserver_expires_no_broker(tmp_path: Path) -> None:
    async def main() -> None:
        with NameServerProcess(tmp_path, **SHORT_LEASE) as process:
            async with Client.connect(process.port) as client:
                await _register(client)
                process.freeze(3)  # three leases
                assert await client.route("orders") == {"a": 1000}
            assert process.stop() == 0

    asyncio.run(main())


def test_a_damaged_store_does_not_prevent_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "cluster.db").write_bytes(b"\xff" * 10_000)
        async with running_nameserver(tmp_path) as port, Client.connect(port) as client:
            await _register(client)
            assert await client.route("orders") == {"a": 1000}

    asyncio.run(main())


def test_a_failed_start_reports_the_reason(tmp_path: Path) -> None:
    async def start(config: NameServerConfig) -> None:
        await run_nameserver(config, lambda _host, _port: None, asyncio.Event())

    async def main() -> None:
        async with running_nameserver(tmp_path / "a") as port:
            with pytest.raises(StoreLockedError, match="another NameServer"):
                await start(NameServerConfig(port=0, data_path=str(tmp_path / "a")))
            with pytest.raises(AddressInUseError, match="cannot listen"):
                await start(NameServerConfig(port=port, data_path=str(tmp_path / "b")))
        with pytest.raises(InvalidArgumentError, match="--insecure"):
            await start(NameServerConfig(host="0.0.0.0", port=0, data_path=str(tmp_path / "b")))  # noqa: S104

    asyncio.run(main())


def test_it_stops_while_clients_are_connected(tmp_path: Path) -> None:
    async def main() -> None:
        lost: list[object] = []
        async with running_nameserver(tmp_path) as port:
            await Peer.connect("127.0.0.1", port, client_id="idle", timeout=HANG_S, on_lost=lost.append)
        await eventually(lambda: lost)
        assert len(lost) == 1

    asyncio.run(main())


def test_a_request_for_a_broker_is_refused_and_the_connection_stays_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_nameserver(tmp_path) as port, Client.connect(port) as client:
            with pytest.raises(ProtocolError, match="send this request to a broker"):
                await client.peer.request(Opcode.SEND, b"", bytes(1000), timeout=HANG_S)
            with pytest.raises(ProtocolError, match="invalid header"):
                await client.peer.request(Opcode.REGISTER_BROKER, b"\xff\xff", timeout=HANG_S)
            with pytest.raises(InvalidArgumentError, match="use A-Z"):
                await client.route("no topic")
            assert await client.route("orders") == {}

    asyncio.run(main())
