"""The circuit breaker of one broker: while most sends fail or are slow, new sends avoid it.

A state machine without I/O; callers pass the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["BreakerSettings", "BreakerState", "CircuitBreaker"]


class BreakerState(Enum):
    """The state of a circuit breaker.

    Closed: all sends pass. Open: no new sends; earlier ones are retried. Half-open: one probe
    decides.
    """

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When the breaker opens, and for how long; durations are seconds."""

    window: float = 10.0
    min_requests: int = 10
    failure_share: float = 0.5
    latency: float = 1.0
    open_for: float = 30.0


class CircuitBreaker:
    """Collects the outcomes of requests, and decides whether new ones may go.

    ``now`` is a monotonic time.
    """

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
        self.is_closed = True  # read for each message, and cheaper than ``state``
        self.latency = 0.0  # of recent requests, smoothed
        self._opened_at = 0.0
        self._probing = False
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._began = now
        self._successes = self._failures = 0
        self._latency_sum = 0.0

    def may_send(self, now: float) -> bool:
        """Return whether a new send may go to this broker.

        In the half-open state, the first send allowed is the probe.
        """
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.OPEN and now - self._opened_at >= self._settings.open_for:
            self.state, self._probing = BreakerState.HALF_OPEN, False
        if self.state is BreakerState.HALF_OPEN and not self._probing:
            self._probing = True
            return True
        return False

    def succeeded(self, latency: float, now: float, requests: int = 1) -> None:
        """Record ``requests`` answers, with an average ``latency`` in seconds."""
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
            # A probe or a retried older send succeeded: the broker works again.
            self.state, self.is_closed = BreakerState.CLOSED, True
            self._begin(now)

    def failed(self, now: float) -> None:
        """Record a request that was lost, or refused by an overloaded broker."""
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
        if self.state is not BreakerState.CLOSED or requests < settings.min_requests:
            return
        too_slow = self._successes > 0 and self._latency_sum / self._successes > settings.latency
        if too_slow or self._failures > requests * settings.failure_share:
            self._open(now)

    def _open(self, now: float) -> None:
        self.state, self.is_closed, self._opened_at, self._probing = BreakerState.OPEN, False, now, False
        self._begin(now)
