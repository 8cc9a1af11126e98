"""Runs of offsets: sets of consecutive offsets as pairs (begin, end), half open.

In a ``repeated uint64`` field, a run is packed as two numbers: the distance of its begin from the
end of the previous run (from 0 for the first), and its number of offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from litemq.errors import InvalidArgumentError

__all__ = ["Run", "RunSet", "pack_runs", "unpack_runs"]

Run: TypeAlias = tuple[int, int]

_MAX_OFFSET: Final = (1 << 63) - 1


def pack_runs(runs: Iterable[Run]) -> list[int]:
    """Pack ascending runs that do not overlap for a protobuf field."""
    packed: list[int] = []
    reached = 0
    for begin, end in runs:
        packed += (begin - reached, end - begin)
        reached = end
    return packed


def unpack_runs(packed: Sequence[int]) -> list[Run]:
    """Unpack the result of ``pack_runs``. Raise ``InvalidArgumentError`` if it is invalid."""
    if len(packed) % 2:
        raise InvalidArgumentError(
            f"{len(packed)} numbers: a run is two, the distance from the previous run and its length"
        )
    runs: list[Run] = []
    reached = 0
    for distance, count in zip(packed[::2], packed[1::2], strict=True):
        begin = reached + distance
        reached = begin + count
        if not count or reached > _MAX_OFFSET:
            raise InvalidArgumentError(
                f"a run of {count} offsets from {begin}: it must have at least one and end below 2**63"
            )
        runs.append((begin, reached))
    return runs


class RunSet:
    """A set of offsets, stored as ascending runs that do not touch. Cheap for long runs."""

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
        """The end of the last run; 0 if the set is empty."""
        return self._ends[-1] if self._ends else 0

    def copy(self) -> RunSet:
        other = RunSet()
        other._begins, other._ends, other.count = self._begins.copy(), self._ends.copy(), self.count
        return other

    def first(self) -> Run | None:
        """Return the lowest run, if any."""
        return (self._begins[0], self._ends[0]) if self._begins else None

    def add(self, begin: int, end: int) -> None:
        """Add the offsets ``begin`` … ``end``."""
        begins, ends = self._begins, self._ends
        if begin >= end:
            return
        if not ends or begin > ends[-1]:
            begins.append(begin)
            ends.append(end)
            self.count += end - begin
            return
        first = bisect_left(ends, begin)  # runs first … after touch the new one
        after = bisect_right(begins, end)
        if first < after:
            begin, end = min(begin, begins[first]), max(end, ends[after - 1])
            self.count -= sum(ends[first:after]) - sum(begins[first:after])
        begins[first:after] = (begin,)
        ends[first:after] = (end,)
        self.count += end - begin

    def remove(self, begin: int, end: int) -> None:
        """Remove the offsets ``begin`` … ``end``, as far as they are in the set."""
        begins, ends = self._begins, self._ends
        first, after = bisect_right(ends, begin), bisect_left(begins, end)
        if begin >= end or first >= after:
            return
        left, right = (begins[first], begin), (end, ends[after - 1])
        rest = [run for run in (left, right) if run[0] < run[1]]
        self.count -= sum(ends[first:after]) - sum(begins[first:after]) - sum(e - b for b, e in rest)
        begins[first:after] = [run[0] for run in rest]
        ends[first:after] = [run[1] for run in rest]

    def within(self, begin: int, end: int) -> list[Run]:
        """Return the runs of ``begin`` … ``end`` that are in the set."""
        begins, ends = self._begins, self._ends
        first, after = bisect_right(ends, begin), bisect_left(begins, end)
        return [(max(begin, begins[at]), min(end, ends[at])) for at in range(first, after)] if begin < end else []

    def without(self, begin: int, end: int) -> list[Run]:
        """Return the runs of ``begin`` … ``end`` that are not in the set."""
        gaps: list[Run] = []
        for taken, until in self.within(begin, end):
            if begin < taken:
                gaps.append((begin, taken))
            begin = until
        if begin < end:
            gaps.append((begin, end))
        return gaps
