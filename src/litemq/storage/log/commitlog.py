"""The log: segments one behind another, appended to by one writer.

A record never spans two segments; what is left of a segment is one blank record. The log knows how far it is written; how far it is
flushed, and so how far it may be read, is the flusher's to say.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt

from litemq.errors import DiskFullError, InvalidArgumentError, OffsetOutOfRangeError, StoreFailedError
from litemq.format.record import BLANK_MAGIC
from litemq.storage.files.disk import Disk
from litemq.storage.log.reserve import SegmentReserve
from litemq.storage.log.segment import Segment, remove_segments

__all__ = ["HOT_BYTES", "CommitLog"]

Longs = npt.NDArray[np.int64]

_BLANK: Final = struct.Struct(">II")
HOT_BYTES: Final = 256 << 20


class CommitLog:
    """The segments of a data directory, from the oldest that is kept."""

    def __init__(
        self, disk: Disk, directory: Path, segments: list[Segment], end: int, segment_bytes: int, *, hot_bytes: int = HOT_BYTES
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._hot_bytes = hot_bytes
        self.reserve = SegmentReserve(disk, directory, segment_bytes)
        self.segments = segments
        self.end = end
        self.failure: str | None = None

    @property
    def start(self) -> int:
        """The offset of the oldest byte that is kept."""
        return self.segments[0].start if self.segments else self.end

    def place(self, sizes: Longs) -> Longs:
        """Where records of these sizes will stand if they are written next."""
        offsets = np.cumsum(sizes)
        offsets += self.end - sizes
        segment_end = self._segment_end()
        if sizes.size and int(offsets[-1] + sizes[-1]) > segment_end and int(sizes.max()) > self._segment_bytes:
            raise InvalidArgumentError(f"a record of {int(sizes.max())} bytes does not fit a segment of {self._segment_bytes}")
        first = 0
        while first < offsets.size and int(offsets[-1] + sizes[-1]) > segment_end:
            first += int(np.searchsorted(offsets[first:] + sizes[first:], segment_end, side="right"))
            offsets[first:] += segment_end - offsets[first]
            segment_end += self._segment_bytes
        return offsets

    def _segment_end(self) -> int:
        """The end of the segment that is being written to; at a border that is the next one."""
        last = self.segments[-1] if self.segments else None
        return last.end if last is not None and self.end < last.end else self.end + self._segment_bytes

    def write(
        self, data: bytes | bytearray | memoryview, starts: Longs, sizes: Longs, offsets: Longs, *, from_reserve: bool = False
    ) -> list[Segment]:
        """Write stamped records, one behind another in ``data``, where ``place`` put them; returns the segments that are dirty now.

        All of them are written, or none: what a failed write left is cut off again. Those that must not fail for lack of space may take
        a segment ``from_reserve``.
        """
        if sizes.size == 0:
            raise InvalidArgumentError("at least one record is written")
        if self.failure is not None:
            raise StoreFailedError(self.failure)
        view = memoryview(data)
        before = self.end
        kept = len(self.segments)
        begin, end = int(starts[0]), int(starts[-1] + sizes[-1])
        if kept and before < self.segments[-1].end and int(offsets[-1] + sizes[-1]) == before + end - begin <= self.segments[-1].end:
            # As nearly always: one behind another, and all in the segment that is being written to.
            try:
                self.segments[-1].write(view[begin:end], before)
            except (DiskFullError, OSError) as error:
                self._undo(before, kept, error)
            self.end = before + end - begin
            return self.segments[-1:]
        if (starts[1:] != starts[:-1] + sizes[:-1]).any():
            raise InvalidArgumentError("records to be written stand one behind another")
        numbers = (offsets - (self.segments[0].start if self.segments else before)) // self._segment_bytes
        rolls = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        try:
            for first, behind in pairwise([0, *rolls.tolist(), offsets.size]):
                segment = self._segment_for(int(offsets[first]), from_reserve=from_reserve)
                begin, end = int(starts[first]), int(starts[behind - 1] + sizes[behind - 1])
                segment.write(view[begin:end], int(offsets[first]))
                self.end = int(offsets[first]) + end - begin
        except (DiskFullError, OSError) as error:
            self._undo(before, kept, error)
        return self.segments[max(0, kept - 1) :]

    def _segment_for(self, offset: int, *, from_reserve: bool) -> Segment:
        """The segment in which the next record begins: the last one, or a new one behind it once the rest of it is blank."""
        last = self.segments[-1] if self.segments else None
        if last is not None and offset < last.end:
            return last
        if last is not None and self.end < last.end:
            last.write(_BLANK.pack(last.end - self.end, BLANK_MAGIC), self.end)
        try:
            segment = Segment.create(self._disk, self._directory, offset, self._segment_bytes)
        except DiskFullError:
            if not (from_reserve and self.reserve.take(offset)):
                raise
            segment = Segment.open(self._disk, self._directory, offset, self._segment_bytes)
        self.segments = [*self.segments, segment]  # a new list: other threads look into the old one
        return segment

    def cool(self) -> None:
        """Let go of memory that holds what is hot no longer. From one thread."""
        for segment in reversed(self.segments):
            segment.cool(self.end - self._hot_bytes)

    def _undo(self, before: int, kept: int, error: Exception) -> NoReturn:
        """Cut off what a failed write left, so that no part of it is ever taken for records; where that fails, too, stop for good."""
        try:
            remove_segments(self._disk, self._directory, list(reversed(self.segments[kept:])))
            self.segments = self.segments[:kept]
            if self.segments and before < self.segments[-1].end:
                self.segments[-1].cut(before)
            self.end = before
        except OSError as second:
            self.end = before
            self.fail(f"a write failed ({error}), and cutting it off failed, too ({second})")
            raise StoreFailedError(self.failure) from error
        if isinstance(error, DiskFullError):
            raise error
        self.fail(f"a write failed: {error}")
        raise StoreFailedError(self.failure) from error

    def fail(self, reason: str) -> None:
        """Stop writing for good: what the disk holds is no longer certain."""
        self.failure = self.failure or f"{reason}; writing has stopped. Restart, and the store recovers from disk"

    def segment_of(self, offset: int) -> Segment:
        """The segment that holds an offset."""
        segments = self.segments
        at = bisect_right(segments, offset, key=lambda segment: segment.start) - 1
        if at < 0 or offset >= segments[at].end:
            raise OffsetOutOfRangeError(f"log offset {offset}: the log has {self.start} … {self.end}")
        return segments[at]

    def segment_numbers(self, offsets: Longs) -> Longs:
        """Numbers that are equal for offsets of one segment."""
        return offsets // self._segment_bytes

    def is_hot(self, offset: int) -> bool:
        """Whether what stands there was written so recently that it is in memory: reading it stops nobody."""
        return offset >= self.end - self._hot_bytes

    def read(self, begin: int, end: int) -> bytes | memoryview:
        """Bytes of one segment, from memory where they are hot, else from the file; fewer where the segment ends. The caller knows that
        they may be read."""
        segment = self.segment_of(begin)
        if self.is_hot(begin):
            return segment.mapped[begin - segment.start : end - segment.start]
        return segment.read(begin, min(end, segment.end))

    def read_if_there(self, begin: int, end: int) -> bytes | memoryview | None:
        """The same, unless it would have to come from the disk; nothing, too, where the segment ends before ``end``."""
        segment = self.segment_of(begin)
        if end > segment.end:
            return None
        if self.is_hot(begin):
            return segment.mapped[begin - segment.start : end - segment.start]
        return segment.read_if_cached(begin, end)

    def drop_before(self, offset: int) -> list[Segment]:
        """Take away the segments that end at or before ``offset``, except the last. Their readers keep what they hold."""
        dropped = [segment for segment in self.segments[:-1] if segment.end <= offset]
        remove_segments(self._disk, self._directory, dropped)
        self.segments = self.segments[len(dropped) :]
        return dropped
