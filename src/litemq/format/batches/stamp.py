"""Stamping of batches in place, grouping of records by queue, and queue entries.

A queue entry (24 bytes, big-endian)::

    at  bytes  field
     0      8  log offset
     8      4  size of the record
    12      4  tag_hash
    16      8  store_timestamp (ms)
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.crc import crc32c_of_rows
from litemq.format.record import PRODUCER_BYTES_AT, STAMP_AT
from litemq.types import LATEST_TIME_MS, RecordKind

__all__ = ["QUEUE_ENTRY", "QueueRuns", "group_by_queue", "queue_entries", "single_queue_run", "stamp_batch"]

QUEUE_ENTRY: Final = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tag_hash", ">u4"), ("store_timestamp", ">i8")])

_U32_MAX: Final = 0xFFFFFFFF
_I64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_U64_MAX: Final = 0xFFFFFFFFFFFFFFFF
_STAMP: Final = np.dtype((np.void, PRODUCER_BYTES_AT - STAMP_AT))

_RANGES: Final = (
    ("commitlog_offsets", 0, _I64_MAX),
    ("queue_offsets", 0, _I64_MAX),
    ("topic_ids", 0, _U32_MAX),
    ("queue_ids", 0, _U32_MAX),
    ("store_timestamp", 0, LATEST_TIME_MS),
    ("epoch", 0, _U32_MAX),
    ("kinds", 0, max(RecordKind)),
    ("origins", -1, _I64_MAX),
    ("consume_counts", 0, 0xFFFF),
)

Longs = npt.NDArray[np.int64]


class QueueRuns(NamedTuple):
    """The records of a batch grouped by queue; within a queue, in the order of the batch.

    Queue g is (``topic_ids[g]``, ``queue_ids[g]``), with the records
    ``order[bounds[g] : bounds[g + 1]]``.
    """

    topic_ids: Longs
    queue_ids: Longs
    order: Longs
    bounds: Longs

    def offsets_from(self, next_offsets: Longs) -> Longs:
        """Return the queue offset of each record; queue g continues at ``next_offsets[g]``."""
        if self.topic_ids.size == 1:
            first = int(next_offsets[0])
            return np.arange(first, first + self.order.size)
        counts = self.bounds[1:] - self.bounds[:-1]
        offsets = np.empty(self.order.size, np.int64)
        offsets[self.order] = np.arange(self.order.size) + np.repeat(next_offsets - self.bounds[:-1], counts)
        return offsets


def single_queue_run(topic_id: int, queue_id: int, count: int) -> QueueRuns:
    """Return the grouping of ``count`` records of one queue."""
    return QueueRuns(np.array([topic_id]), np.array([queue_id]), np.arange(count), np.array([0, count]))


def group_by_queue(topic_ids: Longs, queue_ids: Longs) -> QueueRuns:
    """Group records by queue."""
    count = topic_ids.size
    if count == 0:
        empty = np.empty(0, np.int64)
        return QueueRuns(empty, empty, empty, np.zeros(1, np.int64))
    queues = topic_ids.astype(np.int64) << 32 | queue_ids.astype(np.int64)
    if (queues == queues[0]).all():
        return single_queue_run(int(topic_ids[0]), int(queue_ids[0]), count)
    order = np.argsort(queues, kind="stable")
    ordered = queues[order]
    begins = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), ordered[1:] != ordered[:-1])))
    first = ordered[begins]
    return QueueRuns(first >> 32, first & 0xFFFFFFFF, order, np.append(begins, count))


def stamp_batch(
    columns: RecordColumns,
    *,
    commitlog_offsets: Longs,
    queue_offsets: Longs,
    topic_ids: Longs | int,
    queue_ids: Longs | int,
    store_timestamp: int,
    epoch: int,
    kinds: Longs | RecordKind = RecordKind.MESSAGE,
    origins: Longs | int = -1,
    consume_counts: Longs | int = 0,
) -> None:
    """Write the broker's fields and their checksum into every record of a writable buffer.

    ``columns`` reads the new values afterwards.
    """
    count = len(columns)
    if not columns.data.flags.writeable:
        raise InvalidArgumentError("the buffer must be writable: pass a bytearray, not bytes")
    given = (
        commitlog_offsets,
        queue_offsets,
        topic_ids,
        queue_ids,
        store_timestamp,
        epoch,
        kinds,
        origins,
        consume_counts,
    )
    if native.enabled and native.loops.stamp(columns.buffer, columns.starts, *given):
        columns.forget_headers()
        return
    for value, (what, minimum, maximum) in zip(given, _RANGES, strict=True):
        if not (isinstance(value, int) and minimum <= value <= maximum):
            _check_column(what, value, count, minimum, maximum)
    # Bytes 16 … 64 are six 64-bit numbers, the last two combined from smaller fields.
    fields = np.empty((count, 6), ">u8")
    fields[:, 0] = commitlog_offsets
    fields[:, 1] = queue_offsets
    fields[:, 2] = store_timestamp
    fields[:, 3] = origins & _U64_MAX if isinstance(origins, int) else origins.view(np.uint64)
    fields[:, 4] = _halves(topic_ids, queue_ids)
    fields[:, 5] = _halves(epoch, kinds << 24 | consume_counts)
    if count == 0:
        return
    stamps = np.empty((count, _STAMP.itemsize), np.uint8)
    stamps[:, :4] = crc32c_of_rows(fields.view(np.uint8)).astype(">u4").view(np.uint8).reshape(count, 4)
    stamps[:, 4:] = fields.view(np.uint8)
    everywhere = np.ndarray((columns.data.size - _STAMP.itemsize + 1,), _STAMP, columns.buffer, 0, (1,))
    everywhere[columns.starts + STAMP_AT] = stamps.view(_STAMP)[:, 0]
    columns.forget_headers()


def _check_column(what: str, value: Longs | int, count: int, minimum: int, maximum: int) -> None:
    """Raise unless ``value`` is a column of ``count`` integers within the range."""
    if not (isinstance(value, np.ndarray) and value.dtype == np.int64 and value.shape == (count,)):
        raise InvalidArgumentError(
            f"{what}: pass an integer, {minimum} … {maximum}, or an int64 array of {count} of them"
        )
    # No int64 exceeds _I64_MAX, so offsets need no second pass.
    if count and (int(value.min()) < minimum or (maximum != _I64_MAX and int(value.max()) > maximum)):
        raise InvalidArgumentError(f"{what} of {int(value.min())} … {int(value.max())}: choose {minimum} … {maximum}")


def _halves(high: Longs | int, low: Longs | int) -> npt.NDArray[np.uint64] | int:
    """Combine 32-bit halves to 64-bit numbers; plain ints cannot overflow numpy's int64."""
    if isinstance(high, int) and isinstance(low, int):
        return high << 32 | low
    return np.asarray(high).astype(np.uint64) << np.uint64(32) | np.asarray(low).astype(np.uint64)


def queue_entries(
    columns: RecordColumns, runs: QueueRuns | None, *, commitlog_offsets: Longs, store_timestamps: Longs | int
) -> npt.NDArray[np.void]:
    """Return the queue entries of all records, in the order of ``runs``.

    ``runs`` of ``None`` means one queue.
    """
    order = None if runs is None or runs.topic_ids.size <= 1 else runs.order
    if native.enabled:
        filled = np.empty(len(columns) * QUEUE_ENTRY.itemsize, np.uint8)
        times = store_timestamps
        if not isinstance(times, int):
            times = np.ascontiguousarray(times, np.int64)
        if native.loops.queue_entries(columns.buffer, columns.starts, order, commitlog_offsets, times, filled):
            return filled.view(QUEUE_ENTRY)
    entries = np.empty(len(columns), QUEUE_ENTRY)
    entries["log_offset"] = commitlog_offsets
    entries["size"] = columns.sizes
    entries["tag_hash"] = columns.tag_hashes
    entries["store_timestamp"] = store_timestamps
    return entries if order is None else entries[order]
