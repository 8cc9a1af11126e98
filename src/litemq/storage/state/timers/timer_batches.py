"""Cancelled batches of timers, a part of the state. One record cancels a whole batch.

Timers of the batch before that record do not fire; later ones do. A timer's own record names its
batch. The broker checks it when the timer is due, and before retention carries it forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from litemq.proto.control_pb2 import CancelledBatch, Control, Row
from litemq.storage.state.part import Touch
from litemq.types import MAX_DELAY_MS

__all__ = ["TimerBatches"]

_DAY_MS: Final = 86_400_000
_KEPT_MS: Final = MAX_DELAY_MS + 30 * _DAY_MS  # every timer of the batch is due by then, even if the clock was set back


class _Cancelled(NamedTuple):
    before: int  # log offset
    at: int  # ms


class TimerBatches:
    """All cancelled batches."""

    def __init__(self) -> None:
        self._batches: dict[tuple[str, str], _Cancelled] = {}  # by topic and batch
        self._oldest = 0  # a lower bound of their cancellation times (ms)

    def __len__(self) -> int:
        return len(self._batches)

    def holds(self, topic: str, batch_id: str) -> bool:
        """Return whether a batch was ever cancelled."""
        return (topic, batch_id) in self._batches

    def is_cancelled(self, topic: str, batch_id: str, pending: int) -> bool:
        """Return whether the timer at log offset ``pending`` was cancelled with its batch."""
        cancelled = self._batches.get((topic, batch_id))
        return cancelled is not None and pending < cancelled.before

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        if not control.HasField("timer_batch_cancelled"):
            return []
        change = control.timer_batch_cancelled
        name = (change.topic, change.batch_id)
        self._batches[name] = _Cancelled(change.before, change.at)
        self._oldest = min(self._oldest, change.at)
        return [("timer batch", *each) for each in (name, *self._forget_before(change.at - _KEPT_MS))]

    def _forget_before(self, at: int) -> list[tuple[str, str]]:
        if at <= self._oldest:
            return []
        old = [name for name, cancelled in self._batches.items() if cancelled.at < at]
        for name in old:
            del self._batches[name]
        self._oldest = min((cancelled.at for cancelled in self._batches.values()), default=0)
        return old

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("timer batch", str(topic), str(batch_id)):
                return self._row(topic, batch_id)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for topic, batch_id in sorted(self._batches):
            yield self._row(topic, batch_id)

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("cancelled_batch"):
            return False
        batch = row.cancelled_batch
        self._batches[batch.topic, batch.batch_id] = _Cancelled(batch.before, batch.at)
        return True

    def copy(self) -> TimerBatches:
        """Return an independent copy."""
        other = TimerBatches()
        other._batches, other._oldest = dict(self._batches), self._oldest
        return other

    def _row(self, topic: str, batch_id: str) -> Row:
        before, at = self._batches.get((topic, batch_id), (0, 0))
        return Row(cancelled_batch=CancelledBatch(topic=topic, batch_id=batch_id, before=before, at=at))
