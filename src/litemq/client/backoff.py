"""Exponential backoff between retries."""

from __future__ import annotations

import random

__all__ = ["Backoff"]


class Backoff:
    """A delay that doubles with each failure, from ``first_ms`` to ``max_ms``, plus jitter."""

    __slots__ = ("_failures", "_first", "_max")

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._first = first_ms / 1000
        self._max = max_ms / 1000
        self._failures = 0

    def next_delay(self, min_ms: int = 0) -> float:
        """Count a failure, and return the seconds to wait: at least ``min_ms``."""
        wait = min(self._first * (1 << min(self._failures, 30)), self._max)
        self._failures += 1
        return max(wait, min_ms / 1000) * random.uniform(1.0, 1.25)  # noqa: S311  spreads load, keeps no secret

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self._failures = 0
