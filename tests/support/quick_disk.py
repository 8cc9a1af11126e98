"""A disk that syncs nothing: for tests that stop a process, not the power."""

from __future__ import annotations

from pathlib import Path

from litemq.storage.files.disk import Disk, OpenFile


class QuickDisk(Disk):
    """A disk without syncs: written data survives the process, but not a power cut."""

    def fsync(self, file: OpenFile) -> None:
        pass

    def sync_all(self, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass
