"""The log from one offset to another, a window of whole records at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from litemq.errors import CorruptStoreError
from litemq.format.check import explain, find_faults
from litemq.format.columns import RecordColumns
from litemq.format.limits import RecordLimits
from litemq.format.scan import ScanStop, scan
from litemq.storage.commitlog import CommitLog

__all__ = ["Window", "read_log"]

_WINDOW = 4 << 20


class Window(NamedTuple):
    """Some records, and the log offset at which their buffer begins."""

    base: int
    columns: RecordColumns


def read_log(log: CommitLog, begin: int, end: int, limits: RecordLimits, *, verify_crc: bool = True) -> Iterator[Window]:
    """The records that stand from ``begin`` to ``end``, both borders of records. Raises ``CorruptStoreError`` where one is damaged."""
    window = max(_WINDOW, limits.max_record_bytes)
    at = begin
    while at < end:
        segment = log.segment_of(at)
        until = min(end, segment.end)
        data = segment.read(at, min(until, at + window))
        found = scan(data, limits=limits)
        columns = RecordColumns(data, found.starts)
        faults = find_faults(columns, verify_crc=verify_crc, limits=limits)
        if faults.size or (found.starts.size == 0 and found.stop is not ScanStop.BLANK):
            position = int(found.starts[faults[0]]) if faults.size else found.end
            reason = str(explain(data, position, verify_crc=verify_crc, limits=limits))
            raise CorruptStoreError(str(segment.file.path), at + position - segment.start, reason)
        if found.starts.size:
            yield Window(at, columns)
        at = segment.end if found.stop is ScanStop.BLANK else at + found.end
