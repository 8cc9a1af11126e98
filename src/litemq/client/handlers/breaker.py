"""The circuit breaker of one handler: if most calls fail, it pauses, then probes with one call.

No I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from litemq.errors import InvalidArgumentError

__all__ = ["BreakerPeriod", "FailureLimits", "HandlerBreaker", "HandlerState"]


class HandlerState(Enum):
    """Running: messages are handled.

    Paused: none is taken. Probing: one is handled, and its outcome decides.
    """

    RUNNING = "running"
    PAUSED = "paused"
    PROBING = "probing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLimits:
    """When a handler is paused, and for how long. Durations are in seconds."""

    failure_share: float = 0.8  # paused above this share of failed calls
    window: float = 60.0
    least_calls: int = 10  # fewer calls in the window are ignored
    pause: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.failure_share < 1:
            raise InvalidArgumentError(f"failure_share={self.failure_share!r}: choose a share from 0 to below 1")
        if self.window <= 0 or self.pause <= 0 or self.least_calls < 1:
            raise InvalidArgumentError(
                f"window={self.window!r}, pause={self.pause!r}, least_calls={self.least_calls!r}: "
                "choose more than 0 for each"
            )


BreakerPeriod = int  # the period of one state; a call that ends in another period is ignored


class HandlerBreaker:
    """Counts the outcomes of calls and decides when the next may begin.

    ``now`` is a monotonic time in seconds.
    """

    __slots__ = ("_began", "_calls", "_failures", "_limits", "_paused_at", "_period", "_probing", "state")

    def __init__(self, limits: FailureLimits | None = None) -> None:
        self._limits = limits or FailureLimits()
        self.state = HandlerState.RUNNING
        self._period: BreakerPeriod = 0
        self._paused_at = 0.0
        self._probing = False
        self._count_from(0.0)

    def _count_from(self, now: float) -> None:
        self._began, self._calls, self._failures = now, 0, 0

    def wait(self, now: float) -> float | None:
        """Return the seconds until a call may begin: 0 for now, ``None`` while the probe runs."""
        if self.state is HandlerState.PAUSED:
            left = self._paused_at + self._limits.pause - now
            if left > 0:
                return left
            self._enter(HandlerState.PROBING)
        return None if self._probing else 0.0

    def begin(self) -> BreakerPeriod:
        """Begin a call that ``wait`` allowed; return its period."""
        self._probing = self.state is HandlerState.PROBING
        return self._period

    def succeeded(self, period: BreakerPeriod, now: float) -> None:
        """End a call that succeeded."""
        if period == self._period:
            if self.state is HandlerState.PROBING:
                self._enter(HandlerState.RUNNING)
                self._count_from(now)
            self._count(now)

    def failed(self, period: BreakerPeriod, now: float) -> None:
        """End a call that failed, for a reason other than its message."""
        if period != self._period or self.state is HandlerState.PAUSED:
            return
        self._count(now)
        self._failures += 1
        enough = self._calls >= self._limits.least_calls and self._failures > self._calls * self._limits.failure_share
        if self.state is HandlerState.PROBING or enough:
            self._paused_at = now
            self._enter(HandlerState.PAUSED)

    def forget(self, period: BreakerPeriod) -> None:
        """End a call that says nothing about the handler. If it was the probe, the next call is."""
        if period == self._period:
            self._probing = False

    def _count(self, now: float) -> None:
        if now - self._began > self._limits.window:
            self._count_from(now)
        self._calls += 1

    def _enter(self, state: HandlerState) -> None:
        self.state, self._probing = state, False
        self._period += 1
