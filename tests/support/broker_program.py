"""A NameServer or a broker that can cut its connections, in this process or as a program.

    python broker_program.py names DATA
    python broker_program.py broker DATA NAMESERVER_PORT (create|refuse)

The program prints its port. SIGTERM ends it. SIGUSR1 cuts all connections; it then prints a line.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, Final
from unittest.mock import patch
from weakref import WeakSet

from litemq.broker.limits import BrokerLimits
from litemq.errors import ConnectionLostError
from litemq.net.event_loop import run
from litemq.net.server import FrameServer
from litemq.server import broker, broker_setup, nameserver, registration
from litemq.server.broker_config import BrokerConfig
from litemq.server.nameserver_config import NameServerConfig

# Much longer than a process waits for a core on a busy machine. A program is started by its path,
# so it cannot import ``support.waiting``.
HEARTBEAT_TIMEOUT_S: Final = 120.0
# A consumer whose connection is cut comes back in time, however slow the machine is.
PATIENT_LIMITS: Final = partial(BrokerLimits, reconnect_grace_ms=round(HEARTBEAT_TIMEOUT_S * 1000))

Serve = Callable[[Callable[[str, int], None], asyncio.Event], Awaitable[None]]


class CuttableServer(FrameServer):
    """A server that remembers the running ones, to cut their connections."""

    running: ClassVar[WeakSet["CuttableServer"]] = WeakSet()

    async def start(self, host: str, port: int, **options: object) -> tuple[str, int]:
        self.running.add(self)
        return await super().start(host, port, **options)  # type: ignore[arg-type]

    @classmethod
    def cut(cls) -> None:
        """End all connections at once, with data in flight."""
        for server in cls.running:
            for connection in list(server._sessions):
                connection.abort(ConnectionLostError("cut"))


class WaitingRegistration(registration.Registration):
    """A registration that waits for a slow NameServer, or for one whose connection was cut."""

    async def announce(self) -> None:
        await self.wait_registered()
        await super().announce()


def names(data: Path) -> Serve:
    """Return the coroutine that runs a NameServer, which tolerates slow brokers."""
    config = NameServerConfig(
        port=0,
        data_path=str(data / "names"),
        heartbeat_interval_ms=200,
        heartbeat_timeout_ms=round(HEARTBEAT_TIMEOUT_S * 1000),
        route_update_interval_ms=50,
    )
    return lambda ready, stop: nameserver.run_nameserver(config, ready, stop)


def one_broker(data: Path, nameserver_port: int, *, auto_create_topics: bool) -> Serve:
    """Return the coroutine that runs a broker over a store on disk."""
    config = BrokerConfig(
        port=0,
        nameservers=(f"127.0.0.1:{nameserver_port}",),
        data_path=str(data / "broker"),
        file_size=16 << 20,
        disk_clean_percent=100,
        disk_refuse_percent=100,
        auto_create_topics=auto_create_topics,
    )
    return lambda ready, stop: broker.run_broker(config, ready, stop)


@contextlib.contextmanager
def cuttable() -> Iterator[None]:
    """Within the block, new servers can be cut, and wait for reconnects and a slow NameServer."""
    with (
        patch.object(broker, "FrameServer", CuttableServer),
        patch.object(nameserver, "FrameServer", CuttableServer),
        patch.object(broker_setup, "BrokerLimits", PATIENT_LIMITS),
        patch.object(broker, "Registration", WaitingRegistration),
        patch.object(registration, "_ANNOUNCE_TIMEOUT_S", HEARTBEAT_TIMEOUT_S),
    ):
        yield


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """Run a server in the background; yield its port."""
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    running = asyncio.ensure_future(serve(lambda _host, port: listening.set_result(port), stop))
    await asyncio.wait((listening, running), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    try:
        yield listening.result()
    finally:
        stop.set()
        await running


async def _main(kind: str, data: str, *more: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    def cut() -> None:
        CuttableServer.cut()
        # Sockets are closed in the turn after this one: the line comes behind that.
        loop.call_soon(loop.call_soon, partial(print, "cut", flush=True))

    loop.add_signal_handler(signal.SIGUSR1, cut)
    serve = (
        names(Path(data))
        if kind == "names"
        else one_broker(Path(data), int(more[0]), auto_create_topics=more[1] == "create")
    )
    with cuttable():
        await serve(lambda _host, port: print(port, flush=True), stop)  # noqa: T201  (the parent reads this)


if __name__ == "__main__":
    run(_main(*sys.argv[1:]))
