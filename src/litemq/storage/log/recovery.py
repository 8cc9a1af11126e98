"""Where the log ends, found again after any kind of stop.

Below the checkpoint's flushed offset everything was safely on disk: what is bad there is damage, and is never cut off. Above it, a
power cut may have left anything; the first bad record ends the log, and what stands behind it is cut off durably before any append. An
epoch that falls ends the log, too: it is the tail of a log that was cut off before, whose records still look valid.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, StorageError
from litemq.format.batches.check import find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.files.disk import Disk
from litemq.storage.log.reader import is_record_at, possible_records
from litemq.storage.log.segment import Segment, remove_segments, segment_path, segment_starts

__all__ = ["LogEnd", "find_log_end", "find_segments", "recover_log"]

_WINDOW = 16 << 20
_LOG = logging.getLogger(__name__)


class LogEnd(NamedTuple):
    """What recovery found: where the log ends, and what its last records said."""

    offset: int
    last_epoch: int
    last_store_timestamp: int
    records_checked: int


def find_segments(disk: Disk, directory: Path, segment_bytes: int) -> list[Segment]:
    """The segments of a directory, one behind another without a gap."""
    starts = segment_starts(directory)
    for one, other in pairwise(starts):
        if other != one + segment_bytes:
            size = segment_path(directory, one).stat().st_size
            if other == one + size:
                raise StorageError(f"{directory}: the log was written with segment_bytes={size}, not {segment_bytes}; it cannot be changed")
            raise CorruptStoreError(str(directory), one + segment_bytes, f"the segment is missing; the next one is {other:020d}")
    return [Segment.open(disk, directory, start, segment_bytes) for start in starts]


def find_log_end(segments: list[Segment], begin: int) -> int:
    """Where the log ends, as far as its records tell it from ``begin`` on."""
    return _TailReader(segments, begin, 0).find_end()


def recover_log(disk: Disk, directory: Path, segments: list[Segment], flushed: int | None, *, epoch: int = 0, clean: bool) -> LogEnd:
    """Find the log's end and cut off what stands behind it. ``segments`` loses those that were cut off whole.

    ``flushed`` is what the checkpoint says, ``None`` without one: then the whole log is read, and a bad record with a good one behind
    it is taken for damage. After a ``clean`` stop there is nothing to cut off, and a bad record is damage wherever it stands. ``epoch``
    is the checkpoint's: no record above what was flushed is older.
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
    reader = _TailReader(segments, begin, epoch)
    end = reader.find_end()
    segment = segments[min((end - segments[0].start) // segments[0].size, len(segments) - 1)]
    records_behind = (flushed is None or not reader.ended_well) and reader.has_record_behind(end)
    if flushed is None and records_behind:
        raise CorruptStoreError(str(segment.file.path), end - segment.start, "a record is damaged, and whole ones stand behind it")
    if clean and not reader.ended_well:
        raise CorruptStoreError(str(segment.file.path), end - segment.start, "a record is damaged, and the last stop was a clean one")
    if not reader.ended_well:
        _keep_what_is_cut_off(disk, directory, segment, end, worth_keeping=records_behind)
    _cut(disk, directory, segments, end, clean=clean)
    return LogEnd(end, reader.epoch, reader.store_timestamp, reader.records)


def _keep_what_is_cut_off(disk: Disk, directory: Path, segment: Segment, end: int, *, worth_keeping: bool) -> None:
    """Say what goes; where whole records stand in it, keep a copy. A power cut leaves such a tail, but so does a flipped bit."""
    tail = segment.read(end, segment.end).rstrip(b"\0")
    place = f"{segment.file.path}, byte {end - segment.start}"
    if not worth_keeping:
        _LOG.warning("%s: %d bytes that were being written when the last process ended are cut off", place, len(tail))
        return
    path = directory.parent / f"cut-off-{end:020d}"
    file = disk.open(path, create=True)
    file.write(tail, 0)
    file.sync()
    disk.sync_directory(path.parent)
    _LOG.error("%s: the log ends with a damaged record; %d bytes behind it are cut off, and kept in %s", place, len(tail), path)


def _cut(disk: Disk, directory: Path, segments: list[Segment], end: int, *, clean: bool) -> None:
    """Make everything from ``end`` on zero, durably. After a crash it cannot be trusted to be zero: writes are not made in order."""
    behind = [segment for segment in segments if segment.start >= end and segment is not segments[0]]
    remove_segments(disk, directory, behind[::-1])
    del segments[len(segments) - len(behind) :]
    last = segments[-1]
    if end < last.end and not (clean and last.file.size == last.size):
        last.cut(end)


class _TailReader:
    """Reads records from an offset on as long as they are whole, in place, and of an epoch that does not fall."""

    def __init__(self, segments: list[Segment], begin: int, epoch: int) -> None:
        self._segments = segments
        self._at = begin
        self.epoch = epoch
        self.store_timestamp = 0
        self.records = 0
        self.ended_well = True  # nothing stands at the end: neither a bad record nor what is left of one

    def find_end(self) -> int:
        for segment in self._segments:
            if segment.end <= self._at:
                continue
            if not self._read_segment(segment):
                break
        return self._at

    def _read_segment(self, segment: Segment) -> bool:
        """Whether the segment is full, so that the log goes on in the next one."""
        window = _WINDOW
        while self._at < segment.end:
            data = segment.read(self._at, min(segment.end, self._at + window))
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
            elif found.stop is ScanStop.INCOMPLETE and read_to < segment.end and window <= STORED_LIMITS.max_record_bytes:
                window = _WINDOW if found.end else 2 * window  # the window cuts a record, or holds less than one
            elif found.stop is not ScanStop.END:
                self.ended_well = found.stop is ScanStop.ZERO
                return False
        return True

    def _count_good(self, data: bytes, starts: npt.NDArray[np.int64]) -> int:
        """How many records from the first on are whole and belong here."""
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

    def has_record_behind(self, end: int) -> bool:
        """Whether a whole record that belongs there stands anywhere behind ``end``."""
        for segment in self._segments:
            base = max(end, segment.start)
            data = segment.read(base, segment.end) if base < segment.end else b""
            for position in possible_records(data).tolist():
                if base + position != end and is_record_at(data, position, base + position):
                    return True
        return False
