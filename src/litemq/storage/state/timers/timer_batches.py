"""Batches of timers that were cancelled, each by one record: what waited of a batch by then does not fire, what was sent since does.

Which timers are of a batch, their own records say; they are looked at when they are due, or when retention would carry them on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from litemq.proto.control_pb2 import CancelledBatch, Control, Row
from litemq.storage.state.part import Touch
from litemq.types import MOST_DELAY_MS

__all__ = ["TimerBatches"]

_DAY_MS: Final = 86_400_000
_KEPT_MS: Final = MOST_DELAY_MS + 30 * _DAY_MS  # all that waited is due by then, even if the clock was set back meanwhile


class _Cancelled(NamedTuple):
    before: int  # log offset
    at: int  # ms


class TimerBatches:
    """A part of the state."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], _Cancelled] = {}  # by topic and batch
        self._oldest = 0  # none of them was cancelled before (ms)

    def __len__(self) -> int:
        return len(self._of)

    def holds(self, topic: str, batch_id: str) -> bool:
        """Whether a batch was cancelled, ever."""
        return (topic, batch_id) in self._of

    def is_cancelled(self, topic: str, batch_id: str, pending: int) -> bool:
        """Whether a timer was cancelled with its batch."""
        cancelled = self._of.get((topic, batch_id))
        return cancelled is not None and pending < cancelled.before

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        if not control.HasField("timer_batch_cancelled"):
            return []
        told = control.timer_batch_cancelled
        name = (told.topic, told.batch_id)
        self._of[name] = _Cancelled(told.before, told.at)
        self._oldest = min(self._oldest, told.at)
        return [("timer batch", *each) for each in (name, *self._forget_before(told.at - _KEPT_MS))]

    def _forget_before(self, at: int) -> list[tuple[str, str]]:
        if at <= self._oldest:
            return []
        old = [name for name, cancelled in self._of.items() if cancelled.at < at]
        for name in old:
            del self._of[name]
        self._oldest = min((cancelled.at for cancelled in self._of.values()), default=0)
        return old

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("timer batch", str(topic), str(batch_id)):
                return self._row(topic, batch_id)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for topic, batch_id in sorted(self._of):
            yield self._row(topic, batch_id)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("cancelled_batch"):
            return False
        told = row.cancelled_batch
        self._of[told.topic, told.batch_id] = _Cancelled(told.before, told.at)
        return True

    def copy(self) -> TimerBatches:
        """As it is now."""
        other = TimerBatches()
        other._of, other._oldest = dict(self._of), self._oldest
        return other

    def _row(self, topic: str, batch_id: str) -> Row:
        before, at = self._of.get((topic, batch_id), (0, 0))
        return Row(cancelled_batch=CancelledBatch(topic=topic, batch_id=batch_id, before=before, at=at))
