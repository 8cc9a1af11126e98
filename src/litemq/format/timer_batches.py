"""The batch of a delayed message, from a property of its record."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.errors import RecordFormatError
from litemq.format.record import Buffer
from litemq.format.record_view import RecordView

__all__ = ["BATCH_ID", "MAX_BATCH_ID_BYTES", "TimerBatch", "timer_batch"]

BATCH_ID: Final = "litemq-batch"  # the property of a message
MAX_BATCH_ID_BYTES: Final = 255


class TimerBatch(NamedTuple):
    """A batch of delayed messages of one topic."""

    topic: str
    batch_id: str  # empty: none


_NO_BATCH: Final = TimerBatch("", "")


def timer_batch(record: Buffer) -> TimerBatch:
    """Return the batch of ``record``; an empty one if the record has none or is damaged."""
    view = RecordView(record)
    try:
        return TimerBatch(view.topic, view.properties.get(BATCH_ID, ""))
    except (RecordFormatError, ValueError):
        return _NO_BATCH
