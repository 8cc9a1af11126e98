"""Timers that fire at another time than their record says: when that is, by the log offset of the record that waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from litemq.proto.control_pb2 import Control, Row
from litemq.proto.control_pb2 import MovedTimer as MovedRow
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.storage.state.timers.pending_totals import TimersFired, is_timer

__all__ = ["Moved", "MovedTimers"]


class Moved(NamedTuple):
    """When a timer fires (ms), and the size of its record."""

    due: int
    size: int


class MovedTimers:
    """A part of the state. What is among them waits: it is forgotten when it fires or ends, and handed on when the record is carried forward."""

    def __init__(self) -> None:
        self._of: dict[int, Moved] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[tuple[int, Moved]]:
        return iter(self._of.items())

    def get(self, pending: int) -> Moved | None:
        """When a timer fires, if that was changed."""
        return self._of.get(pending)

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "timer_moved":
                told = control.timer_moved
                self._of[told.pending] = Moved(told.due, told.size)
                return [("moved timer", told.pending)]
            case "timer_ended":
                return self._forget(control.timer_ended.pending)
            case "timers_ended" if self._of:
                return [touch for told in control.timers_ended.timers for touch in self._forget(told.pending)]
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Take in a record that may be the new place of what waits."""
        moved = self._of.get(record.origin)
        if moved is not None and is_timer(record):
            self._of[record.log_offset] = Moved(moved.due, record.size)
            return [("moved timer", record.log_offset), *self._forget(record.origin)]
        return []

    def fired(self, event: TimersFired) -> list[Touch]:
        """Take in many records that are delivered."""
        return [touch for pending in event.origins.tolist() for touch in self._forget(pending)] if self._of else []

    def _forget(self, pending: int) -> list[Touch]:
        return [] if self._of.pop(pending, None) is None else [("moved timer", pending)]

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("moved timer", int(pending)):
                return self._row(pending)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        return map(self._row, sorted(self._of))

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("moved_timer"):
            return False
        self._of[row.moved_timer.pending] = Moved(row.moved_timer.due, row.moved_timer.size)
        return True

    def copy(self) -> MovedTimers:
        """As it is now."""
        other = MovedTimers()
        other._of = dict(self._of)
        return other

    def _row(self, pending: int) -> Row:
        moved = self._of.get(pending)
        if moved is None:
            return Row(moved_timer=MovedRow(pending=pending, gone=True))
        return Row(moved_timer=MovedRow(pending=pending, due=moved.due, size=moved.size))
