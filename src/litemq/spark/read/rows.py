"""Rows for Spark, in a task's process: spans fetched, decoded and narrowed down to what was asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from litemq.spark.fetch import Loss, QueueSpan, decode, links_to
from litemq.spark.task_process import freeze_once

__all__ = ["RowsWanted", "rows_of"]

_LOG = logging.getLogger(__name__)


class RowsWanted(NamedTuple):
    """What a task makes of its spans."""

    url: str
    columns: tuple[str, ...]
    tag: str | None = None
    key: str | None = None
    fail_on_data_loss: bool = True


def rows_of(spans: Sequence[QueueSpan], wanted: RowsWanted) -> Iterator[pa.RecordBatch]:
    """The rows of these spans, one queue behind another and each in its order."""
    freeze_once()
    links = links_to(wanted.url)
    needed = [name for name, value in (("tags", wanted.tag), ("keys", wanted.key)) if value is not None]
    decoded = [*wanted.columns, *(name for name in needed if name not in wanted.columns)]
    for span in spans:
        losses: list[Loss] | None = None if wanted.fail_on_data_loss else []
        for records in links.fetch(span, losses=losses):
            for batch in decode(records, decoded, span.broker):
                chosen = _having(_having(batch, "tags", wanted.tag), "keys", wanted.key) if needed else batch
                if chosen.num_rows:
                    yield chosen.select(list(wanted.columns)) if len(decoded) > len(wanted.columns) else chosen
        for loss in losses or ():
            _LOG.warning("%s: offsets %d … %d are left out, %s", loss.span, loss.span.begin, loss.span.end - 1, loss.why)


def _having(batch: pa.RecordBatch, column: str, value: str | None) -> pa.RecordBatch:
    """The rows whose list in a column has a value."""
    if value is None:
        return batch
    import pyarrow.compute as pc

    lists = batch.column(column)
    marks = np.zeros(batch.num_rows, np.bool_)
    hits = pc.equal(lists.flatten(), value).to_numpy(zero_copy_only=False)
    marks[pc.list_parent_indices(lists).to_numpy()[hits]] = True
    return batch.filter(pa.array(marks))
