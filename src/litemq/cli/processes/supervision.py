"""Supervision of servers as child processes, which start and stop together.

Each child has one end of a socket pair. It waits there for its start signal, sent when the previous
child is ready, and reports that it is ready or why it failed. It stops when the parent's end is
closed, so a killed parent leaves no child running.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from litemq import errors
from litemq.cli.processes.serving import STOPPING_SIGNALS
from litemq.cli.rendering.exit_codes import EXIT_INTERRUPTED
from litemq.cli.rendering.logs import Level
from litemq.errors import LiteMQError

__all__ = ["REPEATED", "Child", "Reporter", "caught_signals", "read_signals", "supervise"]


# Closing a terminal sends SIGHUP twice, from the shell and from the kernel: no request to exit
# immediately.
REPEATED: Final = {int(getattr(signal, "SIGHUP", 0))}
# A restarted child that is killed before it is ready, such as by the kernel when memory runs out.
_RESTART_PAUSE_S: Final = 1.0
_MAX_RESTARTS: Final = 5


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the stopping signals while a child starts.

    Ctrl-C reaches the whole process group, possibly before the child ignores it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Child:
    """One server process; ``name`` is the name shown to users."""

    def __init__(self, name: str, program: str, level: Level, flags: Mapping[str, object]) -> None:
        self.name = name
        self.address: tuple[str, int] | None = None
        self.error: LiteMQError | None = None
        self.master_epoch = 0  # of a replica that was the master
        self._received = b""
        self.line, other = socket.socketpair()
        # -P: do not import modules from the current directory by accident.
        command = [
            sys.executable,
            "-P",
            "-m",
            "litemq.cli.processes.child",
            program,
            level,
            str(other.fileno()),
            json.dumps(flags),
        ]
        with other, _signals_blocked():
            self.process = subprocess.Popen(  # noqa: S603 (ourselves)
                command, stdin=subprocess.DEVNULL, pass_fds=(other.fileno(),)
            )

    def begin(self) -> None:
        """Send the start signal."""
        with suppress(OSError):  # the child has ended: ``receive`` reports it
            self.line.send(b".")

    def stop(self) -> None:
        """Close this end of the socket, so that the child shuts down gracefully."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def receive(self) -> bool:
        """Read the child's reports. Return ``False`` when it has ended."""
        try:
            data = self.line.recv(4096)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            facts = json.loads(line)
            if "error" in facts:
                self.error = _error(facts["error"], f"{self.name}: {facts['message']}")
            elif "master" in facts:
                self.master_epoch = facts["master"]
            else:
                self.address = (facts["host"], facts["port"])
        return bool(data)

    def was_killed(self) -> bool:
        """Wait for the child to exit, and return whether SIGKILL ended it."""
        return self.process.wait() == -signal.SIGKILL

    def exit_error(self, again: str) -> LiteMQError:
        """Wait for the child to exit, and return the reason. ``again`` is the command to start."""
        code = self.process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if self.was_killed():  # by a user, or by the kernel when memory runs out
            cause += f": it was killed. Messages acknowledged as on disk are safe: start it again with `{again}`"
        return self.error or LiteMQError(f"{self.name} exited unexpectedly with {cause}")


def _error(name: str, message: str) -> LiteMQError:
    cls = getattr(errors, name, LiteMQError)
    return cls(message) if issubclass(cls, LiteMQError) and cls.__init__ is Exception.__init__ else LiteMQError(message)


class Reporter(Protocol):
    """What the user reads of the children."""

    def ready(self, children: Sequence[Child]) -> None:
        """All children are ready for the first time."""

    def reported(self, children: Sequence[Child]) -> None:
        """A child reported something, after all were ready."""

    def restarted(self, child: Child) -> None:
        """A killed child was started again."""


def supervise(
    start: Sequence[Callable[[], Child]],
    reporter: Reporter,
    *,
    restarted: Collection[int],
    again: str,
    shutdown_s: float,
) -> None:
    """Run children until the first signal, then stop them, the first one last.

    ``again`` is the command that errors advise to start. The second signal kills the children. If a
    child exits unexpectedly, stop the others and raise its error; but those in ``restarted``, by
    index, are started again after a SIGKILL. One that is killed again before it is ready is started
    ``_MAX_RESTARTS`` times, with pauses.
    """
    children: list[Child] = []
    with caught_signals() as signalled, selectors.DefaultSelector() as selector:
        selector.register(signalled, selectors.EVENT_READ)
        try:
            for one in start:
                children.append(one())
                selector.register(children[-1].line, selectors.EVENT_READ, children[-1])
            children[0].begin()
            failure = _watch(selector, children, reporter, {number: start[number] for number in restarted}, again)
            _stop(selector, children, shutdown_s)
        finally:
            for child in children:
                child.process.kill()
                child.process.wait()
                child.line.close()
    if failure is not None:
        raise failure


def _watch(
    selector: selectors.BaseSelector,
    children: list[Child],
    reporter: Reporter,
    restarted: Mapping[int, Callable[[], Child]],
    again: str,
) -> LiteMQError | None:
    """Start the children one after another; return when a signal arrives or a child exits."""
    started = 1
    restarts = _Restarts(restarted)
    while True:
        events = selector.select(restarts.wait_s())
        for number in restarts.due():
            children[number] = restarted[number]()
            selector.register(children[number].line, selectors.EVENT_READ, children[number])
            children[number].begin()
            reporter.restarted(children[number])
        for key, _ in events:
            if not isinstance(key.data, Child):
                read_signals(key.fileobj)
                sys.stderr.write("stopping; press Ctrl-C again to exit immediately\n")
                sys.stderr.flush()
                return None
            child = key.data
            if not child.receive():
                selector.unregister(child.line)
                if not restarts.schedule(children.index(child), child):
                    return child.exit_error(again)
                child.line.close()
            elif started > len(children):
                reporter.reported(children)
        if started <= len(children) and children[started - 1].address:
            if started < len(children):
                children[started].begin()
            else:
                reporter.ready(children)
            started += 1


class _Restarts:
    """When killed children start again, by index: at once, or after a pause if it was not ready."""

    def __init__(self, restarted: Collection[int]) -> None:
        self._restarted = restarted
        self._failures: dict[int, int] = {}  # kills in a row before it was ready; none: it never was
        self._due: dict[int, float] = {}

    def schedule(self, number: int, child: Child) -> bool:
        """Schedule the restart of a child that has ended; ``False``: do not start it again."""
        if child.address is not None:
            self._failures[number] = -1
        # One that was never ready would fail again.
        if number not in self._restarted or number not in self._failures or not child.was_killed():
            return False
        self._failures[number] += 1
        if self._failures[number] > _MAX_RESTARTS:
            return False
        self._due[number] = time.monotonic() + (_RESTART_PAUSE_S if self._failures[number] else 0)
        return True

    def wait_s(self) -> float | None:
        """Return the seconds until the next restart; ``None``: none is scheduled."""
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    def due(self) -> list[int]:
        """Return the children to start now."""
        now = time.monotonic()
        numbers = [number for number, at in self._due.items() if at <= now]
        for number in numbers:
            del self._due[number]
        return numbers


def _stop(selector: selectors.BaseSelector, children: list[Child], shutdown_s: float) -> None:
    deadline = time.monotonic() + shutdown_s
    for child in _stopping_order(children):
        child.stop()
        while child.process.poll() is None:
            if time.monotonic() > deadline:
                sys.stderr.write(f"{child.name} did not stop within {shutdown_s:g} s: killing it\n")
                return
            for key, _ in selector.select(0.05):
                if not isinstance(key.data, Child):
                    if read_signals(key.fileobj) - REPEATED:
                        _abort(children)
                elif not key.data.receive():
                    selector.unregister(key.data.line)


def _stopping_order(children: Sequence[Child]) -> list[Child]:
    """Return ``children`` in reverse order, since later ones need earlier ones.

    But the master of a group is next to last: if its followers ran, they would elect another one.
    """
    *others, first = reversed(children)
    return [*sorted(others, key=lambda child: child.master_epoch), first]


def _abort(children: list[Child]) -> None:
    for child in children:
        child.process.kill()
        child.process.wait()
    sys.stderr.flush()
    os._exit(EXIT_INTERRUPTED)


@contextmanager
def caught_signals() -> Iterator[socket.socket]:
    """Catch the stopping signals; yield a socket that is readable when one has arrived."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = {number: signal.getsignal(number) for number in STOPPING_SIGNALS}
    waking = signal.set_wakeup_fd(writer.fileno())
    for number in STOPPING_SIGNALS:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(waking)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def read_signals(reader: object) -> set[int]:
    """Return the signals that have arrived."""
    return set(reader.recv(64)) if isinstance(reader, socket.socket) else set()
