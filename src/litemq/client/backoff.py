"""How long to wait before trying again."""

from __future__ import annotations

import random

__all__ = ["Backoff"]


class Backoff:
    """Doubles with each failure up to a limit, a little at random so that clients do not come back all at once."""

    __slots__ = ("_failures", "_first", "_most")

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first = first_ms / 1000
        self._most = most_ms / 1000
        self._failures = 0

    def next(self, at_least_ms: int = 0) -> float:
        """Seconds to wait after one more failure, and no less than the other side asked for."""
        wait = min(self._first * (1 << min(self._failures, 30)), self._most)
        self._failures += 1
        return max(wait, at_least_ms / 1000) * random.uniform(1.0, 1.25)  # noqa: S311  spreads load, keeps no secret

    def reset(self) -> None:
        """It worked."""
        self._failures = 0
