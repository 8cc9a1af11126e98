"""Who has which messages of a queue, and how often each was given out: leases in runs, sorted by offset.

A lease is kept until its messages are settled, even after its time: by it the next one knows how often they were tried. Neighbours that
differ in nothing but their offsets are one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Lease", "Leases"]


class Lease(NamedTuple):
    """Messages that were given out together. Token and deadline are 0 where they were given back."""

    begin: int
    end: int
    token: int
    deadline: int  # ms
    tries: int  # which try this is


class Leases:
    """Those of one group in one queue, none overlapping another."""

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
        """Behind the last offset; 0 where there is none."""
        return self._leases[-1].end if self._leases else 0

    def copy(self) -> Leases:
        other = Leases()
        other._begins, other._leases = self._begins.copy(), self._leases.copy()
        return other

    def within(self, begin: int, end: int) -> list[Lease]:
        """The leases of ``begin … end``, cut to it."""
        first, behind = self._span(begin, end)
        found = self._leases[first:behind]
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
        """Nobody has these messages, or ever had them."""
        self._replace(begin, end, [])

    def put(self, lease: Lease) -> None:
        """Its messages are under this lease now, whatever they were under before."""
        leases = self._leases
        if leases and leases[-1].end < lease.begin:
            self._begins.append(lease.begin)
            leases.append(lease)
        else:
            self._replace(lease.begin, lease.end, [lease])

    def _replace(self, begin: int, end: int, middle: list[Lease]) -> None:
        first, behind = self._span(begin, end)
        old = self._leases[first:behind]
        if old and old[0].begin < begin:
            middle.insert(0, old[0]._replace(end=begin))
        if old and old[-1].end > end:
            middle.append(old[-1]._replace(begin=end))
        # What stands beside may be of the same lease.
        if first and (not middle or self._leases[first - 1].end == middle[0].begin):
            first -= 1
            middle.insert(0, self._leases[first])
        if behind < len(self._leases) and middle and middle[-1].end == self._leases[behind].begin:
            middle.append(self._leases[behind])
            behind += 1
        joined = _join(middle)
        self._begins[first:behind] = [lease.begin for lease in joined]
        self._leases[first:behind] = joined


def _join(leases: list[Lease]) -> list[Lease]:
    joined: list[Lease] = []
    for lease in leases:
        if joined and joined[-1].end == lease.begin and joined[-1][2:] == lease[2:]:
            joined[-1] = joined[-1]._replace(end=lease.end)
        else:
            joined.append(lease)
    return joined
