"""Rows of a read task: fetches spans, decodes them, and filters by tag and key."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from litemq.client.config import ReadFrom
from litemq.spark.fetch import Loss, QueueSpan, decode, thread_cluster
from litemq.spark.read.options import ReadOptions
from litemq.spark.task_process import freeze_once

__all__ = ["RowQuery", "read_rows"]

_LOG = logging.getLogger(__name__)


class RowQuery(NamedTuple):
    """The columns and filters of a read task."""

    url: str
    columns: tuple[str, ...]
    tag: str | None = None
    key: str | None = None
    fail_on_data_loss: bool = True
    read_from: ReadFrom = "master"

    @classmethod
    def of(cls, options: ReadOptions, columns: tuple[str, ...]) -> RowQuery:
        """Return the query for ``columns`` with ``options``."""
        return cls(options.url, columns, options.tag, options.key, options.fail_on_data_loss, options.read_from)


def read_rows(spans: Sequence[QueueSpan], query: RowQuery) -> Iterator[pa.RecordBatch]:
    """Read the rows of ``spans``, one queue after another, each in its order."""
    freeze_once()
    cluster = thread_cluster(query.url)
    needed = [name for name, value in (("tags", query.tag), ("keys", query.key)) if value is not None]
    decoded = [*query.columns, *(name for name in needed if name not in query.columns)]
    for span in spans:
        losses: list[Loss] | None = None if query.fail_on_data_loss else []
        for records in cluster.fetch(span, losses=losses, read_from=query.read_from):
            for batch in decode(records, decoded, span.broker):
                chosen = _rows_with(_rows_with(batch, "tags", query.tag), "keys", query.key) if needed else batch
                if chosen.num_rows:
                    yield chosen.select(list(query.columns)) if len(decoded) > len(query.columns) else chosen
        for loss in losses or ():
            _LOG.warning("%s: skipped offsets %d … %d: %s", loss.span, loss.span.begin, loss.span.end - 1, loss.why)


def _rows_with(batch: pa.RecordBatch, column: str, value: str | None) -> pa.RecordBatch:
    """Keep the rows whose list in ``column`` contains ``value``."""
    if value is None:
        return batch
    import pyarrow.compute as pc

    lists = batch.column(column)
    marks = np.zeros(batch.num_rows, np.bool_)
    hits = pc.equal(lists.flatten(), value).to_numpy(zero_copy_only=False)
    marks[pc.list_parent_indices(lists).to_numpy()[hits]] = True
    return batch.filter(pa.array(marks))
