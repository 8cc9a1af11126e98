"""The commit log: a sequence of segments with one writer.

A record never spans two segments; a blank record fills the rest of a segment. ``CommitLog`` knows
the written end, ``Flusher`` the flushed one, and ``Confirmation`` the one up to which the log may
be read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt

from litemq.errors import DiskFullError, InvalidArgumentError, OffsetOutOfRangeError, StorageError, StoreFailedError
from litemq.storage.files.disk import Disk, is_temporary
from litemq.storage.log.reserve import SegmentReserve
from litemq.storage.log.segment import Segment, blank_record, remove_segments

__all__ = ["HOT_BYTES", "CommitLog"]

Longs = npt.NDArray[np.int64]

HOT_BYTES: Final = 256 << 20


class CommitLog:
    """The segments of a data directory, from the oldest retained one."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        segments: list[Segment],
        end: int,
        segment_bytes: int,
        *,
        hot_bytes: int = HOT_BYTES,
    ) -> None:
        self.disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._hot_bytes = hot_bytes
        self.reserve = SegmentReserve(disk, directory, segment_bytes)
        self.segments = segments
        self.end = end
        self.failure: str | None = None
        self.on_failure: Callable[[str], object] = lambda _reason: None  # called once, by any thread
        self.end_syncs: Callable[[], object] = lambda: None  # nothing is flushed after a failure
        self.on_end: Callable[[], object] = lambda: None  # and nothing is confirmed

    @property
    def start(self) -> int:
        """The offset of the oldest retained byte."""
        return self.segments[0].start if self.segments else self.end

    def allocate(self, sizes: Longs) -> Longs:
        """Return the offsets of records of ``sizes`` if they are written next."""
        offsets = np.cumsum(sizes)
        offsets += self.end - sizes
        segment_end = self._segment_end()
        if sizes.size and int(offsets[-1] + sizes[-1]) > segment_end and int(sizes.max()) > self._segment_bytes:
            raise InvalidArgumentError(
                f"a record of {int(sizes.max())} bytes does not fit a segment of {self._segment_bytes} bytes"
            )
        first = 0
        while first < offsets.size and int(offsets[-1] + sizes[-1]) > segment_end:
            first += int(np.searchsorted(offsets[first:] + sizes[first:], segment_end, side="right"))
            offsets[first:] += segment_end - offsets[first]
            segment_end += self._segment_bytes
        return offsets

    def _segment_end(self) -> int:
        """The end of the segment that the next record begins in."""
        last = self.segments[-1] if self.segments else None
        return last.end if last is not None and self.end < last.end else self.end + self._segment_bytes

    def write(
        self,
        data: bytes | bytearray | memoryview,
        starts: Longs,
        sizes: Longs,
        offsets: Longs,
        *,
        from_reserve: bool = False,
    ) -> list[Segment]:
        """Write stamped records at ``offsets``, as allocated; return the dirty segments.

        The records are contiguous in ``data``. The write is atomic: a failed write is truncated. If
        ``from_reserve``, the log may take a reserved segment on a full disk.
        """
        if sizes.size == 0:
            raise InvalidArgumentError("nothing to write: pass at least one record")
        if self.failure is not None:
            raise StoreFailedError(self.failure)
        view = memoryview(data)
        before = self.end
        kept = len(self.segments)
        begin, end = int(starts[0]), int(starts[-1] + sizes[-1])
        if int(offsets[-1] + sizes[-1]) == before + end - begin and self.fits(end - begin):
            return [self.append(view[begin:end])]  # as nearly always
        if (starts[1:] != starts[:-1] + sizes[:-1]).any():
            raise InvalidArgumentError("the records to write must be contiguous in the buffer")
        numbers = (offsets - (self.segments[0].start if self.segments else before)) // self._segment_bytes
        rolls = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        try:
            for first, after in pairwise([0, *rolls.tolist(), offsets.size]):
                segment = self._segment_for(int(offsets[first]), from_reserve=from_reserve)
                begin, end = int(starts[first]), int(starts[after - 1] + sizes[after - 1])
                segment.write(view[begin:end], int(offsets[first]))
                self.end = int(offsets[first]) + end - begin
        except (DiskFullError, OSError) as error:
            self._undo(before, kept, error)
        return self.segments[max(0, kept - 1) :]

    def check_next(self, begin: int, size: int) -> None:
        """Raise ``OffsetOutOfRangeError`` unless ``size`` bytes at ``begin`` may be written next.

        ``begin`` is the end of the log, or the end of its last segment, after a blank record. A
        segment has space for all of them.
        """
        last = self.segments[-1] if self.segments else None
        segment_end = self._segment_end()
        if last is not None and begin == last.end > self.end:
            segment_end += self._segment_bytes
        elif begin != self.end:
            raise OffsetOutOfRangeError(f"the log ends at {self.end}: records at {begin} do not follow")
        if begin + size > segment_end:
            raise OffsetOutOfRangeError(f"{size} bytes at {begin} exceed the segment, which ends at {segment_end}")

    def is_blank_at(self, offset: int) -> bool:
        """Whether an intact blank record at ``offset`` fills the rest of its segment."""
        return self.segment_of(offset).is_blank_from(offset)

    def fits(self, size: int) -> bool:
        """Whether the last segment has space for ``size`` more bytes."""
        return bool(self.segments) and self.end < self.segments[-1].end and self.end + size <= self.segments[-1].end

    def append(self, data: bytearray | memoryview) -> Segment:
        """Write stamped records that fit the last segment, as ``write`` does; return it."""
        if self.failure is not None:
            raise StoreFailedError(self.failure)
        segment, before = self.segments[-1], self.end
        try:
            segment.write(data, before)
        except (DiskFullError, OSError) as error:
            self._undo(before, len(self.segments), error)
        self.end = before + len(data)
        return segment

    def _segment_for(self, offset: int, *, from_reserve: bool) -> Segment:
        """Return the segment of ``offset``. Before a new one, fill the last with a blank record."""
        last = self.segments[-1] if self.segments else None
        if last is not None and offset < last.end:
            return last
        if last is not None and self.end < last.end:
            last.write(blank_record(last.end - self.end)[:8], self.end)  # zeros follow
        try:
            segment = Segment.create(self.disk, self._directory, offset, self._segment_bytes)
        except DiskFullError as error:
            if not (from_reserve and self.reserve.take(offset)):
                if last is None:
                    raise DiskFullError(f"{error}: free disk space, or choose a smaller storage.file_size") from None
                raise
            segment = Segment.open(self.disk, self._directory, offset, self._segment_bytes)
        self.segments = [*self.segments, segment]  # a new list: other threads read the old one
        return segment

    def cool(self) -> None:
        """Release the memory of records that are no longer hot. Only for one thread at a time."""
        for segment in reversed(self.segments):
            segment.cool(self.hot_from)

    def _undo(self, before: int, kept: int, error: Exception) -> NoReturn:
        """Truncate a failed write, so that no part of it is ever read; then raise.

        If the disk is full, or the process lacks descriptors, the log remains usable. After any
        other error, writing stops for good.
        """
        try:
            remove_segments(self.disk, self._directory, list(reversed(self.segments[kept:])))
            self.segments = self.segments[:kept]
            if self.segments and before < self.segments[-1].end:
                self.segments[-1].zero_from(before)
            self.end = before
        except OSError as second:
            self.end = before
            self.fail(f"a write failed ({error}), and truncating it failed, too ({second})")
            raise StoreFailedError(self.failure) from error
        if isinstance(error, DiskFullError):
            raise error
        if is_temporary(error):
            raise StorageError(f"cannot write to the log: {error}. Retry later") from error
        self.fail(f"a write failed: {error}")
        raise StoreFailedError(self.failure) from error

    def fail(self, reason: str) -> None:
        """Stop writing for good: the contents of the disk are no longer certain."""
        if self.failure is None:
            self.failure = f"{reason}; writing has stopped: restart the broker to recover from disk"
            self.end_syncs()
            self.on_end()
            self.on_failure(self.failure)

    def segment_of(self, offset: int) -> Segment:
        """Return the segment that contains ``offset``, or raise ``OffsetOutOfRangeError``."""
        segments = self.segments
        at = bisect_right(segments, offset, key=lambda segment: segment.start) - 1
        if at < 0 or offset >= segments[at].end:
            raise OffsetOutOfRangeError(f"log offset {offset} is out of range: the log has {self.start} … {self.end}")
        return segments[at]

    def segment_numbers(self, offsets: Longs) -> Longs:
        """Return a number for each offset that is equal within a segment."""
        return offsets // self._segment_bytes

    @property
    def hot_from(self) -> int:
        """The offset from which on records are recent enough to be in memory."""
        return self.end - self._hot_bytes

    def is_hot(self, offset: int) -> bool:
        """Whether the record at ``offset`` is recent enough to be in memory."""
        return offset >= self.hot_from

    def read(self, begin: int, end: int) -> bytes | memoryview:
        """Read bytes of one segment, up to its end: from memory if hot, else from the file.

        The caller checks that they are confirmed.
        """
        segment = self.segment_of(begin)
        if self.is_hot(begin):
            return segment.mapped[begin - segment.start : end - segment.start]
        return segment.read(begin, min(end, segment.end))

    def read_if_cached(self, begin: int, end: int) -> bytes | memoryview | None:
        """Read as ``read`` does if no disk access is needed.

        Return ``None`` if one is, or if the segment ends before ``end``.
        """
        segment = self.segment_of(begin)
        if end > segment.end:
            return None
        if self.is_hot(begin):
            return segment.mapped[begin - segment.start : end - segment.start]
        return segment.read_if_cached(begin, end)

    def drop_before(self, offset: int) -> list[Segment]:
        """Remove the segments that end at or before ``offset``, except the last.

        Readers keep the bytes that they hold.
        """
        dropped = [segment for segment in self.segments[:-1] if segment.end <= offset]
        remove_segments(self.disk, self._directory, dropped)
        self.segments = self.segments[len(dropped) :]
        return dropped
