"""What the store asks of a file system."""

import errno
import os
from pathlib import Path

import pytest

from litemq.storage.files import disk as files
from litemq.storage.files.disk import DISK, OpenFile


def _written(place: Path) -> OpenFile:
    file = DISK.open(place / "file", create=True)
    file.write(bytes(range(200)), 0)
    return file


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system cannot say what it has in memory")
def test_what_was_just_written_is_read_without_waiting(tmp_path: Path) -> None:
    file = _written(tmp_path)
    assert file.read_if_cached(50, 100) == bytes(range(100, 150))
    assert file.read_if_cached(0, 0) == b""
    assert file.read_if_cached(50, 190) is None  # the file ends before


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EOPNOTSUPP])
def test_what_the_system_does_not_have_is_for_others_to_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    file = _written(tmp_path)
    monkeypatch.setattr(files, "_NO_WAIT", 8)
    monkeypatch.setattr(os, "preadv", refuse)
    assert file.read_if_cached(50, 100) is None


def test_a_broken_disk_is_not_taken_for_one_that_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = _written(tmp_path)
    monkeypatch.setattr(files, "_NO_WAIT", 8)
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="Input/output"):
        file.read_if_cached(50, 100)


def test_where_nobody_can_say_nothing_is_read_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _written(tmp_path)
    monkeypatch.setattr(files, "_NO_WAIT", None)
    assert file.read_if_cached(50, 100) is None
