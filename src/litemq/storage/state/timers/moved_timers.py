"""Rescheduled timers, a part of the state: due times that differ from the record's delay time.

Keyed by *pending*, the log offset of the record that waits. The latest of those that were delivered
or cancelled are kept, to show when they were due.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, NamedTuple

from litemq.proto.control_pb2 import Control, Row
from litemq.proto.control_pb2 import MovedTimer as MovedRow
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.timers.pending_totals import TimersFired, is_timer

__all__ = ["Moved", "MovedTimers"]

_KEPT_ENDED: Final = 10_000


class Moved(NamedTuple):
    """The due time of a rescheduled timer (ms), and the size of its record."""

    due: int
    size: int


class MovedTimers:
    """All rescheduled timers that have not ended, and the latest that have.

    If retention carries a record forward, its entry moves to the copy.
    """

    def __init__(self) -> None:
        self._timers: dict[int, Moved] = {}
        self._ended: dict[int, Moved] = {}
        self._ended_order: list[int] = []  # sorted: which ones are kept does not depend on when they ended

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[tuple[int, Moved]]:
        return iter(self._timers.items())

    def get(self, pending: int) -> Moved | None:
        """Return the new due time of a timer, or ``None`` if it was not rescheduled."""
        return self._timers.get(pending)

    def due_of(self, pending: int) -> int | None:
        """Return the new due time of a timer that may have ended; ``None``: not known."""
        moved = self._timers.get(pending) or self._ended.get(pending)
        return None if moved is None else moved.due

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "timer_moved":
                moved = control.timer_moved
                self._timers[moved.pending] = Moved(moved.due, moved.size)
                if self._ended.pop(moved.pending, None) is not None:  # no broker writes that; a row is unique
                    self._ended_order.remove(moved.pending)
                return [("moved timer", moved.pending)]
            case "timer_ended":
                return self._end(control.timer_ended.pending)
            case "timers_ended" if self._timers:
                return [touch for ended in control.timers_ended.timers for touch in self._end(ended.pending)]
            case "retention_crossed" if self._ended_order:
                below = bisect_left(self._ended_order, control.retention_crossed.log_start)
                return self._forget_ended(below)
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Apply the carried copy of a timer; ignore all other records."""
        moved = self._timers.get(record.origin)
        if moved is not None and is_timer(record):
            self._timers[record.log_offset] = Moved(moved.due, record.size)
            del self._timers[record.origin]
            return [("moved timer", record.log_offset), ("moved timer", record.origin)]
        return []

    def apply_fired(self, event: TimersFired) -> list[Touch]:
        """End the timers that fired and return the rows this touches."""
        return [touch for pending in event.origins.tolist() for touch in self._end(pending)] if self._timers else []

    def _end(self, pending: int) -> list[Touch]:
        moved = self._timers.pop(pending, None)
        if moved is None:
            return []
        self._keep_ended(pending, moved)
        return [("moved timer", pending), *self._forget_ended(len(self._ended_order) - _KEPT_ENDED)]

    def _keep_ended(self, pending: int, moved: Moved) -> None:
        if pending not in self._ended:
            insort(self._ended_order, pending)
        self._ended[pending] = moved

    def _forget_ended(self, count: int) -> list[Touch]:
        """Forget the oldest ``count`` timers that have ended."""
        if count <= 0:
            return []
        forgotten = self._ended_order[:count]
        del self._ended_order[:count]
        for pending in forgotten:
            del self._ended[pending]
        return [("moved timer", pending) for pending in forgotten]

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("moved timer", int(pending)):
                return self._row(pending)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        return map(self._row, sorted([*self._timers, *self._ended]))

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("moved_timer"):
            return False
        moved = Moved(row.moved_timer.due, row.moved_timer.size)
        if row.moved_timer.ended:
            self._keep_ended(row.moved_timer.pending, moved)
        else:
            self._timers[row.moved_timer.pending] = moved
        return True

    def copy(self) -> MovedTimers:
        """Return an independent copy."""
        other = MovedTimers()
        other._timers = dict(self._timers)
        other._ended, other._ended_order = dict(self._ended), self._ended_order.copy()
        return other

    def _row(self, pending: int) -> Row:
        moved = self._timers.get(pending)
        if moved is not None:
            return Row(moved_timer=MovedRow(pending=pending, due=moved.due, size=moved.size))
        ended = self._ended.get(pending)
        if ended is not None:
            return Row(moved_timer=MovedRow(pending=pending, due=ended.due, size=ended.size, ended=True))
        return Row(moved_timer=MovedRow(pending=pending, gone=True))
