"""The pool of open files: bounded, and smaller if the process has no descriptors left."""

import errno
import os
from pathlib import Path

import pytest

from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.files.file_pool import FilePool


class _FewDescriptors(Disk):
    """A disk that refuses to open a file while ``pool`` has more than ``most``."""

    pool: FilePool | None = None
    most = 100

    def open(self, path: Path, *, create: bool = False) -> OpenFile:
        if self.pool is not None and len(self.pool) > self.most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().open(path, create=create)


def test_the_latest_files_stay_open(tmp_path: Path) -> None:
    pool = FilePool(Disk(), 3)
    first = pool.get(tmp_path / "0", create=True)
    for number in range(1, 4):
        pool.get(tmp_path / str(number), create=True)
    assert len(pool) == 3
    assert pool.get(tmp_path / "3") is pool.get(tmp_path / "3")
    assert pool.get(tmp_path / "0") is not first
    pool.forget(tmp_path / "0")
    assert len(pool) == 2


def test_without_descriptors_the_pool_gives_some_back(tmp_path: Path) -> None:
    disk = _FewDescriptors()
    pool = disk.pool = FilePool(disk, 100)
    for number in range(8):
        pool.get(tmp_path / str(number), create=True)
    disk.most = 5
    pool.get(tmp_path / "more", create=True)
    assert len(pool) == 5
    disk.most = -1
    with pytest.raises(OSError, match="Too many open files"):
        pool.get(tmp_path / "never", create=True)
