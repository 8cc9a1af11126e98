"""Runs of offsets: how many messages are told in a few numbers.

A run is a pair (begin, end), half open. In a schema's ``repeated uint64`` runs are packed as pairs: how far a run begins behind the end of
the one before it (of the first: the offset itself), and how many offsets it has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from litemq.errors import InvalidArgumentError

__all__ = ["Run", "RunSet", "pack_runs", "unpack_runs"]

Run: TypeAlias = tuple[int, int]

_MOST: Final = (1 << 63) - 1


def pack_runs(runs: Iterable[Run]) -> list[int]:
    """Runs that rise and do not overlap, as a schema has them."""
    packed: list[int] = []
    reached = 0
    for begin, end in runs:
        packed += (begin - reached, end - begin)
        reached = end
    return packed


def unpack_runs(packed: Sequence[int]) -> list[Run]:
    """Runs as ``pack_runs`` packed them; raises where that cannot be."""
    if len(packed) % 2:
        raise InvalidArgumentError(f"{len(packed)} numbers are no runs: each is two, the distance from the one before it and how many")
    runs: list[Run] = []
    reached = 0
    for distance, count in zip(packed[::2], packed[1::2], strict=True):
        begin = reached + distance
        reached = begin + count
        if not count or reached > _MOST:
            raise InvalidArgumentError(f"a run of {count} offsets from {begin} on: it has at least one, and ends below 2**63")
        runs.append((begin, reached))
    return runs


class RunSet:
    """Offsets, as runs that rise and do not touch. Cheap where offsets come in long runs, and at either end."""

    __slots__ = ("_begins", "_ends", "count")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self.count = 0  # of offsets
        for begin, end in runs:
            self.add(begin, end)

    def __iter__(self) -> Iterator[Run]:
        return zip(self._begins, self._ends, strict=True)

    def __bool__(self) -> bool:
        return bool(self._begins)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSet) and self._begins == other._begins and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RunSet({list(self)})"

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._begins, offset)
        return at > 0 and offset < self._ends[at - 1]

    @property
    def end(self) -> int:
        """Behind the last offset; 0 where there is none."""
        return self._ends[-1] if self._ends else 0

    def copy(self) -> RunSet:
        other = RunSet()
        other._begins, other._ends, other.count = self._begins.copy(), self._ends.copy(), self.count
        return other

    def first(self) -> Run | None:
        """The lowest run."""
        return (self._begins[0], self._ends[0]) if self._begins else None

    def add(self, begin: int, end: int) -> None:
        """These offsets, too."""
        begins, ends = self._begins, self._ends
        if begin >= end:
            return
        if not ends or begin > ends[-1]:
            begins.append(begin)
            ends.append(end)
            self.count += end - begin
            return
        first = bisect_left(ends, begin)  # the first run that reaches to it, and the first that is beyond
        behind = bisect_right(begins, end)
        if first < behind:
            begin, end = min(begin, begins[first]), max(end, ends[behind - 1])
            self.count -= sum(ends[first:behind]) - sum(begins[first:behind])
        begins[first:behind] = (begin,)
        ends[first:behind] = (end,)
        self.count += end - begin

    def remove(self, begin: int, end: int) -> None:
        """Not these offsets any more; those that are not there are no matter."""
        begins, ends = self._begins, self._ends
        first, behind = bisect_right(ends, begin), bisect_left(begins, end)
        if begin >= end or first >= behind:
            return
        left, right = (begins[first], begin), (end, ends[behind - 1])
        rest = [run for run in (left, right) if run[0] < run[1]]
        self.count -= sum(ends[first:behind]) - sum(begins[first:behind]) - sum(e - b for b, e in rest)
        begins[first:behind] = [run[0] for run in rest]
        ends[first:behind] = [run[1] for run in rest]

    def within(self, begin: int, end: int) -> list[Run]:
        """What of ``begin … end`` is there."""
        begins, ends = self._begins, self._ends
        first, behind = bisect_right(ends, begin), bisect_left(begins, end)
        return [(max(begin, begins[at]), min(end, ends[at])) for at in range(first, behind)] if begin < end else []

    def without(self, begin: int, end: int) -> list[Run]:
        """What of ``begin … end`` is not there."""
        gaps: list[Run] = []
        for taken, until in self.within(begin, end):
            if begin < taken:
                gaps.append((begin, taken))
            begin = until
        if begin < end:
            gaps.append((begin, end))
        return gaps
