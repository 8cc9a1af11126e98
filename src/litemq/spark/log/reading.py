"""Reader of one part of a log, or of a file of version 1: the work of a ``litemq-log`` task.

Files are mapped into memory and decoded by column in place. Every checksum is verified.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from litemq.errors import CorruptStoreError, RecordFormatError, StorageError
from litemq.format.arrow.batches import to_record_batch
from litemq.format.batches.check import explain, find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import HeaderWord, RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.format.v1.columns import RecordColumnsV1, find_faults_v1
from litemq.format.v1.record import decode_record_v1
from litemq.spark.log.splits import ByteRange
from litemq.storage.log.reader import is_record_at, possible_records
from litemq.storage.log.segment import segment_path, segment_starts
from litemq.types import is_system_name

__all__ = ["ROWS", "LogPart", "RowSelection", "read_part"]

ROWS: Final = 8192  # maximum in a batch: more would not fit the processor's cache
_BATCH_BYTES: Final = 16 << 20  # approximate size of the records in a batch
_LOOK_AHEAD: Final = 8 << 20


class LogPart(NamedTuple):
    """The byte range that one task reads. ``path`` is a data directory, or a file of version 1."""

    path: str
    version: int
    range: ByteRange
    broker: str | None
    topic_ids: frozenset[int] = frozenset()


class RowSelection(NamedTuple):
    """The columns and rows to read."""

    names: tuple[str, ...]
    topics: frozenset[str] | None = None  # for version 1, which has no topic ids
    include_system: bool = False
    after_ms: int | None = None
    before_ms: int | None = None


class Damage(NamedTuple):
    """Bytes of a file that are not a valid record."""

    path: str
    position: int
    size: int
    reason: str

    def error(self) -> CorruptStoreError:
        return CorruptStoreError(self.path, self.position, self.reason)


def read_part(part: LogPart, selection: RowSelection) -> Iterator[pa.RecordBatch | Damage]:
    """Yield rows in log order, without the column ``broker``, and damage at its position."""
    return _read_log(part, selection) if part.version == 2 else _read_file_v1(part, selection)


class _MappedFile:
    """A file mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise StorageError(
                f"{path} no longer exists: retention deleted it during the read; start the query again"
            ) from None
        try:
            self.size = os.fstat(fd).st_size
            mapping = mmap.mmap(fd, self.size, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fd)
        mapping.madvise(mmap.MADV_SEQUENTIAL)
        self.data = memoryview(mapping)


def _read_log(part: LogPart, selection: RowSelection) -> Iterator[pa.RecordBatch | Damage]:
    folder = Path(part.path) / "commitlog"
    starts = segment_starts(folder)
    at, end = part.range
    while at < end:
        number = bisect_right(starts, at) - 1
        # If no segment contains the offset, its segment has been deleted.
        start = starts[number] if number >= 0 else at
        segment = _MappedFile(segment_path(folder, start))
        until = min(end, starts[number + 1] if number + 1 < len(starts) else end)
        if start + segment.size < until:
            raise CorruptStoreError(str(segment.path), segment.size, f"the log ends here, but {until} is confirmed")
        yield from _read_segment(segment, at - start, until - start, start, part, selection)
        at = until


def _read_segment(
    segment: _MappedFile, begin: int, end: int, base: int, part: LogPart, selection: RowSelection
) -> Iterator[pa.RecordBatch | Damage]:
    """Read bytes ``begin … end`` of a segment that starts at log offset ``base``."""
    at, window = begin, _BATCH_BYTES
    while at < end:
        data = segment.data[at : min(end, at + window)]
        found = scan(data, limits=STORED_LIMITS)
        if (
            found.stop is ScanStop.INCOMPLETE
            and not found.starts.size
            and at + window < end
            and window <= STORED_LIMITS.max_record_bytes
        ):
            window *= 2  # the window is smaller than the record
            continue
        window = _BATCH_BYTES
        bad: int | None = None
        for first in range(0, found.starts.size, ROWS):
            starts = found.starts[first : first + ROWS]
            columns = RecordColumns(data, starts)
            faults = find_faults(columns, limits=STORED_LIMITS)
            misplaced = np.flatnonzero(columns.header["commitlog_offset"] != starts + (base + at))
            if misplaced.size:
                faults = np.union1d(faults, misplaced)
            good = int(faults[0]) if faults.size else len(columns)
            chosen = _chosen(
                columns if good == len(columns) else columns.subset(np.arange(good)), part.topic_ids, selection
            )
            if len(chosen):
                yield to_record_batch(chosen, selection.names)
            if good < len(columns):
                bad = int(starts[good])
                break
        if bad is None:
            if found.stop is ScanStop.BLANK:
                return
            cut = found.stop is ScanStop.INCOMPLETE and at + len(data) < end
            if found.stop is ScanStop.END or cut:
                at += found.end
                continue
            bad = found.end
        next_position = _next_record(segment, at + bad + 8, end, base)
        yield Damage(str(segment.path), at + bad, next_position - at - bad, _reason(data, bad))
        at = next_position


def _chosen(columns: RecordColumns, topic_ids: frozenset[int], selection: RowSelection) -> RecordColumns:
    if not len(columns):
        return columns
    marks: npt.NDArray[np.bool_] | None = None
    topic_id = columns.set_everywhere[HeaderWord.TOPIC_ID]
    if topic_id != columns.set_anywhere[HeaderWord.TOPIC_ID]:
        marks = np.isin(columns.words[:, HeaderWord.TOPIC_ID], np.fromiter(topic_ids, np.uint32, len(topic_ids)))
    elif topic_id not in topic_ids:
        return columns.subset(np.empty(0, np.int64))
    if selection.after_ms is not None or selection.before_ms is not None:
        inside = _in_time(columns.header["store_timestamp"], selection)
        marks = inside if marks is None else marks & inside
    return columns if marks is None or marks.all() else columns.subset(np.flatnonzero(marks))


def _in_time(stored: npt.NDArray[np.int64], selection: RowSelection) -> npt.NDArray[np.bool_]:
    marks = np.ones(stored.size, np.bool_)
    if selection.after_ms is not None:
        marks &= stored >= selection.after_ms
    if selection.before_ms is not None:
        marks &= stored < selection.before_ms
    return marks


def _reason(data: memoryview, position: int) -> str:
    """Describe the damage at ``position``. A record without a fault is at the wrong position."""
    if len(data) - position < FIXED_BYTES:
        return ScanStop.INCOMPLETE.value
    error = explain(data, position, limits=STORED_LIMITS)
    return "the record belongs elsewhere" if "please report" in str(error) else error.problem


def _next_record(segment: _MappedFile, begin: int, end: int, base: int) -> int:
    """Find the next valid record, or ``end``.

    The size field of a damaged record cannot be trusted.
    """
    at = begin
    while at < end:
        data = bytes(segment.data[at : min(end, at + _LOOK_AHEAD)])
        for position in possible_records(data).tolist():
            whole = segment.data[at + position : min(end, at + position + STORED_LIMITS.max_record_bytes)]
            if is_record_at(whole, 0, base + at + position):
                return int(at + position)
        at += max(8, len(data))
    return end


def _read_file_v1(part: LogPart, selection: RowSelection) -> Iterator[pa.RecordBatch | Damage]:
    file = _MappedFile(Path(part.path))
    at, end = part.range
    window = _BATCH_BYTES
    while at < end:
        data = file.data[at : min(end, at + window)]
        found = scan(data, version=1, limits=STORED_LIMITS)
        if (
            found.stop is ScanStop.INCOMPLETE
            and not found.starts.size
            and at + window < end
            and window <= STORED_LIMITS.max_record_bytes
        ):
            window *= 2
            continue
        window = _BATCH_BYTES
        starts = found.starts[:ROWS]
        columns = RecordColumnsV1(data, starts)
        faults = find_faults_v1(columns, limits=STORED_LIMITS)
        good = int(faults[0]) if faults.size else len(columns)
        if good < len(columns):
            columns = columns.subset(np.arange(good))
        if len(columns):
            yield _chosen_v1(columns, selection)
        if good == starts.size and starts.size < found.starts.size:
            at += int(found.starts[starts.size])
            continue
        cut = found.stop is ScanStop.INCOMPLETE and at + len(data) < end
        if good == starts.size and (found.stop is ScanStop.END or cut):
            at += found.end
            continue
        bad = int(starts[good]) if good < starts.size else found.end
        if found.stop is ScanStop.ZERO and good == starts.size and not any(file.data[at + bad : end]):
            return  # a preallocated file that was not filled
        # Version 1 has nothing that marks the next record.
        yield Damage(part.path, at + bad, end - at - bad, _reason_v1(data, bad))
        return


def _chosen_v1(columns: RecordColumnsV1, selection: RowSelection) -> pa.RecordBatch:
    marks = _in_time(columns.stored["store_timestamp"].astype(np.int64), selection)
    topics = np.array(to_record_batch(columns, ["topic"]).column(0).to_pylist(), object)
    for topic in set(topics.tolist()):
        if not (selection.include_system or not is_system_name(topic)) or (
            selection.topics is not None and topic not in selection.topics
        ):
            marks &= topics != topic
    return to_record_batch(columns if marks.all() else columns.subset(np.flatnonzero(marks)), selection.names)


def _reason_v1(data: memoryview, position: int) -> str:
    try:
        decode_record_v1(data, position, limits=STORED_LIMITS)
    except RecordFormatError as error:
        return error.problem
    return ScanStop.BROKEN.value
