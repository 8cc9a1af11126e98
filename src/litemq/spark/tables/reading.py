"""Reading of a queue's rows from a table's files, with their partition columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import TableFile
from litemq.spark.tables.table import Table

__all__ = ["queue_batches", "queue_files", "queue_row_groups"]


def queue_files(table: Table, topic: str, broker: str, queue_id: int, begin: int, end: int) -> list[TableFile]:
    """Return the files that may hold rows ``begin … end - 1`` of a queue, by first offset."""
    found = [one for one in table.files({"topic": topic}) if one.may_hold(broker, queue_id, begin, end)]
    return sorted(found, key=lambda one: (one.least.get("queue_offset", 0), one.path))


def queue_row_groups(file: pq.ParquetFile, broker: str, queue_id: int, begin: int, end: int) -> list[int]:
    """Return the row groups of ``file`` that may hold rows ``begin … end - 1`` of a queue."""
    columns = {name: file.schema_arrow.get_field_index(name) for name in (BROKER, "queue_id", "queue_offset")}
    wanted = {BROKER: (broker, broker), "queue_id": (queue_id, queue_id), "queue_offset": (begin, end - 1)}
    leaves = {file.schema.column(at).path: at for at in range(len(file.schema))}
    found = []
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        known = {name: group.column(leaves[name]).statistics for name in columns}
        if all(
            one is None or not one.has_min_max or (one.min <= wanted[name][1] and wanted[name][0] <= one.max)
            for name, one in known.items()
        ):
            found.append(number)
    return found


def queue_batches(
    folder: TableFolder,
    file: TableFile,
    broker: str,
    queue_id: int,
    begin: int,
    end: int,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows ``begin … end - 1`` of a queue that are in ``file``, in order."""
    names = list(columns or MESSAGE_SCHEMA.names)
    read = list(dict.fromkeys([*(name for name in names if name != "topic"), BROKER, "queue_id", "queue_offset"]))
    with folder.open_input(file.path) as source, pq.ParquetFile(source) as parquet:
        groups = queue_row_groups(parquet, broker, queue_id, begin, end)
        for batch in parquet.iter_batches(8192, row_groups=groups, columns=read):
            offsets, queues = (batch[name].to_numpy() for name in ("queue_offset", "queue_id"))
            marks = (queues == queue_id) & (offsets >= begin) & (offsets < end)
            marks &= np.asarray(batch[BROKER].to_numpy(zero_copy_only=False) == broker)
            if not marks.any():
                continue
            first, rows_end = (
                int(marks.argmax()),
                int(marks.size - marks[::-1].argmax()),
            )  # consecutive, since rows are sorted
            rows = batch.slice(first, rows_end - first)
            topics = (
                pa.array([file.partition["topic"]]).take(pa.array(np.zeros(rows.num_rows, np.int64)))
                if "topic" in names
                else None
            )
            yield pa.RecordBatch.from_arrays(
                [topics if name == "topic" else rows[name] for name in names],
                schema=pa.schema([MESSAGE_SCHEMA.field(name) for name in names]),
            )
