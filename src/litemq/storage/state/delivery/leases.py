"""The leases of one group in one queue, as runs of offsets.

A lease is kept until its messages are settled, even after its deadline, because it holds the
number of delivery attempts. Adjacent leases that differ only in their offsets are merged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Lease", "Leases"]


class Lease(NamedTuple):
    """Messages that were leased together. If they were released, token and deadline are 0."""

    begin: int
    end: int
    token: int
    deadline: int  # ms
    tries: int  # the number of this attempt


class Leases:
    """Leases sorted by offset. They never overlap."""

    __slots__ = ("_begins", "_leases")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._leases: list[Lease] = []

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases)

    def __bool__(self) -> bool:
        return bool(self._leases)

    @property
    def end(self) -> int:
        """The offset after the last lease; 0 if there is none."""
        return self._leases[-1].end if self._leases else 0

    def copy(self) -> Leases:
        other = Leases()
        other._begins, other._leases = self._begins.copy(), self._leases.copy()
        return other

    def within(self, begin: int, end: int) -> list[Lease]:
        """Return the leases in the range ``begin … end``, clipped to it."""
        first, stop = self._span(begin, end)
        found = self._leases[first:stop]
        if found and found[0].begin < begin:
            found[0] = found[0]._replace(begin=begin)
        if found and found[-1].end > end:
            found[-1] = found[-1]._replace(end=end)
        return found

    def _span(self, begin: int, end: int) -> tuple[int, int]:
        begins = self._begins
        first = bisect_right(begins, begin)
        if first and self._leases[first - 1].end > begin:
            first -= 1
        return first, max(first, bisect_left(begins, end))

    def remove(self, begin: int, end: int) -> None:
        """Forget the leases in the range ``begin … end``."""
        self._replace(begin, end, [])

    def put(self, lease: Lease) -> None:
        """Add ``lease``; it replaces any other lease of its messages."""
        leases = self._leases
        if leases and leases[-1].end < lease.begin:
            self._begins.append(lease.begin)
            leases.append(lease)
        else:
            self._replace(lease.begin, lease.end, [lease])

    def _replace(self, begin: int, end: int, middle: list[Lease]) -> None:
        first, stop = self._span(begin, end)
        old = self._leases[first:stop]
        if old and old[0].begin < begin:
            middle.insert(0, old[0]._replace(end=begin))
        if old and old[-1].end > end:
            middle.append(old[-1]._replace(begin=end))
        # Include the neighbours, so that they can be merged.
        if first and (not middle or self._leases[first - 1].end == middle[0].begin):
            first -= 1
            middle.insert(0, self._leases[first])
        if stop < len(self._leases) and middle and middle[-1].end == self._leases[stop].begin:
            middle.append(self._leases[stop])
            stop += 1
        joined = _join(middle)
        self._begins[first:stop] = [lease.begin for lease in joined]
        self._leases[first:stop] = joined


def _join(leases: list[Lease]) -> list[Lease]:
    joined: list[Lease] = []
    for lease in leases:
        if joined and joined[-1].end == lease.begin and joined[-1][2:] == lease[2:]:
            joined[-1] = joined[-1]._replace(end=lease.end)
        else:
            joined.append(lease)
    return joined
