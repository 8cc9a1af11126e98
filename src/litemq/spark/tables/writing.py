"""Writer of a task's rows: one file per topic and hour, in order of arrival, with statistics."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from litemq.spark.schema import BROKER
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import (
    FILE_SCHEMA,
    KEY,
    MESSAGES,
    STATISTICS,
    TableFile,
    hour_partition,
    partition_folder,
)

__all__ = ["Codec", "MessageWriter"]

_US_PER_HOUR: Final = 3_600_000_000
# Numbers that grow slowly from row to row.
_RISING: Final = ("queue_offset", "commitlog_offset", "sequence", "born_timestamp", "store_timestamp")
# Columns whose values mostly differ, for which a dictionary is useless.
_DISTINCT: Final = ("message_id", "body", "keys.list.element", *_RISING)
_ROW_GROUP_BYTES: Final = 32 << 20
_BUFFERED_BYTES: Final = 128 << 20
_OPEN_FILES: Final = 48


@dataclass(frozen=True, slots=True)
class Codec:
    """Compression of the files."""

    name: str = "zstd"
    level: int | None = 1

    @classmethod
    def of(cls, name: str, level: int) -> Codec:
        """Return the configured codec; only zstd has a level."""
        return cls(name, level if name == "zstd" else None)


class MessageWriter:
    """The files that one task writes.

    Callers write rows queue by queue, in the order of ``KEY``.
    """

    def __init__(self, folder: TableFolder, codec: Codec, *, file_bytes: int | None = None) -> None:
        self._folder = folder
        self._codec = codec
        self._file_bytes = file_bytes  # size at which a file is closed; ``None``: no limit
        self._open: dict[tuple[str, int], _OpenFile] = {}  # least recently used first
        self._done: list[TableFile] = []

    def write(self, topic: str, batch: pa.RecordBatch) -> None:
        """Write rows of one queue of ``topic``, with the columns of ``FILE_SCHEMA``."""
        for hour, begin, end in _hours(batch):
            file = self._file(topic, hour)
            file.add(batch if end - begin == batch.num_rows else batch.slice(begin, end - begin))
            if self._file_bytes is not None and file.size >= self._file_bytes:
                self._done.append(self._open.pop((topic, hour)).close())
        while sum(file.buffered for file in self._open.values()) > _BUFFERED_BYTES:
            max(self._open.values(), key=lambda file: file.buffered).flush()

    def _file(self, topic: str, hour: int) -> _OpenFile:
        file = self._open.pop((topic, hour), None)
        if file is None:
            if len(self._open) >= _OPEN_FILES:
                self._done.append(self._open.pop(next(iter(self._open))).close())
            file = _OpenFile(self._folder, hour_partition(topic, hour), self._codec)
        self._open[topic, hour] = file
        return file

    def finish(self) -> list[TableFile]:
        """Close the files and return them; they are on disk."""
        while self._open:
            self._done.append(self._open.pop(next(iter(self._open))).close())
        return self._done

    def discard(self) -> None:
        """Delete the files of a failed task, as far as possible. Vacuum deletes the rest."""
        for path in [*(file.path for file in self._open.values()), *(file.path for file in self._done)]:
            with contextlib.suppress(OSError):
                self._folder.delete(path)


class _OpenFile:
    """A file that is being written."""

    def __init__(self, folder: TableFolder, partition: dict[str, str], codec: Codec) -> None:
        self._partition = partition
        self.path = f"{partition_folder(partition, MESSAGES.partition_by)}/{uuid.uuid4().hex}.parquet"
        self._stack = contextlib.ExitStack()
        self._stream = self._stack.enter_context(folder.new_file(self.path))
        self._writer = pq.ParquetWriter(
            self._stream,
            FILE_SCHEMA,
            compression=codec.name,
            compression_level=codec.level,
            use_dictionary=_LEAVES_WITH_DICTIONARY,
            column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
            write_statistics=list(STATISTICS),
            sorting_columns=pq.SortingColumn.from_ordering(FILE_SCHEMA, [(name, "ascending") for name in KEY]),
        )
        self._batches: list[pa.RecordBatch] = []
        self.buffered = 0
        self._rows = 0
        self._ranges = {name: _Range() for name in STATISTICS}

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.buffered += batch.nbytes
        self._rows += batch.num_rows
        for name in ("queue_id", "queue_offset", "store_timestamp"):
            values = _longs(batch[name])
            self._ranges[name].include(int(values.min()), int(values.max()))
        broker = batch[BROKER][0].as_py()  # a queue belongs to one broker
        self._ranges[BROKER].include(broker, broker)
        if self.buffered >= _ROW_GROUP_BYTES:
            self.flush()

    @property
    def size(self) -> int:
        """Size so far in bytes."""
        return int(self._stream.tell()) + self.buffered

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        if self._batches:
            rows = sum(batch.num_rows for batch in self._batches)
            self._writer.write_table(pa.Table.from_batches(self._batches, FILE_SCHEMA), row_group_size=rows)
        self._batches, self.buffered = [], 0

    def close(self) -> TableFile:
        with self._stack:
            self.flush()
            self._writer.close()
            size = self._stream.tell()
        minimums = {name: _statistic(name, one.minimum) for name, one in self._ranges.items()}
        maximums = {name: _statistic(name, one.maximum) for name, one in self._ranges.items()}
        return TableFile(self.path, size, self._rows, self._partition, minimums, maximums)


class _Range:
    """The minimum and maximum of the values included so far."""

    def __init__(self) -> None:
        self.minimum: Any = None
        self.maximum: Any = None

    def include(self, minimum: Any, maximum: Any) -> None:
        self.minimum = minimum if self.minimum is None else min(self.minimum, minimum)
        self.maximum = maximum if self.maximum is None else max(self.maximum, maximum)


def _hours(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int]]:
    """Split rows by the hour in which they were stored: (hour, begin, end)."""
    if not batch.num_rows:
        return
    hours = _longs(batch["store_timestamp"]) // _US_PER_HOUR
    edges = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), hours.size]
    for begin, end in pairwise(edges):
        yield int(hours[begin]), begin, end


def _longs(column: pa.Array) -> Any:
    return (
        column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if column.type != pa.int64()
        else column.to_numpy(zero_copy_only=False)
    )


def _statistic(name: str, value: Any) -> Any:
    if name != "store_timestamp":
        return value
    return str(np.datetime64(value // 1000, "ms")) + "Z"


def _leaves(field: pa.Field, path: str) -> Iterator[str]:
    if pa.types.is_list(field.type):
        yield f"{path}.list.element"
    elif pa.types.is_map(field.type):
        yield from (f"{path}.key_value.key", f"{path}.key_value.value")
    else:
        yield path


_LEAVES_WITH_DICTIONARY: Final = [
    leaf for one in FILE_SCHEMA for leaf in _leaves(one, one.name) if leaf not in _DISTINCT
]
