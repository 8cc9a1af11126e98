"""A disk that has no space for the files that follow the log."""

from __future__ import annotations

import errno

from litemq.storage.files.disk import OpenFile
from support.quick_disk import QuickDisk


class FullDisk(QuickDisk):
    """A disk that refuses writes outside the log while ``is_full``."""

    is_full = False

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        if self.is_full and file.path.parent.name != "commitlog":
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(file, data, offset)
