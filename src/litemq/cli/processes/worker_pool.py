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
from litemq.cli.processes.supervision import REPEATED, caught_signals, read_signals
from litemq.errors import LiteMQError

__all__ = ["EXIT_RECYCLE", "WorkerPool", "WorkerSettings"]

_LOG = logging.getLogger(__name__)
# The exit code of a process that asks to be replaced. The pool handles it; users never see it.
EXIT_RECYCLE: Final = 75
# Beyond the time that a process gives its handlers.
_GRACE_S: Final = 10.0
_INITIAL_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 30.0
# A process that ran for this long does not count as failing at every start.
_STABLE_AFTER_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker process."""

    module: str
    name: str
    directory: str  # where modules are looked for first
    level: str
    concurrency: int | None
    shutdown_s: float
    stall_s: float


class _Process:
    """One worker process, and its reports."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.handlers: list[str] | None = None  # once it is ready
        self.error: LiteMQError | None = None
        self.began = time.monotonic()
        self._received = b""
        self.line, other = socket.socketpair()
        command = [sys.executable, "-P", "-m", "litemq.cli.processes.worker_process", str(other.fileno()), json.dumps(asdict(settings))]
        with other:
            # In a session of its own: Ctrl-C reaches the parent alone, which decides what it means.
            self.process = subprocess.Popen(  # noqa: S603 (ourselves)
                command, stdin=subprocess.DEVNULL, pass_fds=(other.fileno(),), start_new_session=True
            )

    def receive(self) -> bool:
        """Read its reports. Return ``False`` when it has ended."""
        try:
            data = self.line.recv(65536)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            facts = json.loads(line)
            if "error" in facts:
                cls = getattr(errors, facts["error"], LiteMQError)
                self.error = cls(facts["message"]) if cls.__init__ is Exception.__init__ else LiteMQError(facts["message"])
            else:
                self.handlers = facts["handlers"]
        return bool(data)

    def send_signal(self, number: signal.Signals) -> None:
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
        self._pause = _INITIAL_PAUSE_S
        self._is_announced = False
        self._stop_requests = 0
        self._deadline = float("inf")

    def run(self) -> None:
        """Start them, and see to them. Raises why the first ones could not start."""
        with caught_signals() as signalled, selectors.DefaultSelector() as selector:
            selector.register(signalled, selectors.EVENT_READ)
            try:
                for _ in range(self._count):
                    self._start(selector)
                while self._processes or (self._due and not self._stop_requests):
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
            elif not key.data.receive():
                selector.unregister(key.data.line)
                self._ended(key.data)
        now = time.monotonic()
        if now >= self._deadline:
            _LOG.error("handlers did not stop within %g s: ending them", self._settings.shutdown_s)
            self._deadline = float("inf")
            for each in self._processes:
                each.send_signal(signal.SIGKILL)
        if not self._stop_requests:
            for _ in [due for due in self._due if due <= now]:
                self._start(selector)
            self._due = [due for due in self._due if due > now]
        if not self._is_announced and len(self._processes) == self._count and all(each.handlers is not None for each in self._processes):
            self._is_announced = True
            self._ready(f"{self._settings.module}:{self._settings.name}", self._count, self._processes[0].handlers or [])

    def _signalled(self, numbers: set[int]) -> None:
        if self._stop_requests and not numbers - REPEATED:
            return
        self._stop_requests += 1
        if self._stop_requests == 1:
            self._deadline = time.monotonic() + self._settings.shutdown_s + _GRACE_S
        for each in self._processes:
            each.send_signal(signal.SIGTERM if self._stop_requests <= 2 else signal.SIGKILL)

    def _ended(self, one: _Process) -> None:
        self._processes.remove(one)
        code = one.process.wait()
        one.line.close()
        if self._stop_requests:
            return
        if not self._is_announced:
            raise one.error or LiteMQError(f"the worker's process could not start: it ended with {_exit_text(code)}")
        if time.monotonic() - one.began > _STABLE_AFTER_S:
            self._pause = _INITIAL_PAUSE_S
        if code == EXIT_RECYCLE:
            _LOG.warning("a process had a handler that could not be stopped: it is replaced")
            self._due.append(time.monotonic())
        else:
            _LOG.error(
                "a process ended with %s%s: it is replaced in %g s", _exit_text(code), f" ({one.error})" if one.error else "", self._pause
            )
            self._due.append(time.monotonic() + self._pause)
            self._pause = min(self._pause * 2, _MAX_PAUSE_S)


def _exit_text(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
