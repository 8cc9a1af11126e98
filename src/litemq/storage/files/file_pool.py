"""A pool of open files: the most recently used files stay open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from litemq.storage.files.disk import Disk, OpenFile, is_temporary

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
            file = self._open(path, create=create)
            self._files[path] = file
            if len(self._files) > self._max_open:
                self._files.popitem(last=False)
            return file

    def _open(self, path: Path, *, create: bool) -> OpenFile:
        try:
            return self._disk.open(path, create=create)
        except OSError as error:
            if not is_temporary(error) or not self._files:
                raise
        # The process has no descriptor left: give back those that are used least.
        for _ in range(-(-len(self._files) // 2)):
            self._files.popitem(last=False)
        return self._disk.open(path, create=create)

    def forget(self, path: Path) -> None:
        """Drop a file from the pool before it is removed."""
        with self._lock:
            self._files.pop(path, None)
