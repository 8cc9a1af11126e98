"""The broker's clock: wall time without steps.

Time passes with ``CLOCK_BOOTTIME``, which cannot be set. If the wall clock differs, it was set or
it was wrong:

- If it is ahead for a minute, the broker's clock jumps by the smallest lead of that minute. A clock
  that is set wrong and then corrected fires nothing early.
- If it is behind, the broker's clock runs more slowly until both agree. It never runs back.
"""

from __future__ import annotations

import threading
from typing import Final

from litemq.clock import Clock

__all__ = ["BrokerClock"]

_MS: Final = 1_000_000
_TOLERANCE: Final = 2 * _MS  # the wall clock has whole milliseconds
_JUMP_AFTER: Final = 60 * 1_000_000_000
_SLOWER_BY: Final = 10  # runs slower by a tenth


class BrokerClock:
    """A ``Clock`` whose wall time never falls. Any thread may read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = clock.elapsed_ns()
        self._now = clock.wall_ms() * _MS  # at that moment
        self._ahead_since: int | None = None
        self._min_lead = 0

    def elapsed_ns(self) -> int:
        """Nanoseconds since some fixed moment."""
        return self._clock.elapsed_ns()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        with self._lock:
            at = self._clock.elapsed_ns()
            passed = max(0, at - self._read_at)
            self._read_at += passed
            self._now += passed
            lead = self._clock.wall_ms() * _MS - self._now
            if lead < -_TOLERANCE:
                self._now -= min(passed // _SLOWER_BY, -lead)
            self._follow_lead(lead, at)
            return self._now // _MS

    def _follow_lead(self, lead: int, at: int) -> None:
        """Track the smallest ``lead`` of the wall clock, and jump by it after a minute."""
        if lead <= _TOLERANCE:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since, self._min_lead = at, lead
        else:
            self._min_lead = min(self._min_lead, lead)
            if at - self._ahead_since >= _JUMP_AFTER:
                self._now += self._min_lead
                self._ahead_since = None
