"""The processes of ``litemq worker``: started, watched, replaced, and stopped together.

Each has a line to its parent, one end of a pair of sockets. It says there what it handles once it is ready, or why it cannot be; when the
other end is gone it stops, so that a parent that is killed leaves nobody behind.
"""

from __future__ import annotations

import json
import logging
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from litemq import errors
from litemq.cli.processes.supervision import REPEATED, read_signals, taken_signals
from litemq.errors import LiteMQError

__all__ = ["EXIT_WORN", "WorkerPool", "WorkerSettings"]

_LOG = logging.getLogger(__name__)
# How a process ends that wants to be replaced: between the two of them, and never seen outside.
EXIT_WORN: Final = 75
# Beyond the time that a process gives its handlers.
_GRACE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
# One that ran for so long is no longer thought to fail at every start.
_STEADY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a process is told."""

    module: str
    name: str
    directory: str  # where modules are looked for first
    level: str
    concurrency: int | None
    shutdown_s: float
    stall_s: float


class _Process:
    """One process, and what it has said."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.handlers: list[str] | None = None  # once it is ready
        self.error: LiteMQError | None = None
        self.began = time.monotonic()
        self._heard = b""
        self.line, other = socket.socketpair()
        command = [sys.executable, "-P", "-m", "litemq.cli.processes.worker_process", str(other.fileno()), json.dumps(asdict(settings))]
        with other:
            # In a session of its own: Ctrl-C reaches the parent alone, which decides what it means.
            self.process = subprocess.Popen(  # noqa: S603 (ourselves)
                command, stdin=subprocess.DEVNULL, pass_fds=(other.fileno(),), start_new_session=True
            )

    def hear(self) -> bool:
        """Read what it says; ``False`` when it has ended."""
        try:
            data = self.line.recv(65536)
        except ConnectionError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            facts = json.loads(line)
            if "error" in facts:
                cls = getattr(errors, facts["error"], LiteMQError)
                self.error = cls(facts["message"]) if cls.__init__ is Exception.__init__ else LiteMQError(facts["message"])
            else:
                self.handlers = facts["handlers"]
        return bool(data)

    def tell(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.line.close()


class WorkerPool:
    """Runs once, until a signal comes."""

    def __init__(self, settings: WorkerSettings, count: int, *, ready: Callable[[str, int, list[str]], None]) -> None:
        self._settings = settings
        self._count = count
        self._ready = ready
        self._processes: list[_Process] = []
        self._due: list[float] = []  # when replacements are started
        self._pause = _FIRST_PAUSE_S
        self._is_announced = False
        self._told = 0  # how often to stop
        self._deadline = float("inf")

    def run(self) -> None:
        """Start them, and see to them. Raises why the first ones could not start."""
        with taken_signals() as signalled, selectors.DefaultSelector() as selector:
            selector.register(signalled, selectors.EVENT_READ)
            try:
                for _ in range(self._count):
                    self._start(selector)
                while self._processes or (self._due and not self._told):
                    self._turn(selector)
            finally:
                for each in self._processes:
                    each.end()

    def _start(self, selector: selectors.BaseSelector) -> None:
        process = _Process(self._settings)
        self._processes.append(process)
        selector.register(process.line, selectors.EVENT_READ, process)

    def _turn(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        for key, _ in selector.select(max(0.0, min([*self._due, self._deadline, now + 3600]) - now)):
            if not isinstance(key.data, _Process):
                self._signalled(read_signals(key.fileobj))
            elif not key.data.hear():
                selector.unregister(key.data.line)
                self._ended(key.data)
        now = time.monotonic()
        if now >= self._deadline:
            _LOG.error("handlers did not stop within %g s: ending them", self._settings.shutdown_s)
            self._deadline = float("inf")
            for each in self._processes:
                each.tell(signal.SIGKILL)
        if not self._told:
            for _ in [due for due in self._due if due <= now]:
                self._start(selector)
            self._due = [due for due in self._due if due > now]
        if not self._is_announced and len(self._processes) == self._count and all(each.handlers is not None for each in self._processes):
            self._is_announced = True
            self._ready(f"{self._settings.module}:{self._settings.name}", self._count, self._processes[0].handlers or [])

    def _signalled(self, numbers: set[int]) -> None:
        if self._told and not numbers - REPEATED:
            return
        self._told += 1
        if self._told == 1:
            self._deadline = time.monotonic() + self._settings.shutdown_s + _GRACE_S
        for each in self._processes:
            each.tell(signal.SIGTERM if self._told <= 2 else signal.SIGKILL)

    def _ended(self, one: _Process) -> None:
        self._processes.remove(one)
        code = one.process.wait()
        one.line.close()
        if self._told:
            return
        if not self._is_announced:
            raise one.error or LiteMQError(f"the worker's process could not start: it ended with {_how(code)}")
        if time.monotonic() - one.began > _STEADY_S:
            self._pause = _FIRST_PAUSE_S
        if code == EXIT_WORN:
            _LOG.warning("a process had a handler that could not be stopped: it is replaced")
            self._due.append(time.monotonic())
        else:
            _LOG.error("a process ended with %s%s: it is replaced in %g s", _how(code), f" ({one.error})" if one.error else "", self._pause)
            self._due.append(time.monotonic() + self._pause)
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
