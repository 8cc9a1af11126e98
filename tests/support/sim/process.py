"""The hosts and processes of a simulation: each callback and thread belongs to one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from litemq.storage.replica_store import ReplicaStore

__all__ = ["PROCESS", "Host", "Process"]

_WALL_MS: Final = 1_700_000_000_000


class Host:
    """A machine: its clocks may be wrong, and it may have no power."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_power = True
        self.wall_error_ms = 0
        self.clock_rate = 1.0
        self.was_clock_wrong = False
        self.slowest_rate = self.fastest_rate = 1.0
        self._read_at = self._elapsed_ns = 0

    def set_clock(self, wall_error_ms: int, rate: float, now_ns: int) -> None:
        """Let the wall clock be off by ``wall_error_ms``, and time pass at ``rate``."""
        self.elapsed_ns(now_ns)
        self.wall_error_ms, self.clock_rate = wall_error_ms, rate
        self.was_clock_wrong = self.was_clock_wrong or bool(wall_error_ms) or rate != 1
        self.slowest_rate, self.fastest_rate = min(self.slowest_rate, rate), max(self.fastest_rate, rate)

    def elapsed_ns(self, now_ns: int) -> int:
        """Return the clock of elapsed time, which never goes back."""
        self._elapsed_ns += round((now_ns - self._read_at) * self.clock_rate)
        self._read_at = now_ns
        return self._elapsed_ns

    def wall_ms(self, now_ns: int) -> int:
        return _WALL_MS + now_ns // 1_000_000 + self.wall_error_ms


class Process:
    """A process on ``host``. Its callbacks run only while it is alive and not paused."""

    def __init__(self, host: Host, name: str) -> None:
        self.host = host
        self.name = name
        self.is_alive = True
        self.is_paused = False
        self.is_stopping = False
        self.stop: Callable[[], object] = lambda: None
        self.deferred: list[asyncio.Handle] = []  # callbacks that were due during a pause
        self.on_end: list[Callable[[], object]] = []  # what the kernel would do: close files
        self.on_ack: Callable[[int], object] = lambda _epoch: None  # of the epoch that acknowledges
        self.on_fault: Callable[[str], object] = lambda _fault: None
        self.on_copy: Callable[[], object] = lambda: None  # of a master's log, which is complete
        self.store: ReplicaStore | None = None
        self.task: asyncio.Task[None] | None = None

    def admits(self, handle: asyncio.Handle) -> bool:
        """Return whether ``handle`` may run now."""
        if self.is_alive and self.is_paused:
            self.deferred.append(handle)
        return self.is_alive and not self.is_paused


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
