"""The number and the total size of all timers, a part of the state.

The timers themselves are listed in the bucket files of ``storage.timers``.
"""

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
    """New timers, in the order of the log. None of them is a carried copy."""

    log_offsets: Longs
    dues: Longs
    sizes: Longs


class TimersFired(NamedTuple):
    """Timers that fired, in the order of the log."""

    log_offsets: Longs  # of the delivered records
    origins: Longs  # log offsets of the pending records
    dues: Longs  # the original due times
    sizes: Longs


def is_timer(record: PlacedRecord) -> bool:
    """Return whether ``record`` is a timer.

    A carried copy of a message that waits for its retry is also pending, but has a count.
    """
    return record.kind is RecordKind.PENDING and record.consume_count == 0


class PendingTotals:
    """The totals, which the broker compares with the disk budget for delayed messages."""

    def __init__(self, count: int = 0, size: int = 0) -> None:
        self.count = count
        self.bytes = size

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "timer_ended":
                return self._add(-1, -control.timer_ended.size)
            case "timers_ended":
                ended = control.timers_ended.timers
                return self._add(-len(ended), -sum(timer.size for timer in ended))
            case _:
                return []

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Apply ``record`` and return the rows it touches."""
        if is_timer(record) and record.origin < 0:  # with an origin, it is a carried copy
            return self._add(1, record.size)
        return []

    def apply_event(self, event: TimersBegun | TimersFired) -> list[Touch]:
        """Count new or fired timers and return the rows this touches."""
        sign = 1 if isinstance(event, TimersBegun) else -1
        return self._add(sign * event.sizes.size, sign * int(event.sizes.sum()))

    def _add(self, count: int, size: int) -> list[Touch]:
        self.count = max(0, self.count + count)
        self.bytes = max(0, self.bytes + size) if self.count else 0  # a snapshot has no row without timers
        return [("timers",)]

    def row(self, touch: Touch) -> Row | None:
        """Return the row of the totals if ``touch`` names it."""
        return Row(timers=TimerTotals(count=self.count, bytes=self.bytes)) if touch[0] == "timers" else None

    def rows(self) -> Iterator[Row]:
        """Yield the totals, if there are any timers."""
        if self.count:
            yield Row(timers=TimerTotals(count=self.count, bytes=self.bytes))

    def put(self, row: Row) -> bool:
        """Load the totals from a snapshot; return False if ``row`` belongs to another part."""
        if not row.HasField("timers"):
            return False
        self.count, self.bytes = row.timers.count, row.timers.bytes
        return True

    def copy(self) -> PendingTotals:
        """Return an independent copy."""
        return PendingTotals(self.count, self.bytes)
