"""The circuit breaker of one broker: when most sends to it fail, or take too long, new ones go elsewhere for a while. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["BreakerSettings", "BreakerState", "CircuitBreaker"]


class BreakerState(Enum):
    """Closed: all may pass. Open: no new ones; those that were taken before are tried on. Half-open: one, which decides."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When it opens, and for how long; in seconds."""

    window: float = 10.0
    least_requests: int = 10
    failure_share: float = 0.5
    latency: float = 1.0
    open_for: float = 30.0


class CircuitBreaker:
    """Is told how requests ended, and says whether new ones may go. ``now`` is any clock that never falls."""

    __slots__ = (
        "_began",
        "_failures",
        "_latency_sum",
        "_opened_at",
        "_probing",
        "_settings",
        "_successes",
        "is_closed",
        "latency",
        "state",
    )

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self.state = BreakerState.CLOSED
        self.is_closed = True  # all is well: asked for each message, and cheaper than the state
        self.latency = 0.0  # of the last requests, smoothed
        self._opened_at = 0.0
        self._probing = False
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._began = now
        self._successes = self._failures = 0
        self._latency_sum = 0.0

    def may_send(self, now: float) -> bool:
        """Whether a new send may go to this broker. In the half-open state the one that is told so is the probe."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.OPEN and now - self._opened_at >= self._settings.open_for:
            self.state, self._probing = BreakerState.HALF_OPEN, False
        if self.state is BreakerState.HALF_OPEN and not self._probing:
            self._probing = True
            return True
        return False

    def succeeded(self, latency: float, now: float, requests: int = 1) -> None:
        """So many requests were answered, after so many seconds each."""
        self.latency += (latency - self.latency) * 0.3
        if now - self._began > self._settings.window:
            self._begin(now)
        self._successes += requests
        self._latency_sum += latency * requests
        if latency > self._settings.latency:
            if self.state is BreakerState.HALF_OPEN:
                self._open(now)
            else:
                self._judge(now)
        elif self.state is not BreakerState.CLOSED:
            # A probe, or an older send that was tried again and got through: either way the broker is well.
            self.state, self.is_closed = BreakerState.CLOSED, True
            self._begin(now)

    def failed(self, now: float) -> None:
        """A request was lost, or refused by a broker that has too much to do."""
        if now - self._began > self._settings.window:
            self._begin(now)
        self._failures += 1
        if self.state is BreakerState.HALF_OPEN:
            self._open(now)
        else:
            self._judge(now)

    def _judge(self, now: float) -> None:
        settings = self._settings
        requests = self._successes + self._failures
        if self.state is not BreakerState.CLOSED or requests < settings.least_requests:
            return
        too_slow = self._successes > 0 and self._latency_sum / self._successes > settings.latency
        if too_slow or self._failures > requests * settings.failure_share:
            self._open(now)

    def _open(self, now: float) -> None:
        self.state, self.is_closed, self._opened_at, self._probing = BreakerState.OPEN, False, now, False
        self._begin(now)
