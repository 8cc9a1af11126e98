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
_SAME: Final = 2 * _MS  # the wall clock tells whole milliseconds
_BELIEVED_AFTER: Final = 60 * 1_000_000_000
_SLOWER_BY: Final = 10  # a tenth


class BrokerClock:
    """A ``Clock`` whose wall time never falls. Any thread may read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asking = threading.Lock()
        self._asked_at = clock.elapsed_ns()
        self._now = clock.wall_ms() * _MS  # at that moment
        self._ahead_since: int | None = None
        self._least_lead = 0

    def elapsed_ns(self) -> int:
        """Nanoseconds since some fixed moment."""
        return self._clock.elapsed_ns()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        with self._asking:
            at = self._clock.elapsed_ns()
            passed = max(0, at - self._asked_at)
            self._asked_at += passed
            self._now += passed
            lead = self._clock.wall_ms() * _MS - self._now
            if lead < -_SAME:
                self._now -= min(passed // _SLOWER_BY, -lead)
            self._weigh(lead, at)
            return self._now // _MS

    def _weigh(self, lead: int, at: int) -> None:
        """Track the smallest ``lead`` of the wall clock, and jump by it after a minute."""
        if lead <= _SAME:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since, self._least_lead = at, lead
        else:
            self._least_lead = min(self._least_lead, lead)
            if at - self._ahead_since >= _BELIEVED_AFTER:
                self._now += self._least_lead
                self._ahead_since = None
