"""File system operations: reads from the page cache never wait for the disk."""

import errno
import os
from pathlib import Path

import pytest

from litemq.storage.files import disk as files
from litemq.storage.files.disk import DISK, OpenFile


def _written(folder: Path) -> OpenFile:
    file = DISK.open(folder / "file", create=True)
    file.write(bytes(range(200)), 0)
    return file


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system cannot say what it has in memory")
def test_recent_writes_are_read_from_the_page_cache(tmp_path: Path) -> None:
    file = _written(tmp_path)
    assert file.read_if_cached(50, 100) == bytes(range(100, 150))
    assert file.read_if_cached(0, 0) == b""
    assert file.read_if_cached(50, 190) is None  # beyond the end of the file


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO])
def test_uncached_bytes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    file = _written(tmp_path)
    monkeypatch.setattr(files, "_NO_WAIT", 8)
    monkeypatch.setattr(os, "preadv", refuse)
    assert file.read_if_cached(50, 100) is None


def test_another_error_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))

    file = _written(tmp_path)
    monkeypatch.setattr(files, "_NO_WAIT", 8)
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(IsADirectoryError):
        file.read_if_cached(50, 100)


def test_without_nowait_support_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _written(tmp_path)
    monkeypatch.setattr(files, "_NO_WAIT", None)
    assert file.read_if_cached(50, 100) is None
