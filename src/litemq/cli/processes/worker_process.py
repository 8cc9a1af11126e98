"""Worker process of ``litemq worker``.

    python -m litemq.cli.processes.worker_process FD SETTINGS

Imports the user's module, opens its client and runs its handlers. Reports errors to the parent,
which prints them.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from litemq.cli.processes.worker_pool import EXIT_RECYCLE, WorkerSettings
from litemq.cli.processes.worker_target import choose_handlers, load_client
from litemq.cli.rendering.exit_codes import EXIT_FAILED, exit_code
from litemq.cli.rendering.logs import Level, log_to_stderr
from litemq.client.async_client import AsyncClient
from litemq.client.extensions.plugins import Plugin, PluginHost
from litemq.client.sync.client import Client
from litemq.errors import HandlerStuckError, LiteMQError
from litemq.net.event_loop import run

if TYPE_CHECKING:
    from litemq.client.handlers.subscription import Subscription

__all__ = ["main"]

# Time for the user's exit handlers.
_LAST_S: Final = 10.0


def main() -> None:
    """Run until a signal arrives or the parent is gone."""
    fd, settings_json = sys.argv[1:]
    line = socket.socket(fileno=int(fd))
    settings = WorkerSettings(**json.loads(settings_json))
    threading.Thread(
        target=_watch, args=(line, settings.shutdown_s + _LAST_S), name="litemq worker's line", daemon=True
    ).start()
    log_to_stderr(Level(settings.level), f"worker {os.getpid()}")
    try:
        client, handlers = _load(settings)
        client.add_plugin(_LoopWatchdog(settings.stall_s))
        _work(client, handlers, settings, line)
    except HandlerStuckError:
        _end(EXIT_RECYCLE)
    except LiteMQError as error:
        line.sendall(json.dumps({"error": type(error).__name__, "message": str(error)}).encode() + b"\n")
        _end(exit_code(type(error)))
    finally:
        faulthandler.dump_traceback_later(_LAST_S, exit=True)


def _watch(line: socket.socket, within: float) -> None:
    """Stop this process when the parent's end closes; the parent never sends anything.

    No other process would end it: after ``within`` seconds it exits, whatever it does.
    """
    with suppress(OSError):  # also a reset: a parent that was killed had not read the last report
        line.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(within)
    faulthandler.dump_traceback()
    _end(EXIT_FAILED)


def _load(settings: WorkerSettings) -> tuple[AsyncClient | Client, list[Subscription]]:
    client = load_client(settings.module, settings.name, settings.directory, settings.url)
    handlers = choose_handlers(
        f"{settings.module}:{settings.name}",
        client.subscriptions,
        names=settings.handlers,
        topics=settings.topics,
        groups=settings.groups,
    )
    return client, handlers


def _work(
    client: AsyncClient | Client, handlers: list[Subscription], settings: WorkerSettings, line: socket.socket
) -> None:
    def report_ready() -> None:
        line.sendall(json.dumps({"handlers": [each.name for each in handlers]}).encode() + b"\n")

    if isinstance(client, Client):
        with client:
            client.run(
                concurrency=settings.concurrency,
                shutdown_timeout=settings.shutdown_s,
                recycle_after=1,
                handlers=handlers,
                on_ready=report_ready,
            )
        return

    async def work() -> None:
        try:
            async with client:
                await client.run(
                    concurrency=settings.concurrency,
                    shutdown_timeout=settings.shutdown_s,
                    recycle_after=1,
                    handlers=handlers,
                    on_ready=report_ready,
                )
        except HandlerStuckError:
            _end(EXIT_RECYCLE)  # here, since the loop does not end while a coroutine ignores its cancellation

    run(work())


def _end(code: int) -> None:
    """Exit immediately: a handler that cannot be stopped must not keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _LoopWatchdog(Plugin):
    """A plug-in that kills the process if its event loop stalls.

    faulthandler logs the stack and exits. Its thread is in C, so it runs even if a handler holds
    the interpreter, as a regular expression that backtracks forever does.
    """

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._task: asyncio.Task[None] | None = None

    async def startup(self, client: PluginHost) -> None:  # noqa: ARG002
        self._task = asyncio.create_task(self._rearm())

    async def shutdown(self, client: PluginHost) -> None:  # noqa: ARG002
        if self._task is not None:
            self._task.cancel()
        faulthandler.cancel_dump_traceback_later()

    async def _rearm(self) -> None:
        while True:
            faulthandler.dump_traceback_later(self._stall_s, exit=True)
            await asyncio.sleep(self._stall_s / 10)


if __name__ == "__main__":
    main()
