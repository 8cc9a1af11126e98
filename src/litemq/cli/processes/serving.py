"""Foreground server: runs until a signal stops it.

The first SIGTERM, SIGINT or SIGHUP shuts down gracefully, the second exits immediately. A server
that ``litemq up`` started has a socket to its parent. It reports there that it is ready, and stops
when the parent's end is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from litemq.cli.rendering.exit_codes import EXIT_INTERRUPTED
from litemq.cli.rendering.logs import Level, log_to_stderr
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["STOPPING_SIGNALS", "ParentLink", "serve"]

_LOG = logging.getLogger(__name__)
# SIGHUP if the platform has it; `nohup` ignores it, and then so does the server.
STOPPING_SIGNALS: Final = tuple(
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if name in signal.Signals.__members__
)
# Added to the server's own shutdown timeout.
_GRACE_S = 5.0

Ready: TypeAlias = Callable[[str, int], None]


class ParentLink:
    """The child's end of the socket to ``litemq up``. Without ``fd`` there is no parent."""

    def __init__(self, fd: int | None = None) -> None:
        self._socket = None if fd is None else socket.socket(fileno=fd)

    def wait_for_start(self) -> None:
        """Return when the parent allows the start; exit if the parent has gone."""
        if self._socket is not None and not self._socket.recv(1):
            sys.exit(0)

    def report(self, **facts: object) -> None:
        """Send ``facts`` to the parent as a line of JSON."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendall(json.dumps(facts).encode() + b"\n")

    async def wait_parent_gone(self) -> None:
        """Return when the parent has closed its end or exited; never, if there is no parent."""
        if self._socket is None:
            await asyncio.get_running_loop().create_future()
            return
        self._socket.setblocking(False)
        with contextlib.suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(self._socket, 64):
                pass


def serve(
    program: str,
    start: Callable[[Ready, asyncio.Event], Coroutine[Any, Any, None]],
    *,
    level: Level,
    shutdown_timeout_ms: int,
    parent_link: ParentLink | None = None,
) -> None:
    """Run ``start`` as the server ``program`` until it is stopped or fails."""
    log_to_stderr(level, program)
    try:
        run(_until_stopped(program, start, parent_link or ParentLink(), shutdown_timeout_ms / 1000))
    except BaseExceptionGroup as group:
        raise _first_litemq_error(group) from group


async def _until_stopped(
    program: str,
    start: Callable[[Ready, asyncio.Event], Coroutine[Any, Any, None]],
    parent_link: ParentLink,
    shutdown_s: float,
) -> None:
    stop = asyncio.Event()

    def ready(host: str, port: int) -> None:
        _LOG.info("listening on %s:%d", host, port)
        parent_link.report(host=host, port=port)

    def stop_for(reason: str) -> None:
        if stop.is_set():
            if reason == "SIGHUP":
                return  # closing a terminal sends it twice: from the shell and from the kernel
            _LOG.warning("%s again: exiting immediately", reason)
            _exit_now()
        _LOG.info("%s: shutting down; a second signal exits immediately", reason)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in STOPPING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop_for, number.name)
    serving = asyncio.create_task(start(ready, stop))
    watching = asyncio.create_task(parent_link.wait_parent_gone())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, watching, stopping), return_when=asyncio.FIRST_COMPLETED)
        if watching.done() and not stop.is_set():
            _LOG.info("litemq up has stopped: shutting down")
            stop.set()
        _, late = await asyncio.wait((serving,), timeout=shutdown_s + _GRACE_S)
        if late:
            _LOG.error("%s did not stop within %g s: exiting immediately", program, shutdown_s)
            _exit_now()
        await serving
    finally:
        for task in (watching, stopping):
            task.cancel()


def _first_litemq_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first ``LiteMQError`` in ``group``, or else the first exception."""
    ours = group.subgroup(LiteMQError)
    found: BaseException = ours or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _exit_now() -> None:
    """Exit without a shutdown: the next start recovers."""
    sys.stderr.flush()
    os._exit(EXIT_INTERRUPTED)
