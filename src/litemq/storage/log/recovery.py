"""Recovery: finds the end of the log after a stop of any kind, and truncates the tail.

Below the checkpoint's flushed offset everything was on disk: a bad record there is damage, and is
never truncated. Above it, a power cut may have left anything: the first bad record ends the log,
and the tail is truncated durably before any append. A record with a lower epoch also ends the log:
it is left from a log that was truncated before, and still looks valid.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.batches.check import find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.config import other_segments
from litemq.storage.files.disk import Disk
from litemq.storage.log.epochs import find_epochs
from litemq.storage.log.reader import is_record_at, possible_records
from litemq.storage.log.segment import Segment, segment_path, segment_starts
from litemq.storage.log.truncation import save_tail, truncate_log

__all__ = ["LogEnd", "find_log_end", "find_segments", "last_epoch", "recover_log"]

_WINDOW = 16 << 20


class LogEnd(NamedTuple):
    """The end of the log, with the epoch and the store timestamp of its last records."""

    offset: int
    last_epoch: int
    last_store_timestamp: int
    records_checked: int


def find_segments(disk: Disk, directory: Path, segment_bytes: int) -> list[Segment]:
    """Open the segments of a directory.

    Raise ``CorruptStoreError`` if one is missing in between.
    """
    starts = segment_starts(directory)
    for one, other in pairwise(starts):
        if other != one + segment_bytes:
            size = segment_path(directory, one).stat().st_size
            if other == one + size:
                raise other_segments(directory, size, segment_bytes)
            reason = f"the segment is missing; the next segment is {other:020d}"
            raise CorruptStoreError(str(directory), one + segment_bytes, reason)
    return [Segment.open(disk, directory, start, segment_bytes) for start in starts]


def find_log_end(segments: list[Segment], begin: int) -> int:
    """Return the end of the intact records from ``begin`` on."""
    return _TailReader(segments, begin, 0).find_end()


def last_epoch(segments: list[Segment], begin: int, end: int, epoch: int) -> int:
    """Return the epoch of the last intact record before ``end``.

    ``epoch`` is that of the last record before ``begin``.
    """
    epochs = find_epochs(_Segments(segments), max(begin, segments[0].start), end)
    return max([epoch, *(found.number for found in epochs)])


class _Segments(NamedTuple):
    """The log in some segments, before it is open."""

    segments: list[Segment]

    def segment_of(self, offset: int) -> Segment:
        return self.segments[(offset - self.segments[0].start) // self.segments[0].size]

    def read(self, begin: int, end: int) -> bytes | memoryview:
        return self.segment_of(begin).read(begin, end)


def recover_log(
    disk: Disk, directory: Path, segments: list[Segment], flushed: int | None, *, epoch: int = 0, clean: bool
) -> LogEnd:
    """Find the log's end, truncate the tail after it, and drop removed segments from ``segments``.

    ``flushed`` and ``epoch`` come from the checkpoint: no record above ``flushed`` has a lower
    epoch. If ``flushed`` is ``None`` there is no checkpoint: read the whole log, and treat a bad
    record with an intact one after it as damage. After a ``clean`` stop there is no tail, and every
    bad record is damage.
    """
    if not segments:
        if flushed:
            raise CorruptStoreError(str(directory), 0, f"the log is missing; {flushed} bytes were flushed")
        return LogEnd(0, 0, 0, 0)
    begin = segments[0].start if flushed is None else flushed
    if begin > segments[-1].end or begin < segments[0].start:
        reason = f"the log has only {segments[0].start} … {segments[-1].end}, and {begin} was flushed"
        raise CorruptStoreError(str(directory), begin, reason)
    for segment in segments:
        if segment.file.size < min(begin, segment.end) - segment.start:
            reason = "the file is shorter than what was flushed to it"
            raise CorruptStoreError(str(segment.file.path), segment.file.size, reason)
    reader = _TailReader(segments, begin, epoch)
    end = reader.find_end()
    segment = segments[min((end - segments[0].start) // segments[0].size, len(segments) - 1)]
    has_records_after = (flushed is None or not reader.ended_well) and reader.has_record_after(end)
    if flushed is None and has_records_after:
        reason = "a record is damaged, and intact records follow it"
        raise CorruptStoreError(str(segment.file.path), end - segment.start, reason)
    if clean and not reader.ended_well:
        reason = "a record is damaged although the last stop was clean"
        raise CorruptStoreError(str(segment.file.path), end - segment.start, reason)
    if not reader.ended_well:
        save_tail(disk, directory, segment, end, has_records=has_records_after)
    truncate_log(disk, directory, segments, end, clean=clean)
    if not clean:
        # What was read above the flushed offset may be in the page cache only. From now on it
        # counts as flushed, in whatever segment it is.
        for segment in segments:
            if segment.end > begin:
                segment.file.sync()
    return LogEnd(end, reader.epoch, reader.store_timestamp, reader.records)


class _TailReader:
    """A reader of the log's tail.

    It stops at the first record that is damaged, belongs to another log offset, or has a lower
    epoch than the record before it.
    """

    def __init__(self, segments: list[Segment], begin: int, epoch: int) -> None:
        self._segments = segments
        self._at = begin
        self.epoch = epoch
        self.store_timestamp = 0
        self.records = 0
        self.ended_well = True  # zeros follow the last record, not a bad or partial one

    def find_end(self) -> int:
        for segment in self._segments:
            if segment.end <= self._at:
                continue
            if not self._read_segment(segment):
                break
        return self._at

    def _read_segment(self, segment: Segment) -> bool:
        """Read the segment; return whether the log continues in the next one."""
        window = _WINDOW
        while self._at < segment.end:
            data = segment.read_exactly(self._at, min(segment.end, self._at + window))  # else the log would end here
            if not data:
                return False
            read_to = self._at + len(data)
            found = scan(data, limits=STORED_LIMITS)
            good = self._count_good(data, found.starts)
            if good < found.starts.size:
                self._at += int(found.starts[good])
                self.ended_well = False
                return False
            self._at += found.end
            blank = int.from_bytes(data[found.end : found.end + 4], "big") if found.stop is ScanStop.BLANK else 0
            if blank and self._at + blank == segment.end:
                self._at = segment.end
            elif (
                found.stop is ScanStop.INCOMPLETE and read_to < segment.end and window <= STORED_LIMITS.max_record_bytes
            ):
                window = _WINDOW if found.end else 2 * window  # a record crosses the window's end
            elif found.stop is not ScanStop.END:
                self.ended_well = found.stop is ScanStop.ZERO
                return False
        return True

    def _count_good(self, data: bytes, starts: npt.NDArray[np.int64]) -> int:
        """Count the valid records before the first bad one."""
        if starts.size == 0:
            return 0
        columns = RecordColumns(data, starts)
        header = columns.header
        bad = header["commitlog_offset"] != starts + self._at
        bad[find_faults(columns, limits=STORED_LIMITS)] = True
        epochs = header["epoch"].astype(np.int64)
        highest = np.maximum.accumulate(np.maximum(epochs, self.epoch))
        bad |= epochs < highest
        good = int(bad.argmax()) if bad.any() else int(starts.size)
        if good:
            self.epoch = int(highest[good - 1])
            self.store_timestamp = int(header["store_timestamp"][:good].max())
            self.records += good
        return good

    def has_record_after(self, end: int) -> bool:
        """Whether any intact record follows the one at ``end``."""
        for segment in self._segments:
            base = max(end, segment.start)
            data = segment.read_exactly(base, segment.end) if base < segment.end else b""
            for position in possible_records(data).tolist():
                if base + position != end and is_record_at(data, position, base + position):
                    return True
        return False
