"""A token bucket: a rate limit that allows a burst."""

from __future__ import annotations

from typing import Final

__all__ = ["Throttle"]

_SECOND_NS: Final = 1_000_000_000


class Throttle:
    """Refills at ``per_second`` up to ``burst`` tokens. Pure: the caller passes the time.

    A caller may subtract more from ``tokens`` than there are. It then waits until they are
    refilled.
    """

    __slots__ = ("_burst", "_per_second", "_refilled_ns", "tokens")

    def __init__(self, per_second: int, burst: float, now_ns: int) -> None:
        """The bucket is full at ``now_ns``. If ``per_second`` is 0, there is no limit."""
        self._per_second = per_second
        self._burst = burst
        self._refilled_ns = now_ns
        self.tokens = float(burst)

    def wait_seconds(self, tokens: int, now_ns: int) -> float:
        """Refill, and return the time until there are ``tokens``; 0 if there are."""
        per_second = self._per_second
        if not per_second:
            return 0.0
        if now_ns > self._refilled_ns:
            refilled = self.tokens + (now_ns - self._refilled_ns) * per_second / _SECOND_NS
            self.tokens = min(self._burst, refilled)
            self._refilled_ns = now_ns
        missing = tokens - self.tokens
        return missing / per_second if missing > 0 else 0.0

    def take(self, wanted: int, now_ns: int) -> int:
        """Take up to ``wanted`` tokens, as many as there are; return their number."""
        if not self._per_second:
            return wanted
        if self.wait_seconds(1, now_ns):
            return 0
        taken = min(wanted, int(self.tokens))
        self.tokens -= taken
        return taken
