"""Rescheduled timers, a part of the state: due times that differ from the record's delay time.

Keyed by *pending*, the log offset of the record that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from litemq.proto.control_pb2 import Control, Row
from litemq.proto.control_pb2 import MovedTimer as MovedRow
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.timers.pending_totals import TimersFired, is_timer

__all__ = ["Moved", "MovedTimers"]


class Moved(NamedTuple):
    """The due time of a rescheduled timer (ms), and the size of its record."""

    due: int
    size: int


class MovedTimers:
    """All rescheduled timers that have not ended.

    If retention carries a record forward, its entry moves to the copy.
    """

    def __init__(self) -> None:
        self._timers: dict[int, Moved] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[tuple[int, Moved]]:
        return iter(self._timers.items())

    def get(self, pending: int) -> Moved | None:
        """Return the new due time of a timer, or ``None`` if it was not rescheduled."""
        return self._timers.get(pending)

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "timer_moved":
                moved = control.timer_moved
                self._timers[moved.pending] = Moved(moved.due, moved.size)
                return [("moved timer", moved.pending)]
            case "timer_ended":
                return self._forget(control.timer_ended.pending)
            case "timers_ended" if self._timers:
                return [touch for ended in control.timers_ended.timers for touch in self._forget(ended.pending)]
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Apply the carried copy of a timer; ignore all other records."""
        moved = self._timers.get(record.origin)
        if moved is not None and is_timer(record):
            self._timers[record.log_offset] = Moved(moved.due, record.size)
            return [("moved timer", record.log_offset), *self._forget(record.origin)]
        return []

    def apply_fired(self, event: TimersFired) -> list[Touch]:
        """Forget the timers that fired and return the rows this touches."""
        return [touch for pending in event.origins.tolist() for touch in self._forget(pending)] if self._timers else []

    def _forget(self, pending: int) -> list[Touch]:
        return [] if self._timers.pop(pending, None) is None else [("moved timer", pending)]

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("moved timer", int(pending)):
                return self._row(pending)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        return map(self._row, sorted(self._timers))

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("moved_timer"):
            return False
        self._timers[row.moved_timer.pending] = Moved(row.moved_timer.due, row.moved_timer.size)
        return True

    def copy(self) -> MovedTimers:
        """Return an independent copy."""
        other = MovedTimers()
        other._timers = dict(self._timers)
        return other

    def _row(self, pending: int) -> Row:
        moved = self._timers.get(pending)
        if moved is None:
            return Row(moved_timer=MovedRow(pending=pending, gone=True))
        return Row(moved_timer=MovedRow(pending=pending, due=moved.due, size=moved.size))
