"""Reserved segments: space for the broker's own records when the disk is full."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from litemq.storage.files.disk import Disk
from litemq.storage.log.segment import segment_path

__all__ = ["SegmentReserve"]

RESERVED_SEGMENTS: Final = 2


class SegmentReserve:
    """The files ``commitlog/reserve-1 …``: allocated segments that are not part of the log yet."""

    def __init__(self, disk: Disk, directory: Path, segment_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._paths = [directory / f"reserve-{number}" for number in range(1, RESERVED_SEGMENTS + 1)]

    def fill(self) -> None:
        """Allocate the missing segments. Raise ``DiskFullError`` if there is no space."""
        for path in self._paths:
            if not path.exists() or path.stat().st_size < self._segment_bytes:
                file = self._disk.open(path, create=True)
                try:
                    file.reserve(self._segment_bytes)
                    file.sync()
                except BaseException:
                    self._disk.unlink(path)
                    raise
                self._disk.sync_directory(self._directory)

    def release(self) -> bool:
        """Give the space of a reserved segment back; return ``False`` if none is left."""
        for path in reversed(self._paths):
            if path.exists():
                self._disk.unlink(path)
                self._disk.sync_directory(self._directory)
                return True
        return False

    def take(self, start: int) -> bool:
        """Make a reserved segment the one at ``start``; return ``False`` if none is left."""
        for path in self._paths:
            if path.exists() and path.stat().st_size == self._segment_bytes:
                self._disk.rename(path, segment_path(self._directory, start))
                self._disk.sync_directory(self._directory)
                return True
        return False
