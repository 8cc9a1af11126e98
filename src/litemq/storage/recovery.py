"""Where the log ends, found again after any kind of stop.

Below the checkpoint's flushed offset everything was safely on disk: what is bad there is damage, and is never cut off. Above it, a
power cut may have left anything; the first bad record ends the log, and what stands behind it is cut off durably before any append. An
epoch that falls ends the log, too: it is the tail of a log that was cut off before, whose records still look valid.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, RecordFormatError
from litemq.format.check import find_faults
from litemq.format.columns import RecordColumns
from litemq.format.limits import RecordLimits
from litemq.format.record import MAGIC, decode_record
from litemq.format.scan import ScanStop, scan
from litemq.storage.files import Disk
from litemq.storage.segment import Segment

__all__ = ["LogEnd", "find_segments", "recover_log"]

_WINDOW = 16 << 20


class LogEnd(NamedTuple):
    """What recovery found: where the log ends, and what its last records said."""

    offset: int
    last_epoch: int
    last_store_timestamp: int
    records_checked: int


def find_segments(disk: Disk, directory: Path, segment_bytes: int) -> list[Segment]:
    """The segments of a directory, one behind another without a gap."""
    starts = sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit() and len(path.name) == 20)
    for one, other in pairwise(starts):
        if other != one + segment_bytes:
            raise CorruptStoreError(str(directory), one + segment_bytes, f"the segment is missing; the next one is {other:020d}")
    return [Segment.open(disk, directory, start, segment_bytes) for start in starts]


def recover_log(disk: Disk, directory: Path, segments: list[Segment], flushed: int | None, limits: RecordLimits, *, clean: bool) -> LogEnd:
    """Find the log's end and cut off what stands behind it. ``segments`` loses those that were cut off whole.

    ``flushed`` is what the checkpoint says, ``None`` without one: then the whole log is read, and a bad record with a good one behind
    it is taken for damage. After a ``clean`` stop there is nothing to cut off, and a bad record is damage wherever it stands.
    """
    if not segments:
        if flushed:
            raise CorruptStoreError(str(directory), 0, f"the log is gone; the checkpoint knows of {flushed} bytes")
        return LogEnd(0, 0, 0, 0)
    begin = segments[0].start if flushed is None else flushed
    if begin > segments[-1].end or begin < segments[0].start:
        raise CorruptStoreError(str(directory), begin, f"the log has only {segments[0].start} … {segments[-1].end} of what was flushed")
    for segment in segments:
        if segment.file.size < min(begin, segment.end) - segment.start:
            raise CorruptStoreError(str(segment.file.path), segment.file.size, "the file ends before what was flushed to it does")
    reader = _TailReader(segments, begin, limits)
    end = reader.find_end()
    if flushed is None and reader.has_record_behind(end):
        segment = segments[min((end - segments[0].start) // segments[0].size, len(segments) - 1)]
        raise CorruptStoreError(str(segment.file.path), end - segment.start, "a record is damaged, and whole ones stand behind it")
    if not clean:
        _cut(disk, directory, segments, end)
    return LogEnd(end, reader.epoch, reader.store_timestamp, reader.records)


def _cut(disk: Disk, directory: Path, segments: list[Segment], end: int) -> None:
    """Make everything from ``end`` on zero, durably. What is there cannot be trusted to be zero already: writes are not made in order."""
    behind = [segment for segment in segments if segment.start >= end and segment is not segments[0]]
    for segment in behind:
        disk.unlink(segment.file.path)
        segments.remove(segment)
    if behind:
        disk.sync_directory(directory)
    if end < segments[-1].end:
        segments[-1].cut(end)


class _TailReader:
    """Reads records from an offset on as long as they are whole, in place, and of an epoch that does not fall."""

    def __init__(self, segments: list[Segment], begin: int, limits: RecordLimits) -> None:
        self._segments = segments
        self._at = begin
        self._limits = limits
        self.epoch = 0
        self.store_timestamp = 0
        self.records = 0

    def find_end(self) -> int:
        for segment in self._segments:
            if segment.end <= self._at:
                continue
            if not self._read_segment(segment):
                break
        return self._at

    def _read_segment(self, segment: Segment) -> bool:
        """Whether the segment is full, so that the log goes on in the next one."""
        window = max(_WINDOW, self._limits.max_record_bytes)
        while self._at < segment.end:
            data = segment.read(self._at, min(segment.end, self._at + window))
            if not data:
                return False
            found = scan(data, limits=self._limits)
            good = self._count_good(data, found.starts)
            if good:
                self._at += int(found.starts[good]) if good < found.starts.size else found.end
            if good < found.starts.size:
                return False
            if found.stop is ScanStop.BLANK:
                size = int.from_bytes(data[found.end : found.end + 4], "big")
                if size != segment.end - self._at:
                    return False
                self._at = segment.end
            elif found.stop is not ScanStop.END and (good == 0 or found.stop is not ScanStop.INCOMPLETE):
                return False
        return True

    def _count_good(self, data: bytes, starts: npt.NDArray[np.int64]) -> int:
        """How many records from the first on are whole and belong here."""
        if starts.size == 0:
            return 0
        columns = RecordColumns(data, starts)
        header = columns.header
        bad = header["commitlog_offset"] != starts + self._at
        bad[find_faults(columns, limits=self._limits)] = True
        epochs = header["epoch"].astype(np.int64)
        highest = np.maximum.accumulate(np.maximum(epochs, self.epoch))
        bad |= epochs < highest
        good = int(bad.argmax()) if bad.any() else int(starts.size)
        if good:
            self.epoch = int(highest[good - 1])
            self.store_timestamp = int(header["store_timestamp"][:good].max())
            self.records += good
        return good

    def has_record_behind(self, end: int) -> bool:
        """Whether a whole record that belongs there stands anywhere behind ``end``."""
        for segment in self._segments:
            base = max(end, segment.start)
            data = segment.read(base, segment.end) if base < segment.end else b""
            magics = np.frombuffer(data[: len(data) // 8 * 8], ">u4")[1::2] == MAGIC
            for position in (np.flatnonzero(magics) * 8).tolist():
                if base + position != end and self._is_record(data, position, base + position):
                    return True
        return False

    def _is_record(self, data: bytes, position: int, offset: int) -> bool:
        try:
            stamp = decode_record(data, position, limits=self._limits).stamp
        except RecordFormatError:
            return False
        return stamp is not None and stamp.commitlog_offset == offset
