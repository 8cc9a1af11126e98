"""Pool of the processes of ``litemq worker``: starts, watches, replaces and stops them.

Each process has one end of a socket pair. It reports its handlers there once it is ready, or why it
failed. It stops when the parent's end is closed, so a killed parent leaves no process running.

With ``reload``, the pool stops all processes when a file changes, as after SIGTERM, and then starts
new ones. If these cannot start, it waits for the next change.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from litemq import errors
from litemq.cli.processes.file_watch import FileWatch
from litemq.cli.processes.supervision import REPEATED, caught_signals, read_signals
from litemq.errors import LiteMQError

__all__ = ["EXIT_RECYCLE", "WorkerPool", "WorkerSettings"]

_LOG = logging.getLogger(__name__)
# The exit code of a process that asks to be replaced. The pool handles it; users never see it.
EXIT_RECYCLE: Final = 75
# Added to the time that a process gives its handlers.
_GRACE_S: Final = 10.0
_INITIAL_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 30.0
# A process that ran for this long does not count as failing at every start.
_STABLE_AFTER_S: Final = 60.0
_POLL_S: Final = 0.5  # between two looks at the files, with ``reload``


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker process."""

    module: str
    name: str
    directory: str  # first entry of sys.path
    level: str
    concurrency: int | None
    shutdown_s: float
    stall_s: float
    url: str | None = None  # instead of the client's own
    handlers: Sequence[str] = ()  # names of functions; empty: all
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    reload: bool = False


class _Process:
    """One worker process, and its reports."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.handlers: list[str] | None = None  # once it is ready
        self.error: LiteMQError | None = None
        self.began = time.monotonic()
        self._received = b""
        self.line, other = socket.socketpair()
        command = [
            sys.executable,
            "-P",
            # Compiled files are recognised by a time in seconds: two edits may be faster.
            *(["-B"] if settings.reload else []),
            "-m",
            "litemq.cli.processes.worker_process",
            str(other.fileno()),
            json.dumps(asdict(settings)),
        ]
        with other:
            # In its own session, so that Ctrl-C reaches only the parent, which decides.
            self.process = subprocess.Popen(  # noqa: S603 (ourselves)
                command, stdin=subprocess.DEVNULL, pass_fds=(other.fileno(),), start_new_session=True
            )

    def receive(self) -> bool:
        """Read the process's reports. Return ``False`` when it has ended."""
        try:
            data = self.line.recv(65536)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            facts = json.loads(line)
            if "error" in facts:
                cls = getattr(errors, facts["error"], LiteMQError)
                self.error = (
                    cls(facts["message"]) if cls.__init__ is Exception.__init__ else LiteMQError(facts["message"])
                )
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
    """Worker processes, run until a signal stops them."""

    def __init__(self, settings: WorkerSettings, count: int, *, ready: Callable[[str, int, list[str]], None]) -> None:
        self._settings = settings
        self._count = count
        self._ready = ready
        self._processes: list[_Process] = []
        self._due: list[float] = []  # start times of replacements
        self._pause = _INITIAL_PAUSE_S
        self._is_announced = False
        self._has_run = False
        self._is_reloading = False
        self._is_broken = False  # the code of the last reload cannot start
        self._watch = FileWatch(settings.directory) if settings.reload else None
        self._next_poll = time.monotonic() + _POLL_S
        self._stop_requests = 0
        self._deadline = float("inf")

    def run(self) -> None:
        """Run the processes until a signal stops them.

        Raise the error of a process that cannot start.
        """
        with caught_signals() as signalled, selectors.DefaultSelector() as selector:
            selector.register(signalled, selectors.EVENT_READ)
            try:
                self._start_all(selector)
                while self._processes or ((self._due or self._watch) and not self._stop_requests):
                    self._run_once(selector)
            finally:
                for each in self._processes:
                    each.end()

    def _start_all(self, selector: selectors.BaseSelector) -> None:
        self._is_announced = self._is_reloading = self._is_broken = False
        self._deadline = float("inf")
        for _ in range(self._count):
            self._start(selector)

    def _start(self, selector: selectors.BaseSelector) -> None:
        process = _Process(self._settings)
        self._processes.append(process)
        selector.register(process.line, selectors.EVENT_READ, process)

    def _run_once(self, selector: selectors.BaseSelector) -> None:
        now = time.monotonic()
        polls = [self._next_poll] if self._watch is not None else []
        for key, _ in selector.select(max(0.0, min([*self._due, *polls, self._deadline, now + 3600]) - now)):
            if not isinstance(key.data, _Process):
                self._on_signals(read_signals(key.fileobj))
            elif not key.data.receive():
                selector.unregister(key.data.line)
                self._on_exit(key.data)
        now = time.monotonic()
        if now >= self._deadline:
            _LOG.error("handlers did not stop within %g s: killing their processes", self._settings.shutdown_s)
            self._deadline = float("inf")
            for each in self._processes:
                each.send_signal(signal.SIGKILL)
        if not self._stop_requests:
            for _ in [due for due in self._due if due <= now]:
                self._start(selector)
            self._due = [due for due in self._due if due > now]
            self._follow_files(selector, now)
        if (
            not self._is_announced
            and len(self._processes) == self._count
            and all(each.handlers is not None for each in self._processes)
        ):
            self._is_announced = self._has_run = True
            self._ready(
                f"{self._settings.module}:{self._settings.name}", self._count, self._processes[0].handlers or []
            )

    def _follow_files(self, selector: selectors.BaseSelector, now: float) -> None:
        """Stop the processes after a change; when all have ended, start new ones."""
        if self._watch is None:
            return
        if now >= self._next_poll:
            self._next_poll = now + _POLL_S
            changed = self._watch.poll()
            if changed and not self._is_reloading:
                _LOG.info("%s changed: restarting", ", ".join(changed[:3]) + (" and others" if changed[3:] else ""))
                self._is_reloading = True
                self._stop_processes()
        if not self._processes:
            self._deadline = float("inf")
            if self._is_reloading:
                self._start_all(selector)

    def _stop_processes(self) -> None:
        self._due.clear()
        self._deadline = time.monotonic() + self._settings.shutdown_s + _GRACE_S
        for each in self._processes:
            each.send_signal(signal.SIGTERM)

    def _on_signals(self, numbers: set[int]) -> None:
        if self._stop_requests and not numbers - REPEATED:
            return
        self._stop_requests += 1
        if self._stop_requests == 1:
            self._deadline = time.monotonic() + self._settings.shutdown_s + _GRACE_S
            if self._is_reloading:
                return  # the processes have their first signal
        for each in self._processes:
            each.send_signal(signal.SIGTERM if self._stop_requests <= 2 else signal.SIGKILL)

    def _on_exit(self, one: _Process) -> None:
        self._processes.remove(one)
        code = one.process.wait()
        one.line.close()
        if self._stop_requests or self._is_reloading:
            return
        if self._has_run and self._watch is not None and not self._is_announced:
            if not self._is_broken:  # else another process has reported it
                self._is_broken = True
                _LOG.error("%s: waiting for the next change", one.error or f"a process exited with {_exit_text(code)}")
                self._stop_processes()
            return
        if not self._is_announced:
            raise one.error or LiteMQError(f"the worker process could not start: it exited with {_exit_text(code)}")
        if time.monotonic() - one.began > _STABLE_AFTER_S:
            self._pause = _INITIAL_PAUSE_S
        if code == EXIT_RECYCLE:
            _LOG.warning("replacing a process with a handler that could not be stopped")
            self._due.append(time.monotonic())
        else:
            _LOG.error(
                "a process exited with %s%s: replacing it in %g s",
                _exit_text(code),
                f" ({one.error})" if one.error else "",
                self._pause,
            )
            self._due.append(time.monotonic() + self._pause)
            self._pause = min(self._pause * 2, _MAX_PAUSE_S)


def _exit_text(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
