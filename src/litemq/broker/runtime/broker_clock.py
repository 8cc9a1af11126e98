"""A broker's time: the wall clock's, without its steps.

Time passes as ``CLOCK_BOOTTIME`` says, which no one can set. When the wall clock says something else, somebody has set it, or it was wrong:

- ahead: believed once it has been ahead for a minute, and only as far as it was ahead all that time. A clock that is set wrong and set right again
  fires nothing early.
- behind: time passes more slowly until the two meet. It never goes back.
"""

from __future__ import annotations

import threading
from typing import Final

from litemq.clock import Clock

__all__ = ["BrokerTime"]

_MS: Final = 1_000_000
_SAME: Final = 2 * _MS  # the wall clock tells whole milliseconds
_BELIEVED_AFTER: Final = 60 * 1_000_000_000
_SLOWER_BY: Final = 10  # a tenth


class BrokerTime:
    """A ``Clock`` whose wall time never falls, and jumps only to where the wall clock has been for a while. Any thread may ask."""

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
        """Milliseconds since 1970, as this broker goes by."""
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
        """See for how long the wall clock has been ahead, and how far at least; believe that in the end."""
        if lead <= _SAME:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since, self._least_lead = at, lead
        else:
            self._least_lead = min(self._least_lead, lead)
            if at - self._ahead_since >= _BELIEVED_AFTER:
                self._now += self._least_lead
                self._ahead_since = None
