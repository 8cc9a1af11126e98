"""Time, injected: nothing above this module asks the operating system what time it is."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "FakeClock", "SystemClock"]

# CLOCK_BOOTTIME goes on while the machine sleeps, CLOCK_MONOTONIC does not; a lease must end either way. macOS lacks the former,
# and its CLOCK_MONOTONIC already counts sleep.
_ELAPSED_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What time it is, and how much of it has passed: two questions with two answers."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the host believes. May step in either direction."""
        ...

    def elapsed_ns(self) -> int:
        """Nanoseconds since some fixed moment. Never steps, never falls."""
        ...


class SystemClock:
    """The host's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ns(self) -> int:
        return time.clock_gettime_ns(_ELAPSED_CLOCK)


class FakeClock:
    """A clock that moves only when told to: ``advance`` lets time pass, ``step_wall`` sets the wall clock as an operator or NTP would."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, elapsed_ns: int = 0) -> None:
        self._wall_ns = wall_ms * 1_000_000
        self._elapsed_ns = elapsed_ns

    def wall_ms(self) -> int:
        return self._wall_ns // 1_000_000

    def elapsed_ns(self) -> int:
        return self._elapsed_ns

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        if seconds < 0:
            raise ValueError(f"time does not pass backwards: advance({seconds}); use step_wall to set the wall clock back")
        ns = round(seconds * 1_000_000_000)
        self._wall_ns += ns
        self._elapsed_ns += ns

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone, forward or back; no time passes."""
        self._wall_ns += round(seconds * 1_000_000_000)
