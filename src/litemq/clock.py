"""The clock interface. All other modules read the time through it, so tests can control time."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "FakeClock", "SystemClock"]

# CLOCK_BOOTTIME counts the time during which the machine sleeps, CLOCK_MONOTONIC does not. A lease
# must expire during sleep, too. macOS has no CLOCK_BOOTTIME, but its CLOCK_MONOTONIC counts sleep.
_ELAPSED_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A wall clock and an elapsed-time clock."""

    def wall_ms(self) -> int:
        """Return the host's time in milliseconds since 1970. May step in either direction."""
        ...

    def elapsed_ns(self) -> int:
        """Return nanoseconds since a fixed moment. Monotonic."""
        ...


class SystemClock:
    """The host's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ns(self) -> int:
        return time.clock_gettime_ns(_ELAPSED_CLOCK)


class FakeClock:
    """A clock for tests that moves only by ``advance`` and ``step_wall``."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, elapsed_ns: int = 0) -> None:
        self._wall_ns = wall_ms * 1_000_000
        self._elapsed_ns = elapsed_ns

    def wall_ms(self) -> int:
        return self._wall_ns // 1_000_000

    def elapsed_ns(self) -> int:
        return self._elapsed_ns

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by ``seconds``."""
        if seconds < 0:
            raise ValueError(f"advance({seconds}): time cannot go backwards; use step_wall to set the wall clock back")
        ns = round(seconds * 1_000_000_000)
        self._wall_ns += ns
        self._elapsed_ns += ns

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock by ``seconds``, as an operator or NTP would; no time passes."""
        self._wall_ns += round(seconds * 1_000_000_000)
