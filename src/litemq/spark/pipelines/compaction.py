"""Compaction joins small files: each hour that is over gets few files, sorted, of about the size that readers like.

What is joined is a group of files of one hour of one topic; they go and the new ones come in one commit, so that a reader sees one or the
other. Whatever is killed when, the table is as before or as after, and what is left over goes with vacuum.
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

__all__ = ["Compacted", "GroupJoiner", "compact_table", "groups_to_join"]

# A file is small below so much of the target; a group is so many targets, and so many files at most, which are open all at once.
_SMALL_FRACTION: Final = 0.75
_GROUP_TARGETS: Final = 4
_GROUP_FILES: Final = 128
_ROWS_AT_ONCE: Final = 4096


class Compacted(NamedTuple):
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0
    bytes_after: int = 0


def groups_to_join(files: Iterable[TableFile], target_bytes: int, now_s: float) -> list[list[TableFile]]:
    """Small files of hours that are over, in groups of one partition, those stored first first."""
    current = hour_partition("", int(now_s // 3600))
    small: dict[tuple[str, ...], list[TableFile]] = {}
    for file in files:
        date, hour = file.partition["store_date"], int(file.partition["store_hour"])
        if file.size < _SMALL_FRACTION * target_bytes and (date, hour) < (current["store_date"], int(current["store_hour"])):
            small.setdefault(tuple(file.partition.values()), []).append(file)
    groups = []
    for partition in sorted(small):
        group: list[TableFile] = []
        for file in sorted(small[partition], key=lambda one: (str(one.least.get("store_timestamp", "")), one.path)):
            if group and (len(group) >= _GROUP_FILES or sum(one.size for one in group) + file.size > _GROUP_TARGETS * target_bytes):
                groups.append(group)
                group = []
            group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def compact_table(spark: SparkSession, table: Table, config: ArchiveConfig, *, max_groups: int | None = None) -> Compacted:
    """Join what there is to join, a group a task; each group is committed by itself."""
    table.refresh()
    groups = groups_to_join(table.files(), config.compact_target_bytes, time.time())[:max_groups]
    if not groups:
        return Compacted()
    joiner = GroupJoiner(table.folder, Codec.of(config.codec, config.codec_level), config.compact_target_bytes)
    context = spark.sparkContext
    done = Compacted()
    for first in range(0, len(groups), 2 * context.defaultParallelism):
        some = groups[first : first + 2 * context.defaultParallelism]
        for old, new in zip(some, run_tasks(context, joiner, some), strict=True):
            if table.replace(old, new):
                sizes = sum(file.size for file in new)
                done = Compacted(done.files_before + len(old), done.files_after + len(new), done.bytes_after + sizes)
    return done


@dataclass(frozen=True, slots=True)
class GroupJoiner:
    """Joins the files of a group; a task calls it with the group."""

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
    """A file that is read from its beginning to its end, some rows at a time. Callers take the runs of a file in the order of the file."""

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
        # Page by page: as many files are open as there are in a group.
        with self._folder.open_input(self._path) as source, pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False) as parquet:
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=FILE_SCHEMA.names):
                yield batch.cast(FILE_SCHEMA) if batch.schema != FILE_SCHEMA else batch

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        while count:
            batch = self._rest if self._rest is not None else next(self._batches)
            taken = min(count, batch.num_rows)
            self._rest = batch.slice(taken) if taken < batch.num_rows else None
            count -= taken
            yield batch.slice(0, taken)
