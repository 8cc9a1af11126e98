"""So many a second, and no more than a moment's worth at once."""

from __future__ import annotations

from typing import Final

__all__ = ["Pace"]

_SECOND_NS: Final = 1_000_000_000
_BURST_PARTS: Final = 10  # a tenth of a second's worth may go at once


class Pace:
    """A pure throttle: it is told what time it is."""

    def __init__(self, per_second: int, now_ns: int) -> None:
        """0 a second: as many as there are."""
        self._per_second = per_second
        self._burst = max(1, per_second // _BURST_PARTS)
        self._room = float(self._burst)
        self._at = now_ns

    def take(self, wanted: int, now_ns: int) -> int:
        """How many of those may go now."""
        if not self._per_second:
            return wanted
        passed, self._at = max(0, now_ns - self._at), max(now_ns, self._at)
        self._room = min(float(self._burst), self._room + passed * self._per_second / _SECOND_NS)
        taken = min(wanted, int(self._room))
        self._room -= taken
        return taken

    @property
    def wait_seconds(self) -> float:
        """How long until the next one may go."""
        return max(0.0, (1 - self._room) / self._per_second) if self._per_second else 0.0
