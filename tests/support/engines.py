"""The engines that the contract suite is run against. Another one is one more line in ``ENGINES``."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from litemq import AsyncClient, Client, Message
from litemq.testing import MemoryBroker
from litemq.testing.memory import MemoryCluster, offer, withdraw
from support import broker_program
from support.broker_program import PATIENT_LIMITS, CuttableServer, cuttable, names, one_broker, serving
from support.waiting import HANG_S

# Nobody wants to wait in a test; and nothing is given up only because the machine is slow.
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "max_retry_backoff_ms": 50,
    "route_refresh_ms": 200,
    "connect_timeout_ms": 60_000,
    "request_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "session_timeout_ms": 120_000,
    "shutdown_timeout_ms": 60_000,
}


class Engine:
    """One that runs: where it is, and how its connections are cut. Everything else goes through the public client."""

    def __init__(self, url: str, cut: Callable[[], None]) -> None:
        self.url = url
        self._cut = cut

    def client(self, **settings: Any) -> AsyncClient:
        """A client of it, not open yet."""
        return AsyncClient(self.url, **QUICK | settings)

    def sync_client(self, **settings: Any) -> Client:
        """A synchronous one."""
        return Client(self.url, **QUICK | settings)

    def drop_connections(self) -> None:
        """End all connections from the other side, whatever is on its way."""
        self._cut()


Start = Callable[[bool], AbstractAsyncContextManager[Engine]]


class EngineKind(NamedTuple):
    """An engine: its name among the tests, what its URLs begin with, and what starts one (where topics are created by use, or not)."""

    name: str
    scheme: str
    start: Start


@contextlib.asynccontextmanager
async def _memory(auto_create_topics: bool) -> AsyncIterator[Engine]:
    """On the loop of the test, as ``memory://`` is used by most."""
    cluster = MemoryCluster(limits=PATIENT_LIMITS(auto_create_topics=auto_create_topics))
    offer("memory://contract", cluster)
    try:
        yield Engine("memory://contract", cluster.drop_connections)
    finally:
        withdraw("memory://contract")


@contextlib.asynccontextmanager
async def _memory_thread(auto_create_topics: bool) -> AsyncIterator[Engine]:
    """On a thread of its own, as the pytest fixture has it."""
    broker = MemoryBroker()
    broker._limits = PATIENT_LIMITS(auto_create_topics=auto_create_topics)
    with broker:
        yield Engine(broker.url, broker.drop_connections)


async def _ready(engine: Engine) -> Engine:
    """Once the NameServer knows the broker: it listens a moment before it is registered."""
    async with asyncio.timeout(HANG_S), engine.client() as mq:
        while not any(broker.alive for broker in await mq.admin.brokers()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return engine


@contextlib.asynccontextmanager
async def _tcp(auto_create_topics: bool) -> AsyncIterator[Engine]:
    """A NameServer, and a broker over a store on disk, with sockets between them, in this process."""
    with tempfile.TemporaryDirectory() as made, cuttable():
        data = Path(made)
        async with serving(names(data)) as port, serving(one_broker(data, port, auto_create_topics=auto_create_topics)):
            yield await _ready(Engine(f"litemq://127.0.0.1:{port}", CuttableServer.cut))


class _Processes:
    """The same in processes of their own. They serve many tests: starting them takes a second, and on a busy machine many."""

    def __init__(self) -> None:
        self._running: dict[bool, tuple[int, list[subprocess.Popen[str]]]] = {}
        self._data: list[tempfile.TemporaryDirectory[str]] = []

    def _spawn(self, *arguments: str) -> tuple[int, "subprocess.Popen[str]"]:
        program = str(Path(broker_program.__file__))
        process = subprocess.Popen([sys.executable, program, *arguments], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return int(process.stdout.readline()), process

    @contextlib.asynccontextmanager
    async def start(self, auto_create_topics: bool) -> AsyncIterator[Engine]:
        if auto_create_topics not in self._running:
            data = tempfile.TemporaryDirectory()
            self._data.append(data)
            port, nameserver = self._spawn("names", data.name)
            _, broker = self._spawn("broker", data.name, str(port), "create" if auto_create_topics else "refuse")
            self._running[auto_create_topics] = (port, [nameserver, broker])
        port, processes = self._running[auto_create_topics]

        def cut() -> None:
            for process in processes:
                process.send_signal(signal.SIGUSR1)
            for process in processes:  # a cut that came at any later time would hit what is done after it
                assert process.stdout is not None
                assert process.stdout.readline() == "cut\n"

        yield await _ready(Engine(f"litemq://127.0.0.1:{port}", cut))

    def stop(self) -> None:
        """End them, and see that they end well."""
        processes = [process for _, running in self._running.values() for process in reversed(running)]
        for process in processes:
            process.terminate()
            process.communicate(timeout=HANG_S)
        for data in self._data:
            data.cleanup()
        self._running.clear()
        self._data.clear()
        assert [process.returncode for process in processes] == [0] * len(processes)


PROCESSES = _Processes()

ENGINES = (
    EngineKind("memory", "memory://", _memory),
    EngineKind("memory_thread", "memory://", _memory_thread),
    EngineKind("tcp", "litemq://", _tcp),
    EngineKind("processes", "litemq://", PROCESSES.start),
)

_numbers = count(1)


def new_topic() -> str:
    """A topic that no other test has: an engine may serve many."""
    return f"orders-{next(_numbers)}"


async def read_all(mq: AsyncClient, topic: str) -> list[Message]:
    """Everything that is in a topic now."""
    return [message async for message in mq.reader(topic, follow=False)]


async def read_until(mq: AsyncClient, topic: str, number: int) -> list[Message]:
    """Everything in a topic, once there is so much: what was not promised to be stored when the receipt came may take a moment."""
    async with asyncio.timeout(HANG_S):
        while len(messages := await read_all(mq, topic)) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return messages
