"""Sequential reading of the log, one window of whole records at a time."""

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

__all__ = ["SegmentedLog", "Window", "is_record_at", "next_record", "possible_records", "read_log"]

_WINDOW = 4 << 20


class SegmentedLog(Protocol):
    """A log to read: the open log of this process, or the files of a data directory."""

    def segment_of(self, offset: int) -> Segment: ...

    def read(self, begin: int, end: int) -> bytes | memoryview: ...


class Window(NamedTuple):
    """Records, and ``base``, the log offset at which their buffer begins."""

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
    on_damage: Callable[[CorruptStoreError], None] = _refuse,
) -> Iterator[Window]:
    """Yield the records from ``begin`` to ``end``, which are both record boundaries.

    Call ``on_damage(error)`` for each damaged record. If it does not raise, skip the record and
    read on after it.
    """
    window = _WINDOW
    at = begin
    while at < end:
        segment = log.segment_of(at)
        until = min(end, segment.end, at + window)
        data = log.read(at, until)
        found = scan(data, limits=STORED_LIMITS)
        if (
            found.stop is ScanStop.INCOMPLETE
            and found.starts.size == 0
            and until - at == window <= STORED_LIMITS.max_record_bytes
        ):
            window *= 2  # the window is smaller than the record
            continue
        window = _WINDOW
        columns = RecordColumns(data, found.starts)
        faults = find_faults(columns, verify_crc=verify_crc, limits=STORED_LIMITS)
        misplaced = np.flatnonzero(columns.header["commitlog_offset"] != found.starts + at) if len(columns) else faults
        if misplaced.size:
            faults = np.union1d(faults, misplaced)
        cut = found.stop is ScanStop.INCOMPLETE and until < min(end, segment.end)
        is_blank = found.stop is ScanStop.BLANK and segment.is_blank_from(at + found.end)
        sound = (found.stop is ScanStop.END or is_blank or cut) and len(data) == until - at
        if faults.size:
            # The size of a damaged record cannot be trusted: search for the next record.
            bad = int(found.starts[faults[0]])
            columns = columns.subset(np.arange(int(faults[0])))
        else:
            bad = found.end
        if len(columns):
            yield Window(at, columns)
        if faults.size or not sound:
            on_damage(_damage(segment, at, data, bad, verify_crc=verify_crc))
            at = next_record(segment, at + bad + 8, min(end, segment.end))
        else:
            at = segment.end if is_blank else at + found.end


def _damage(
    segment: Segment, at: int, data: bytes | memoryview, position: int, *, verify_crc: bool
) -> CorruptStoreError:
    try:
        decode_record(data, position, verify_crc=verify_crc, limits=STORED_LIMITS)
        reason = "the record belongs elsewhere"
    except RecordFormatError as error:
        reason = error.problem
    return CorruptStoreError(str(segment.file.path), at + position - segment.start, reason)


def next_record(segment: Segment, begin: int, end: int) -> int:
    """Return the offset of the first intact record from ``begin`` on, or ``end``."""
    at = begin
    while at < end:
        data = segment.read(at, min(end, at + 2 * STORED_LIMITS.max_record_bytes))
        if not data:
            break  # the file is truncated
        for position in possible_records(data).tolist():
            if is_record_at(data, position, at + position):
                return at + int(position)
        at += max(
            8, len(data) - STORED_LIMITS.max_record_bytes
        )  # a record that begins earlier would have been complete
    return end


def possible_records(data: bytes) -> npt.NDArray[np.int64]:
    """Return the positions in ``data`` with the record magic: multiples of eight."""
    return np.flatnonzero(np.frombuffer(data[: len(data) // 8 * 8], ">u4")[1::2] == MAGIC) * 8


def is_record_at(data: Buffer, position: int, offset: int) -> bool:
    """Whether ``data`` has an intact record at ``position`` whose log offset is ``offset``."""
    try:
        stamp = decode_record(data, position, limits=STORED_LIMITS).stamp
    except RecordFormatError:
        return False
    return stamp is not None and stamp.commitlog_offset == offset
