"""The engines that the contract suite tests. To add an engine, add a line to ``ENGINES``."""

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

# Short waits between retries, and no timeout that a slow machine could exceed.
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "max_retry_backoff_ms": 50,
    "route_refresh_ms": 200,
    "connect_timeout_ms": 60_000,
    "contact_timeout_ms": 60_000,
    "request_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "session_timeout_ms": 120_000,
    "shutdown_timeout_ms": 60_000,
}


class Engine:
    """A running engine: its URL, and a way to cut its connections.

    Tests use the public client for everything else.
    """

    def __init__(self, url: str, cut: Callable[[], None]) -> None:
        self.url = url
        self._cut = cut

    def client(self, **settings: Any) -> AsyncClient:
        """Return a client of the engine, not opened."""
        return AsyncClient(self.url, **QUICK | settings)

    def sync_client(self, **settings: Any) -> Client:
        """Return a synchronous client of the engine."""
        return Client(self.url, **QUICK | settings)

    def drop_connections(self) -> None:
        """End all connections from the server's side, with data in flight."""
        self._cut()


Start = Callable[[bool], AbstractAsyncContextManager[Engine]]


class EngineKind(NamedTuple):
    """An engine: its name in tests, the scheme of its URLs, and the function that starts one.

    The function takes whether topics are created automatically.
    """

    name: str
    scheme: str
    start: Start


@contextlib.asynccontextmanager
async def _memory(auto_create_topics: bool) -> AsyncIterator[Engine]:
    """Run the memory engine on the loop of the test, the usual way."""
    cluster = MemoryCluster(limits=PATIENT_LIMITS(auto_create_topics=auto_create_topics))
    offer("memory://contract", cluster)
    try:
        yield Engine("memory://contract", cluster.drop_connections)
    finally:
        withdraw("memory://contract")


@contextlib.asynccontextmanager
async def _memory_thread(auto_create_topics: bool) -> AsyncIterator[Engine]:
    """Run the memory engine on its own thread, as the pytest fixture does."""
    broker = MemoryBroker()
    broker._limits = PATIENT_LIMITS(auto_create_topics=auto_create_topics)
    with broker:
        yield Engine(broker.url, broker.drop_connections)


async def _ready(engine: Engine) -> Engine:
    """Wait until the NameServer knows the broker, which listens before it is registered."""
    async with asyncio.timeout(HANG_S), engine.client() as mq:
        while not any(broker.alive for broker in await mq.admin.brokers()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return engine


@contextlib.asynccontextmanager
async def _tcp(auto_create_topics: bool) -> AsyncIterator[Engine]:
    """Run a NameServer and a broker over a store on disk in this process, with sockets."""
    with tempfile.TemporaryDirectory() as made, cuttable():
        data = Path(made)
        async with serving(names(data)) as port, serving(one_broker(data, port, auto_create_topics=auto_create_topics)):
            yield await _ready(Engine(f"litemq://127.0.0.1:{port}", CuttableServer.cut))


class _Processes:
    """A NameServer and a broker in their own processes. They start slowly, so tests share them."""

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
        """Stop the processes, and check their exit status."""
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
    """Return a topic name that no other test uses."""
    return f"orders-{next(_numbers)}"


async def read_all(mq: AsyncClient, topic: str) -> list[Message]:
    """Read all messages of a topic."""
    return [message async for message in mq.reader(topic, follow=False)]


async def read_until(mq: AsyncClient, topic: str, number: int) -> list[Message]:
    """Read all messages of a topic once there are ``number``; unconfirmed ones may be late."""
    async with asyncio.timeout(HANG_S):
        while len(messages := await read_all(mq, topic)) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return messages
