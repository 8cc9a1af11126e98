"""A segment: one file of the log, ``commitlog/<20-digit start offset>``, of fixed size."""

from __future__ import annotations

import errno
import logging
import re
import struct
from functools import cached_property
from pathlib import Path
from typing import Final

from litemq.errors import DiskFullError
from litemq.format.record import BLANK_MAGIC
from litemq.storage.files.disk import Disk, OpenFile, release_pages

__all__ = ["Segment", "blank_record", "remove_segments", "segment_path", "segment_starts"]

_BLANK: Final = struct.Struct(">II")
_PAGE_BYTES: Final = 4096  # the kernel reads whole pages
_ZEROS_AT_ONCE: Final = 1 << 20
_ZEROS: Final = bytes(_ZEROS_AT_ONCE)  # a comparison takes a twentieth of a search for the last other byte
_LOG = logging.getLogger(__name__)


def segment_path(directory: Path, start: int) -> Path:
    return directory / f"{start:020d}"


def segment_starts(directory: Path) -> list[int]:
    """List the start offsets of the segments in a directory, rising."""
    return sorted(int(path.name) for path in directory.iterdir() if re.fullmatch("[0-9]{20}", path.name))


def remove_segments(disk: Disk, directory: Path, segments: list[Segment]) -> None:
    """Remove segments from one end of the log, the outermost first.

    Each removal is durable before the next: a power cut never leaves a gap.
    """
    for segment in segments:
        disk.unlink(segment.file.path)
        disk.sync_directory(directory)


def blank_record(size: int) -> bytes:
    """Return the record of ``size`` bytes that fills the rest of a segment: a head, then zeros."""
    return _BLANK.pack(size, BLANK_MAGIC).ljust(size, b"\0")


class Segment:
    """One file of the log. Offsets are log offsets: byte ``n`` of the file is ``start + n``."""

    def __init__(self, file: OpenFile, start: int, size: int) -> None:
        self.file = file
        self.start = start
        self.size = size
        self.end = start + size
        self._cooled = start
        self._is_unreadable = False  # in part, and logged

    @classmethod
    def create(cls, disk: Disk, directory: Path, start: int, size: int) -> Segment:
        """Create a segment. It is durable in its directory before any record is written to it."""
        file = disk.open(segment_path(directory, start), create=True)
        try:
            file.reserve(size)
            file.sync()
        except BaseException:
            disk.unlink(file.path)  # recovery would take an empty file for a segment
            raise
        disk.sync_directory(directory)
        return cls(file, start, size)

    @classmethod
    def open(cls, disk: Disk, directory: Path, start: int, size: int) -> Segment:
        return cls(disk.open(segment_path(directory, start)), start, size)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        self.file.write(data, offset - self.start)

    def zero_from(self, offset: int) -> None:
        """Make everything from ``offset`` on zero, durably, so that old records are never read.

        The file keeps its space on the disk, so that a full disk does not refuse the next records.
        """
        try:
            self._write_zeros(offset - self.start)
        except DiskFullError:  # a file system that copies on write
            self.file.truncate(offset - self.start)
        if self.file.size != self.size:
            self.file.truncate(self.size)
        self.file.sync()

    def _write_zeros(self, begin: int) -> None:
        for first, end in self.file.data_ranges(begin):
            for at in range(first, end, _ZEROS_AT_ONCE):
                count = min(_ZEROS_AT_ONCE, end - at)
                zeros = _ZEROS[:count]
                if self.file.read(count, at) != zeros:
                    self.file.write(zeros, at)

    @cached_property
    def mapped(self) -> memoryview:
        """The mapped file. Views of it stay readable after the segment is removed from the log."""
        return self.file.map(self.size)

    def unmap(self) -> None:
        """Drop the mapping. It ends when its last reader drops it, too."""
        self.__dict__.pop("mapped", None)

    def cool(self, offset: int) -> None:
        """Release the memory before log offset ``offset``: reads of it use the file from now on."""
        if offset >= self.end:
            self.unmap()
        elif offset > self._cooled and "mapped" in self.__dict__:
            release_pages(self.mapped, self._cooled - self.start, offset - self.start)
            self._cooled = offset

    def read_if_cached(self, begin: int, end: int) -> bytes | None:
        """Read a copy if all of it is in the page cache; else return ``None``.

        Safe on the event loop.
        """
        return self.file.read_if_cached(end - begin, begin - self.start)

    def is_blank_from(self, offset: int) -> bool:
        """Whether one intact blank record fills the segment from ``offset`` on."""
        size = self.end - offset
        head = self.read(offset, offset + _BLANK.size)
        if int.from_bytes(head, "big") != size << 32 | BLANK_MAGIC:
            return False
        return self.read(offset, self.end) == blank_record(size)

    def read(self, begin: int, end: int) -> bytes:
        """Read a copy from the file. It may wait for the disk: not for the event loop.

        Sectors that the disk cannot read are zeros. No checksum of a record fits these, so they
        count as damage.
        """
        try:
            return self.read_exactly(begin, end)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            if not self._is_unreadable:
                self._is_unreadable = True
                _LOG.error("%s: the disk cannot read a part of this file: %s", self.file.path, error)
            return self._read_around(begin, end)

    def read_exactly(self, begin: int, end: int) -> bytes:
        """Read as ``read`` does, but raise ``OSError`` if the disk cannot read a part."""
        return self.file.read(end - begin, begin - self.start)

    def _read_around(self, begin: int, end: int) -> bytes:
        """Read page by page, with zeros for those that the disk cannot read."""
        parts = []
        end = min(end, self.start + self.file.size)
        while begin < end:
            until = min(end, begin - begin % _PAGE_BYTES + _PAGE_BYTES)
            try:
                parts.append(self.read_exactly(begin, until))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                parts.append(bytes(until - begin))
            begin = until
        return b"".join(parts)
