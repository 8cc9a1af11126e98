"""Batches of delayed messages: which one a message belongs to, as its record says."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.errors import RecordFormatError
from litemq.format.record import Buffer
from litemq.format.record_view import RecordView

__all__ = ["BATCH_ID", "MAX_BATCH_ID_BYTES", "TimerBatch", "batch_of"]

BATCH_ID: Final = "litemq-batch"  # the property of a message
MAX_BATCH_ID_BYTES: Final = 255


class TimerBatch(NamedTuple):
    """A batch, which is one of a topic."""

    topic: str
    batch_id: str  # empty: none


_NO_BATCH: Final = TimerBatch("", "")


def batch_of(record: Buffer) -> TimerBatch:
    """The batch of a record; none of one that is damaged, which is for others to notice."""
    view = RecordView(record)
    try:
        return TimerBatch(view.topic, view.properties.get(BATCH_ID, ""))
    except (RecordFormatError, ValueError):
        return _NO_BATCH
