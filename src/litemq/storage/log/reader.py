"""The log from one offset to another, a window of whole records at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, RecordFormatError
from litemq.format.batches.check import find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import MAGIC, Buffer
from litemq.format.record_decode import decode_record
from litemq.storage.log.segment import Segment

__all__ = ["SegmentedLog", "Window", "is_record_at", "possible_records", "read_log"]

_WINDOW = 4 << 20


class SegmentedLog(Protocol):
    """Whatever knows which segment holds an offset: a log that is open, or the files of one that somebody else has open."""

    def segment_of(self, offset: int) -> Segment: ...

    def read(self, begin: int, end: int) -> bytes | memoryview: ...


class Window(NamedTuple):
    """Some records, and the log offset at which their buffer begins."""

    base: int
    columns: RecordColumns


def _refuse(error: CorruptStoreError) -> NoReturn:
    raise error


def read_log(
    log: SegmentedLog,
    begin: int,
    end: int,
    *,
    verify_crc: bool = True,
    damaged: Callable[[CorruptStoreError], None] = _refuse,
) -> Iterator[Window]:
    """The records that stand from ``begin`` to ``end``, both borders of records.

    Of each damaged one ``damaged`` is told; if it does not raise, the record is left out, and what stands behind it is read.
    """
    window = _WINDOW
    at = begin
    while at < end:
        segment = log.segment_of(at)
        until = min(end, segment.end, at + window)
        data = log.read(at, until)
        found = scan(data, limits=STORED_LIMITS)
        if found.stop is ScanStop.INCOMPLETE and found.starts.size == 0 and until - at == window <= STORED_LIMITS.max_record_bytes:
            window *= 2  # it holds less than one record
            continue
        window = _WINDOW
        columns = RecordColumns(data, found.starts)
        faults = find_faults(columns, verify_crc=verify_crc, limits=STORED_LIMITS)
        astray = np.flatnonzero(columns.header["commitlog_offset"] != found.starts + at) if len(columns) else faults
        if astray.size:
            faults = np.union1d(faults, astray)
        cut = found.stop is ScanStop.INCOMPLETE and until < min(end, segment.end)
        sound = (found.stop in (ScanStop.END, ScanStop.BLANK) or cut) and len(data) == until - at
        if faults.size:
            # Not even its size can be believed: what stands behind it is looked for, not counted.
            bad = int(found.starts[faults[0]])
            columns = columns.subset(np.arange(int(faults[0])))
        else:
            bad = found.end
        if len(columns):
            yield Window(at, columns)
        if faults.size or not sound:
            damaged(_damage(segment, at, data, bad, verify_crc=verify_crc))
            at = _next_record(segment, at + bad + 8, min(end, segment.end))
        else:
            at = segment.end if found.stop is ScanStop.BLANK else at + found.end


def _damage(segment: Segment, at: int, data: bytes | memoryview, position: int, *, verify_crc: bool) -> CorruptStoreError:
    try:
        decode_record(data, position, verify_crc=verify_crc, limits=STORED_LIMITS)
        reason = "the record belongs elsewhere"
    except RecordFormatError as error:
        reason = error.problem
    return CorruptStoreError(str(segment.file.path), at + position - segment.start, reason)


def _next_record(segment: Segment, begin: int, end: int) -> int:
    """Where the next whole record stands, or ``end``."""
    at = begin
    while at < end:
        data = segment.read(at, min(end, at + 2 * STORED_LIMITS.max_record_bytes))
        if not data:
            break  # the file is shorter than it should be
        for position in possible_records(data).tolist():
            if is_record_at(data, position, at + position):
                return at + int(position)
        at += max(8, len(data) - STORED_LIMITS.max_record_bytes)  # one that begins further back would have been whole
    return end


def possible_records(data: bytes) -> npt.NDArray[np.int64]:
    """The positions, multiples of eight, at which a record may begin."""
    return np.flatnonzero(np.frombuffer(data[: len(data) // 8 * 8], ">u4")[1::2] == MAGIC) * 8


def is_record_at(data: Buffer, position: int, offset: int) -> bool:
    """Whether a whole record stands there that belongs at this log offset."""
    try:
        stamp = decode_record(data, position, limits=STORED_LIMITS).stamp
    except RecordFormatError:
        return False
    return stamp is not None and stamp.commitlog_offset == offset
