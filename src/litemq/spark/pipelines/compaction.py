"""Compaction: merges small files of past hours into a few sorted files of the target size.

A group contains files of one hour of one topic. One commit replaces the group by the new files, so
a reader sees either. A killed compaction leaves the table unchanged, and vacuum deletes its
leftovers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.pipelines.tasks import run_tasks
from litemq.spark.schema import BROKER
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import FILE_SCHEMA, KEY, TableFile, hour_partition
from litemq.spark.tables.table import Table
from litemq.spark.tables.writing import Codec, MessageWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CompactionResult", "GroupMerger", "compact_table", "groups_to_merge"]

# A file below this fraction of the target is small. A group has at most this many targets and
# files, all open at once.
_SMALL_FRACTION: Final = 0.75
_GROUP_TARGETS: Final = 4
_GROUP_FILES: Final = 128
_ROWS_AT_ONCE: Final = 4096


class CompactionResult(NamedTuple):
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0
    bytes_after: int = 0


def groups_to_merge(files: Iterable[TableFile], target_bytes: int, now_s: float) -> list[list[TableFile]]:
    """Group the small files of past hours by partition, oldest first."""
    current = hour_partition("", int(now_s // 3600))
    small: dict[tuple[str, ...], list[TableFile]] = {}
    for file in files:
        date, hour = file.partition["store_date"], int(file.partition["store_hour"])
        if file.size < _SMALL_FRACTION * target_bytes and (date, hour) < (
            current["store_date"],
            int(current["store_hour"]),
        ):
            small.setdefault(tuple(file.partition.values()), []).append(file)
    groups = []
    for partition in sorted(small):
        group: list[TableFile] = []
        for file in sorted(small[partition], key=lambda one: (str(one.least.get("store_timestamp", "")), one.path)):
            if group and (
                len(group) >= _GROUP_FILES or sum(one.size for one in group) + file.size > _GROUP_TARGETS * target_bytes
            ):
                groups.append(group)
                group = []
            group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def compact_table(
    spark: SparkSession, table: Table, config: ArchiveConfig, *, max_groups: int | None = None
) -> CompactionResult:
    """Merge up to ``max_groups`` groups, with one task and one commit each."""
    table.refresh()
    groups = groups_to_merge(table.files(), config.compact_target_bytes, time.time())[:max_groups]
    if not groups:
        return CompactionResult()
    merger = GroupMerger(table.folder, Codec.of(config.codec, config.codec_level), config.compact_target_bytes)
    context = spark.sparkContext
    done = CompactionResult()
    for first in range(0, len(groups), 2 * context.defaultParallelism):
        some = groups[first : first + 2 * context.defaultParallelism]
        for old, new in zip(some, run_tasks(context, merger, some), strict=True):
            if table.replace(old, new):
                sizes = sum(file.size for file in new)
                done = CompactionResult(
                    done.files_before + len(old), done.files_after + len(new), done.bytes_after + sizes
                )
    return done


@dataclass(frozen=True, slots=True)
class GroupMerger:
    """A function that merges the files of a group in a task."""

    folder: TableFolder
    codec: Codec
    target_bytes: int

    def __call__(self, group: Sequence[TableFile]) -> list[TableFile]:
        writer = MessageWriter(self.folder, self.codec, file_bytes=self.target_bytes)
        topic = group[0].partition["topic"]
        try:
            cursors = [_FileCursor(self.folder, file) for file in group]
            for run in sorted(_queue_runs(cursors), key=lambda one: one[:3]):
                for batch in run.cursor.take(run.rows):
                    writer.write(topic, batch)
            return writer.finish()
        except BaseException:
            writer.discard()
            raise


class _QueueRun(NamedTuple):
    """Consecutive rows of one queue in one file."""

    broker: str
    queue_id: int
    first_offset: int
    rows: int
    cursor: _FileCursor


def _queue_runs(cursors: Iterable[_FileCursor]) -> Iterator[_QueueRun]:
    for cursor in cursors:
        brokers, queues, offsets = cursor.keys()
        edges = np.flatnonzero((brokers[1:] != brokers[:-1]) | (queues[1:] != queues[:-1])) + 1
        begins = [0, *edges.tolist()] if queues.size else []
        for begin, end in zip(begins, [*begins[1:], queues.size], strict=True):
            yield _QueueRun(str(brokers[begin]), int(queues[begin]), int(offsets[begin]), end - begin, cursor)


class _FileCursor:
    """A file read sequentially. Callers must take the runs of a file in file order."""

    def __init__(self, folder: TableFolder, file: TableFile) -> None:
        self._folder = folder
        self._path = file.path
        self._batches = self._read()
        self._rest: pa.RecordBatch | None = None

    def keys(self) -> tuple[Any, Any, Any]:
        with self._folder.open_input(self._path) as source, pq.ParquetFile(source) as parquet:
            found = parquet.read(columns=list(KEY))
        return found[BROKER].to_numpy(), found["queue_id"].to_numpy(), found["queue_offset"].to_numpy()

    def _read(self) -> Iterator[pa.RecordBatch]:
        # Page by page, since all files of a group are open at once.
        with (
            self._folder.open_input(self._path) as source,
            pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False) as parquet,
        ):
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=FILE_SCHEMA.names):
                yield batch.cast(FILE_SCHEMA) if batch.schema != FILE_SCHEMA else batch

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        while count:
            batch = self._rest if self._rest is not None else next(self._batches)
            taken = min(count, batch.num_rows)
            self._rest = batch.slice(taken) if taken < batch.num_rows else None
            count -= taken
            yield batch.slice(0, taken)
