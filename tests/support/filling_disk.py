"""A disk whose fill level the test sets."""

from pathlib import Path

from litemq.errors import DiskFullError
from litemq.storage.files.disk import Disk, OpenFile


class FillingDisk(Disk):
    """A file system with space for a number of segments."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.others = 0
        self.folder: Path | None = None

    def _used(self) -> int:
        assert self.folder is not None
        return self.others + sum(path.stat().st_size for path in (self.folder / "commitlog").iterdir())

    def used_fraction(self, path: Path) -> float:
        self.folder = path
        return self._used() / self.capacity

    def reserve(self, file: OpenFile, size: int) -> None:
        if self.folder is not None and self._used() + size > self.capacity:
            raise DiskFullError(f"no space left for {size} bytes of {file.path}")
        super().reserve(file, size)
