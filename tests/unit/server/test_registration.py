"""Registration on real sockets: after any restart, the routes are soon right again."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from litemq.errors import InvalidArgumentError
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import BrokerFacts, Heartbeat, Opcode
from litemq.server import registration as registration_module
from litemq.server.registration import Registration
from support.name_processes import Client, NameServerProcess, running_nameserver, serving
from support.names import Names, broker_facts
from support.processes import free_port
from support.waiting import HANG_S, eventually

HOST = "127.0.0.1"
DEREGISTER_TIMEOUT_S = registration_module._DEREGISTER_TIMEOUT_S  # as it is outside of these tests, which are patient


class Broker:
    """The part of a broker that registers."""

    def __init__(self, *ports: int, name: str = "a", started_at: int = 1, port: int = 1000) -> None:
        self.name, self.started_at, self.port = name, started_at, port
        self.queues = {"orders": 4}
        self.registration = Registration([(HOST, nameserver) for nameserver in ports], self.facts)

    def facts(self) -> BrokerFacts:
        return broker_facts(self.name, self.started_at, self.port, **self.queues)

    @contextlib.asynccontextmanager
    async def running(self, wait: bool = True) -> AsyncIterator["Broker"]:
        task = asyncio.create_task(self.registration.run())
        try:
            if wait:
                await asyncio.wait_for(self.registration.wait_registered(), HANG_S)
            yield self
        finally:
            self.registration.close()
            await asyncio.wait_for(task, HANG_S)


async def _leases_pass(names: Names, broker: str) -> None:
    """Let three leases pass on the NameServer's clock, waiting for a heartbeat every half lease."""

    def is_heard() -> bool:
        names.server.sweep()  # the list of brokers is made once between two sweeps
        return names.brokers()[broker].heard_ms_ago == 0

    for _ in range(6):
        names.pass_time(names.limits.lease_ms / 2000)
        await eventually(is_heard)


def test_a_broker_is_in_the_routes_from_its_start_to_its_stop() -> None:
    async def main() -> None:
        names = Names(heartbeat_ms=50)
        async with serving(names) as port, Client.connect(port) as client:
            async with Broker(port).running() as broker:
                assert await client.route("orders") == {"a": 1000}
                await _leases_pass(names, "a")  # heartbeats keep it there
                assert await client.route("orders") == {"a": 1000}
                assert broker.registration.registered == 1
            assert await client.brokers() == {}  # it said goodbye

    asyncio.run(main())


def test_a_new_topic_is_registered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The next heartbeat would register it, too, but only after the test's deadline.
    monkeypatch.setattr(registration_module, "_HEARTBEAT_MS", range(50, 3_600_001))

    async def main() -> None:
        async with (
            running_nameserver(tmp_path, heartbeat_interval_ms=1_800_000, heartbeat_timeout_ms=3_600_000) as port,
            Client.connect(port) as client,
            Broker(port).running() as broker,
        ):
            for n in range(300):
                broker.queues[f"topic-{n}"] = 1
                broker.registration.changed()
                if n % 10 == 0:
                    await asyncio.sleep(0.002)
            await client.wait_route("topic-299", {"a": 1000})
            del broker.queues["orders"]
            broker.registration.changed()
            await client.wait_route("orders", {})

    asyncio.run(main())


def test_a_nameserver_is_killed_and_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        port = free_port()
        with NameServerProcess(tmp_path, port) as first:
            async with Broker(port).running() as broker:
                first.kill()
                await eventually(lambda: broker.registration.registered == 0)
                await eventually(lambda: "cannot reach" in caplog.text)
                await asyncio.sleep(0.6)  # it tries several times more, and does not say so again
                broker.queues["new"] = 1
                broker.registration.changed()
                with NameServerProcess(tmp_path, port) as second:
                    await _back_with_all_it_has(broker, second)

    async def _back_with_all_it_has(broker: Broker, nameserver: NameServerProcess) -> None:
        async with Client.connect(nameserver.port) as client:
            assert await client.route("orders") == {"a": 1000}  # from its store
            await client.wait_route("new", {"a": 1000})
            await client.wait_heard("a")  # by heartbeats, as before
            assert await client.route("new") == {"a": 1000}
        assert broker.registration.registered == 1
        assert nameserver.stop() == 0

    with caplog.at_level(logging.INFO, "litemq.server.registration"):
        asyncio.run(main())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert 1 <= len(warnings) <= 2  # the connection was lost; it is refused
    assert (
        sum("registered with" in record.getMessage() for record in caplog.records if record.levelno == logging.INFO)
        == 2
    )


def test_a_broker_registers_again_with_a_nameserver_that_lost_its_data(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_nameserver(tmp_path) as port, Client.connect(port) as client, Broker(port).running():
            beat = Heartbeat(name="a", started_at=1).SerializeToString()
            # Asked together: no heartbeat comes between the two.
            forget = client.peer.request(Opcode.DEREGISTER_BROKER, beat, timeout=HANG_S)
            _, route = await asyncio.gather(forget, client.route("orders"))
            assert route == {}
            await client.wait_route("orders", {"a": 1000})

    asyncio.run(main())


def test_a_nameserver_starts_after_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        async with Broker(port).running(wait=False) as broker:
            await asyncio.sleep(0.3)
            assert broker.registration.registered == 0
            async with running_nameserver(tmp_path, port):
                await asyncio.wait_for(broker.registration.wait_registered(), HANG_S)

    asyncio.run(main())


def test_two_nameservers_are_independent(tmp_path: Path) -> None:
    async def main() -> None:
        second = free_port()  # it is listened on twice
        async with running_nameserver(tmp_path / "1") as first:
            async with running_nameserver(tmp_path / "2", second), Broker(first, second).running() as broker:
                await eventually(lambda: broker.registration.registered == 2)
                for port in (first, second):
                    async with Client.connect(port) as client:
                        assert await client.route("orders") == {"a": 1000}
            async with running_nameserver(tmp_path / "2", second), Client.connect(second) as client:
                assert await client.brokers() == {}

            async with Broker(first, free_port()).running() as broker:  # one of them down: the other is enough
                async with Client.connect(first) as client:
                    await client.wait_heard("a")
                    assert await client.route("orders") == {"a": 1000}
                assert broker.registration.registered == 1

    asyncio.run(main())


def test_a_killed_broker_expires_and_its_restart_takes_over() -> None:
    program = (
        "import asyncio, sys\n"
        "from litemq.server.registration import Registration\n"
        "from support.names import broker_facts\n"
        "facts = broker_facts('a', int(sys.argv[2]), int(sys.argv[3]), orders=4)\n"
        "async def main():\n"
        "    registration = Registration([('127.0.0.1', int(sys.argv[1]))], lambda: facts)\n"
        "    async with asyncio.TaskGroup() as tasks:\n"
        "        tasks.create_task(registration.run())\n"
        "        await registration.wait_registered()\n"
        "        print('registered', flush=True)\n"
        "asyncio.run(main())\n"
    )
    tests = str(Path(__file__).parents[2])

    def start(nameserver: int, started_at: int, port: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(nameserver), str(started_at), str(port)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "registered\n"
        return process

    def kill(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        process.communicate()

    async def main() -> None:
        names = Names()
        lease = names.limits.lease_ms / 1000
        async with serving(names) as port, Client.connect(port) as client:
            first = await asyncio.to_thread(start, port, 1, 1000)
            assert await client.route("orders") == {"a": 1000}
            kill(first)
            names.pass_time(lease)
            assert await client.route("orders") == {}
            second = await asyncio.to_thread(start, port, 2, 2000)
            assert await client.route("orders") == {"a": 2000}
            kill(second)
            names.pass_time(lease)
            assert await client.route("orders") == {}

    asyncio.run(main())


def test_the_first_of_two_brokers_with_one_name_keeps_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        names = Names(heartbeat_ms=50)
        async with serving(names) as port, Client.connect(port) as client, contextlib.AsyncExitStack() as first:
            await first.enter_async_context(Broker(port, started_at=1, port=1000).running())
            async with Broker(port, started_at=2, port=2000).running(wait=False) as other:
                await eventually(lambda: "is taken" in caplog.text)
                await _leases_pass(names, "a")
                assert other.registration.registered == 0
                assert await client.route("orders") == {"a": 1000}
                await first.aclose()  # it says goodbye: the name is free
                await client.wait_route("orders", {"a": 2000})

    asyncio.run(main())
    complaints = [record.getMessage() for record in caplog.records if "is taken" in record.getMessage()]
    assert len(complaints) == 1
    assert "broker_name" in complaints[0]


def test_a_broker_keeps_running_whatever_answers_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration_module, "_DEREGISTER_TIMEOUT_S", DEREGISTER_TIMEOUT_S)

    def nonsense(session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            session.answer(frame, b"\xff\xff\xff")

    async def main() -> None:
        server = FrameServer(nonsense, software="something else")
        _, port = await server.start(HOST, 0)
        silent = socket.create_server((HOST, 0))
        silent_port = silent.getsockname()[1]
        registration = Registration(
            [(HOST, port), (HOST, silent_port), ("x" * 70, 1), (HOST, free_port())], lambda: broker_facts("a")
        )
        task = asyncio.create_task(registration.run())
        await asyncio.sleep(0.5)
        assert not task.done()
        assert registration.registered == 0
        registration.close()
        await asyncio.wait_for(
            task, HANG_S
        )  # one of them never answers, for which a broker that runs would wait far longer
        silent.close()
        await server.close()

    asyncio.run(main())


def test_a_broker_names_at_least_one_nameserver() -> None:
    with pytest.raises(InvalidArgumentError, match="needs at least one"):
        Registration([], lambda: broker_facts("a"))


def test_reconnects_to_a_server_that_hangs_up_are_delayed() -> None:
    async def main() -> None:
        calls = 0

        async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal calls
            calls += 1
            writer.close()

        server = await asyncio.start_server(hang_up, HOST, 0)
        async with server, Broker(server.sockets[0].getsockname()[1]).running(wait=False):
            await eventually(lambda: calls)
            await asyncio.sleep(0.5)
        assert 1 <= calls <= 6  # after 50, 100, 200 ms …

    asyncio.run(main())
