"""Processes on hosts in network namespaces: killed, frozen, stopped, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.hosts.network import Host
from support.waiting import HANG_S, wait_until

__all__ = ["HostProcess", "freeze"]

# Enters the network namespace; ends with the thread that started it.
_PROGRAM: Final = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, signal.SIGKILL)
namespace = int(sys.argv[1])
if libc.setns(namespace, 0x40000000):
    raise OSError(ctypes.get_errno(), "setns")
os.close(namespace)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def freeze(pid: int) -> None:
    """Stop all threads of a process. On return, none of them runs code of the process any more.

    A thread in an uninterruptible call, such as a sync, stops when that ends.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(state not in "RS" for state in _thread_states(pid)))


def _thread_states(pid: int) -> list[str]:
    states = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            states.append(path.read_text().rpartition(") ")[2][0])
    return states


class HostProcess:
    """A command on a host. ``ended`` has the exits that nobody asked for."""

    def __init__(self, host: Host, command: Sequence[str], log: Path) -> None:
        self.host = host
        self.log = log
        self.is_frozen = False
        self.ended: list[str] = []
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def is_running(self) -> bool:
        """Whether it runs; also if it is frozen."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, from the main thread; another fault may have started it."""
        if self.is_running:
            return
        namespace = self.host.namespace
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(namespace), *self._command],
                pass_fds=[namespace],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def note_end(self) -> bool:
        """Return whether it has ended by itself since its start; note how."""
        if self._process is None or self._process.poll() is None:
            return False
        lines = self.log.read_text(errors="replace").splitlines()
        self.ended.append(f"{self.name} ended by itself with {self._process.returncode}: {' / '.join(lines[-3:])}")
        self._process = None
        return True

    def freeze(self) -> None:
        assert self._process is not None
        freeze(self._process.pid)
        self.is_frozen = True

    def thaw(self) -> None:
        """Let it continue, if it is frozen."""
        if self.is_frozen and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> None:
        """Kill it at once. May be called again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(HANG_S)
        self._process, self.is_frozen = None, False

    def restart(self) -> None:
        self.kill()
        self.start()

    def terminate(self) -> None:
        """Ask it to stop, without waiting."""
        if self._process is not None:
            self._process.terminate()

    def wait_stopped(self) -> int:
        """Wait for the end after ``terminate``; return the exit status."""
        assert self._process is not None
        status = self._process.wait(HANG_S)
        self._process = None
        return status
