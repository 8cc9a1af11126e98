"""A pool of open files: the most recently used files stay open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from litemq.storage.files.disk import Disk, OpenFile

__all__ = ["FilePool"]


class FilePool:
    """Opens files on demand, for any thread, and keeps at most ``max_open`` of them.

    A file that leaves the pool closes with its last reference.
    """

    def __init__(self, disk: Disk, max_open: int) -> None:
        self._disk = disk
        self._max_open = max_open
        self._files: OrderedDict[Path, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: Path, *, create: bool = False) -> OpenFile:
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                return file
            if create and not path.parent.exists():
                self._disk.make_directory(path.parent)
            file = self._disk.open(path, create=create)
            self._files[path] = file
            if len(self._files) > self._max_open:
                self._files.popitem(last=False)
            return file

    def forget(self, path: Path) -> None:
        """Drop a file from the pool before it is removed."""
        with self._lock:
            self._files.pop(path, None)
