"""One file of the log: ``commitlog/<20-digit start offset>``, of a fixed size that is set aside when it is made."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from litemq.storage.files.disk import Disk, OpenFile, let_go

__all__ = ["Segment", "remove_segments", "segment_path", "segment_starts"]


def segment_path(directory: Path, start: int) -> Path:
    return directory / f"{start:020d}"


def segment_starts(directory: Path) -> list[int]:
    """Where the segments in a directory begin, rising."""
    return sorted(int(path.name) for path in directory.iterdir() if re.fullmatch("[0-9]{20}", path.name))


def remove_segments(disk: Disk, directory: Path, segments: list[Segment]) -> None:
    """Remove segments from one end of the log, the outermost first, each durably before the next: a power cut never leaves a gap."""
    for segment in segments:
        disk.unlink(segment.file.path)
        disk.sync_directory(directory)


class Segment:
    """Offsets are the log's: byte ``start + n`` of the log is byte n of the file."""

    def __init__(self, file: OpenFile, start: int, size: int) -> None:
        self.file = file
        self.start = start
        self.size = size
        self.end = start + size
        self._cooled = start

    @classmethod
    def create(cls, disk: Disk, directory: Path, start: int, size: int) -> Segment:
        """A new segment, durable in its directory before anything is written to it."""
        file = disk.open(segment_path(directory, start), create=True)
        try:
            file.reserve(size)
            file.sync()
        except BaseException:
            disk.unlink(file.path)  # an empty file would be taken for a segment
            raise
        disk.sync_directory(directory)
        return cls(file, start, size)

    @classmethod
    def open(cls, disk: Disk, directory: Path, start: int, size: int) -> Segment:
        return cls(disk.open(segment_path(directory, start)), start, size)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        self.file.write(data, offset - self.start)

    def cut(self, offset: int) -> None:
        """Make everything from ``offset`` on zero, durably: what was there is not read again, however valid it looks."""
        self.file.truncate(offset - self.start)
        self.file.truncate(self.size)  # zeros, and needs no space: a full disk is one of the reasons to come here
        self.file.sync()

    @cached_property
    def mapped(self) -> memoryview:
        """The segment in memory. Parts of it stay readable after the segment is gone from the log, as long as somebody holds them."""
        return self.file.map(self.size)

    def unmap(self) -> None:
        """Let go of the mapping; it ends when its last reader lets go, too."""
        self.__dict__.pop("mapped", None)

    def cool(self, offset: int) -> None:
        """What stands before a log offset is read from the file from now on, and need not be in memory."""
        if offset >= self.end:
            self.unmap()
        elif offset > self._cooled and "mapped" in self.__dict__:
            let_go(self.mapped, self._cooled - self.start, offset - self.start)
            self._cooled = offset

    def read_if_cached(self, begin: int, end: int) -> bytes | None:
        """A copy, if all of it is in the system's memory: it may be read on the event loop."""
        return self.file.read_if_cached(end - begin, begin - self.start)

    def read(self, begin: int, end: int) -> bytes:
        """A copy, read from the file: for what may have to come from the disk, off the event loop."""
        return self.file.read(end - begin, begin - self.start)
