"""The work that rebalancing may cost the event loop: a bucket of queues and members.

Many members that join or leave at once would otherwise occupy the event loop for seconds: each
change computes the whole assignment.
"""

from __future__ import annotations

from typing import Final

from litemq.clock import Clock

__all__ = ["RebalanceBudget"]

# One queue or member takes about 0.6 µs. So a burst occupies the event loop for 40 ms, and what
# follows for a sixth of the time.
_BURST: Final = 65_536
_PER_SECOND: Final = 262_144


class RebalanceBudget:
    """Allows work while the bucket is not empty; the last work taken may be larger than the rest.

    Work of any size is done sooner or later.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = float(_BURST)
        self._at_ns = clock.elapsed_ns()

    def take(self, work: int) -> bool:
        """Take ``work`` from the bucket; return False if it is empty."""
        self._refill()
        if self._left <= 0:
            return False
        self._left -= work
        return True

    def wait_ns(self) -> int:
        """Return the time until the bucket is not empty."""
        self._refill()
        return max(0, int(-self._left * 1e9 / _PER_SECOND) + 1)

    def _refill(self) -> None:
        now_ns = self._clock.elapsed_ns()
        self._left = min(float(_BURST), self._left + (now_ns - self._at_ns) * _PER_SECOND / 1e9)
        self._at_ns = now_ns
