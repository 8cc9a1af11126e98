"""The clock of a log, which never runs back, also if another broker has written the log before.

Records have the time of this clock. So have the ends of leases, the times of retries and the checks
of transactions, which are in the log: what it says to be due in a minute is due in about a minute,
whatever the wall clock says by then. If the log has later times than the wall clock, this clock
continues from them, and runs more slowly until the wall clock has caught up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from litemq.clock import Clock

__all__ = ["LogClock"]

_MS: Final = 1_000_000
_SLOWER_BY: Final = 10  # runs slower by a tenth


class LogClock:
    """A ``Clock`` that is never behind ``wall`` nor behind the last record. Any thread may read it.

    ``last_ms`` returns the time of the last record.
    """

    def __init__(self, wall: Clock, last_ms: Callable[[], int]) -> None:
        self._wall = wall
        self._last_ms = last_ms
        self._lock = threading.Lock()
        self._read_at = wall.elapsed_ns()
        self._now = 0  # at that moment

    def elapsed_ns(self) -> int:
        """Return nanoseconds since a fixed moment."""
        return self._wall.elapsed_ns()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        with self._lock:
            passed = max(0, self._wall.elapsed_ns() - self._read_at)
            self._read_at += passed
            slowly = self._now + passed - passed // _SLOWER_BY
            self._now = max(slowly, self._wall.wall_ms() * _MS, self._last_ms() * _MS)
            return self._now // _MS
