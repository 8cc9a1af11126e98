"""NameServers that run: in this process, and in one of their own that can be killed."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

from litemq.net.client import Peer
from litemq.proto.wire_pb2 import BrokersAnswer, BrokerState, Opcode, RouteAnswer, TopicRequest
from litemq.server.nameserver import run_nameserver
from litemq.server.nameserver_config import NameServerConfig

QUICK = {"heartbeat_interval_ms": 100, "heartbeat_timeout_ms": 500, "route_update_interval_ms": 50}


@contextlib.asynccontextmanager
async def running_nameserver(data_path: Path, port: int = 0, **settings: int) -> AsyncIterator[int]:
    """A quick NameServer in this process; gives its port."""
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
        await asyncio.wait_for(task, 5)


_PROGRAM = """
import asyncio, signal, sys
from litemq.net.event_loop import run
from litemq.server.nameserver import run_nameserver
from litemq.server.nameserver_config import NameServerConfig

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    config = NameServerConfig(port=int(sys.argv[2]), data_path=sys.argv[1], heartbeat_interval_ms=100, heartbeat_timeout_ms=500,
                              route_update_interval_ms=50)
    await run_nameserver(config, lambda host, port: print(port, flush=True), stop)

run(main())
"""


class NameServerProcess:
    """The same in a process of its own."""

    def __init__(self, data_path: Path, port: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(data_path), str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
        """At once, and as often as one likes."""
        self._process.kill()
        self._process.communicate()

    def freeze(self, seconds: float) -> None:
        """The process stands still for a while."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """As an operator does; gives the exit status."""
        self._process.terminate()
        self._process.communicate(timeout=5)
        return self._process.returncode


class Client:
    """Asks a NameServer for routes."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, port: int) -> AsyncIterator["Client"]:
        peer = await Peer.connect("127.0.0.1", port, client_id="client")
        try:
            yield cls(peer)
        finally:
            peer.close()

    async def route(self, topic: str) -> dict[str, int]:
        """The port of each broker that has the topic."""
        answer = await self.peer.request(Opcode.FETCH_ROUTE, TopicRequest(topic=topic).SerializeToString(), timeout=5)
        return {broker.name: broker.port for broker in RouteAnswer.FromString(answer.header).brokers}

    async def brokers(self) -> dict[str, BrokerState]:
        answer = await self.peer.request(Opcode.LIST_BROKERS, b"", timeout=5)
        return {state.facts.name: state for state in BrokersAnswer.FromString(answer.header).brokers}

    async def wait_route(self, topic: str, expected: dict[str, int], most: float = 5) -> float:
        """Until the route is that; gives how long it took."""
        begin = time.monotonic()
        while (found := await self.route(topic)) != expected:
            assert time.monotonic() - begin < most, f"the route of {topic} is {found}, not {expected}"
            await asyncio.sleep(0.02)
        return time.monotonic() - begin


async def wait_until(condition: Callable[[], bool], most: float = 5) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < most
        await asyncio.sleep(0.01)
