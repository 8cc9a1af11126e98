"""Running NameServers: in this process, and in their own process that can be killed."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Self

from litemq.net.client import Peer
from litemq.net.server import FrameServer
from litemq.proto.wire_pb2 import BrokersAnswer, BrokerState, Opcode, RouteAnswer, TopicRequest
from litemq.server.nameserver import run_nameserver
from litemq.server.nameserver_config import NameServerConfig
from support.names import Names
from support.waiting import HANG_S

# Heartbeats are frequent, and no lease ends because the machine is busy. Tests of silent brokers
# use SHORT_LEASE.
HEARTBEAT_MS: Final = 100
LEASE_MS: Final = int(10 * HANG_S * 1000)
QUICK: Final = {"heartbeat_interval_ms": HEARTBEAT_MS, "heartbeat_timeout_ms": LEASE_MS, "route_update_interval_ms": 50}
SHORT_LEASE: Final = {"heartbeat_timeout_ms": 1000}  # a NameServer that pauses for half of it ends no lease


@contextlib.asynccontextmanager
async def running_nameserver(data_path: Path, port: int = 0, **settings: int) -> AsyncIterator[int]:
    """Run a NameServer with short intervals in this process; yield its port."""
    config = NameServerConfig(port=port, data_path=str(data_path), **{**QUICK, **settings})  # type: ignore[arg-type]
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(run_nameserver(config, lambda _host, port: ready.set_result(port), stop))

    def ended(task: asyncio.Task[None]) -> None:
        if not ready.done():
            ready.set_exception(task.exception() or RuntimeError("it ended"))

    task.add_done_callback(ended)
    chosen = await ready
    try:
        yield chosen
    finally:
        stop.set()
        await asyncio.wait_for(task, HANG_S)


@contextlib.asynccontextmanager
async def serving(names: Names) -> AsyncIterator[int]:
    """Run a NameServer with a manual clock for brokers and clients that connect; yield its port."""
    server = FrameServer(names.server.handle, software="test", on_session_end=names.server.caller_gone)
    _, port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.close()


_PROGRAM = """
import asyncio, json, signal, sys
from litemq.net.event_loop import run
from litemq.server.nameserver import run_nameserver
from litemq.server.nameserver_config import NameServerConfig

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    config = NameServerConfig(data_path=sys.argv[1], port=int(sys.argv[2]), **json.loads(sys.argv[3]))
    await run_nameserver(config, lambda host, port: print(port, flush=True), stop)

run(main())
"""


class NameServerProcess:
    """A NameServer in its own process."""

    def __init__(self, data_path: Path, port: int = 0, **settings: int) -> None:
        arguments = [str(data_path), str(port), json.dumps({**QUICK, **settings})]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(self._process.communicate()[1])
        self.port = int(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill it at once. May be called again."""
        self._process.kill()
        self._process.communicate()

    def freeze(self, seconds: float) -> None:
        """Stop the process for a while."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Stop it as an operator does; return the exit status."""
        self._process.terminate()
        self._process.communicate(timeout=HANG_S)
        return self._process.returncode


class Client:
    """A client that requests routes from a NameServer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, port: int) -> AsyncIterator["Client"]:
        peer = await Peer.connect("127.0.0.1", port, client_id="client", timeout=HANG_S)
        try:
            yield cls(peer)
        finally:
            peer.close()

    async def route(self, topic: str) -> dict[str, int]:
        """Return the port of each broker that has the topic."""
        answer = await self.peer.request(
            Opcode.FETCH_ROUTE, TopicRequest(topic=topic).SerializeToString(), timeout=HANG_S
        )
        return {broker.name: broker.port for broker in RouteAnswer.FromString(answer.header).brokers}

    async def brokers(self) -> dict[str, BrokerState]:
        answer = await self.peer.request(Opcode.LIST_BROKERS, b"", timeout=HANG_S)
        return {state.facts.name: state for state in BrokersAnswer.FromString(answer.header).brokers}

    async def wait_route(self, topic: str, expected: dict[str, int]) -> None:
        """Wait for a route."""
        until = time.monotonic() + HANG_S
        while (found := await self.route(topic)) != expected:
            assert time.monotonic() < until, f"the route of {topic} is {found}, not {expected}"
            await asyncio.sleep(0.02)

    async def wait_heard(self, broker: str) -> None:
        """Wait until the NameServer has received another heartbeat of a broker."""
        until = time.monotonic() + HANG_S
        ago, before = 0, -1
        while ago >= before:
            assert time.monotonic() < until, f"broker {broker} was not heard again"
            await asyncio.sleep(0.02)
            ago, before = (await self.brokers())[broker].heard_ms_ago, ago
