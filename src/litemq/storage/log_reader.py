"""The log from one offset to another, a window of whole records at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from litemq.errors import CorruptStoreError
from litemq.format.check import explain, find_faults
from litemq.format.columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.scan import ScanStop, scan
from litemq.storage.segment import Segment

__all__ = ["SegmentedLog", "Window", "read_log"]

_WINDOW = 4 << 20


class SegmentedLog(Protocol):
    """Whatever knows which segment holds an offset: a log that is open, or the files of one that somebody else has open."""

    def segment_of(self, offset: int) -> Segment: ...


class Window(NamedTuple):
    """Some records, and the log offset at which their buffer begins."""

    base: int
    columns: RecordColumns


def read_log(log: SegmentedLog, begin: int, end: int, *, verify_crc: bool = True) -> Iterator[Window]:
    """The records that stand from ``begin`` to ``end``, both borders of records. Raises ``CorruptStoreError`` where one is damaged."""
    window = _WINDOW
    at = begin
    while at < end:
        segment = log.segment_of(at)
        until = min(end, segment.end, at + window)
        data = segment.read(at, until)
        found = scan(data, limits=STORED_LIMITS)
        if found.stop is ScanStop.INCOMPLETE and found.starts.size == 0 and window <= STORED_LIMITS.max_record_bytes:
            window *= 2  # it holds less than one record
            continue
        window = _WINDOW
        columns = RecordColumns(data, found.starts)
        faults = find_faults(columns, verify_crc=verify_crc, limits=STORED_LIMITS)
        if faults.size or (found.starts.size == 0 and found.stop is not ScanStop.BLANK):
            position = int(found.starts[faults[0]]) if faults.size else found.end
            reason = str(explain(data, position, verify_crc=verify_crc, limits=STORED_LIMITS))
            raise CorruptStoreError(str(segment.file.path), at + position - segment.start, reason)
        if found.starts.size:
            yield Window(at, columns)
        at = segment.end if found.stop is ScanStop.BLANK else at + found.end
