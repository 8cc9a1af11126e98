"""How many records wait for their time, and how large they are together. Which ones, their bucket files tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.proto.control_pb2 import Control, Row, TimerTotals
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.types import RecordKind

__all__ = ["PendingTotals", "TimersBegun", "TimersFired", "is_timer"]

Longs = npt.NDArray[np.int64]


class TimersBegun(NamedTuple):
    """Records that wait from now on, many at a time, in the order of the log; none of them takes the place of another."""

    log_offsets: Longs
    dues: Longs
    sizes: Longs


class TimersFired(NamedTuple):
    """Records that waited and are delivered, many at a time, in the order of the log: what says so, what waited, and when it was due at first."""

    log_offsets: Longs
    origins: Longs
    dues: Longs
    sizes: Longs


def is_timer(record: PlacedRecord) -> bool:
    """Whether a record waits for its due time. A copy that is kept for a group's next try has a count, and waits for that."""
    return record.kind is RecordKind.PENDING and record.consume_count == 0


class PendingTotals:
    """A part of the state: what is not delivered yet takes space, of which there is only so much."""

    def __init__(self, count: int = 0, size: int = 0) -> None:
        self.count = count
        self.bytes = size

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "timer_ended":
                return self._add(-1, -control.timer_ended.size)
            case "timers_ended":
                ended = control.timers_ended.timers
                return self._add(-len(ended), -sum(told.size for told in ended))
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Take in a record."""
        if is_timer(record) and record.origin < 0:  # one with an origin takes the place of another
            return self._add(1, record.size)
        return []

    def take(self, event: TimersBegun | TimersFired) -> list[Touch]:
        """Take in many records that begin to wait, or are delivered."""
        sign = 1 if isinstance(event, TimersBegun) else -1
        return self._add(sign * event.sizes.size, sign * int(event.sizes.sum()))

    def _add(self, count: int, size: int) -> list[Touch]:
        self.count = max(0, self.count + count)
        self.bytes = max(0, self.bytes + size) if self.count else 0  # a snapshot says nothing where nothing waits
        return [("timers",)]

    def row(self, touch: Touch) -> Row | None:
        """The totals as they are now."""
        return Row(timers=TimerTotals(count=self.count, bytes=self.bytes)) if touch[0] == "timers" else None

    def rows(self) -> Iterator[Row]:
        """The totals, unless nothing waits."""
        if self.count:
            yield Row(timers=TimerTotals(count=self.count, bytes=self.bytes))

    def put(self, row: Row) -> bool:
        """Take in the totals of a snapshot."""
        if not row.HasField("timers"):
            return False
        self.count, self.bytes = row.timers.count, row.timers.bytes
        return True

    def copy(self) -> PendingTotals:
        """As they are now."""
        return PendingTotals(self.count, self.bytes)
