"""Atomic creation of a file: complete and durable under its name, or absent."""

import errno
import os
from pathlib import Path

import pytest

from litemq.errors import DiskFullError, InvalidArgumentError, StorageError
from litemq.storage.files import new_file as module
from litemq.storage.files.disk import DISK, Disk, OpenFile
from litemq.storage.files.new_file import NewFile, new_file


def test_the_file_appears_once_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUFFERED_BYTES", 10)
    path = tmp_path / "file"
    pieces = [bytes([n]) * n for n in range(20)]
    with new_file(DISK, path, overwrite=False) as file:
        for piece in pieces:
            file.add(piece)
            assert not path.exists()
    assert file.size == sum(range(20))
    assert path.read_bytes() == b"".join(pieces)
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_durable_before_it_is_renamed(tmp_path: Path) -> None:
    class Recording(Disk):
        done: tuple[str, ...] = ()

        def fsync(self, file: OpenFile) -> None:
            self.done += ("sync",)
            super().fsync(file)

        def rename(self, old: Path, new: Path) -> None:
            self.done += ("rename",)
            super().rename(old, new)

        def sync_directory(self, path: Path) -> None:
            self.done += ("sync directory",)
            super().sync_directory(path)

    disk = Recording()
    with new_file(disk, tmp_path / "file", overwrite=False) as file:
        file.add(b"x")
    assert disk.done == ("sync", "rename", "sync directory")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError()])
def test_an_error_leaves_no_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def stop(file: NewFile) -> None:
        file.add(b"half")
        raise error

    with pytest.raises(type(error)), new_file(DISK, path, overwrite=True) as file:
        stop(file)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "raised"), [(errno.ENOSPC, DiskFullError), (errno.EDQUOT, DiskFullError), (errno.EIO, StorageError)]
)
@pytest.mark.parametrize("step", ["pwrite", "fsync"])
def test_a_full_or_broken_disk_leaves_no_file(
    tmp_path: Path, step: str, number: int, raised: type[StorageError]
) -> None:
    class Failing(Disk):
        def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
            if step == "pwrite" and offset > 0:
                raise OSError(number, os.strerror(number))
            return super().pwrite(file, data[:3], offset)

        def fsync(self, file: OpenFile) -> None:
            raise OSError(number, os.strerror(number), file.path)

    with (
        pytest.raises(raised if step == "pwrite" else StorageError),
        new_file(Failing(), tmp_path / "file", overwrite=False) as file,
    ):
        file.add(b"longer than that")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(InvalidArgumentError, match="exists"), new_file(DISK, path, overwrite=False):
        pytest.fail("it was opened")
    with new_file(DISK, path, overwrite=True) as file:
        file.add(b"new")
    assert path.read_bytes() == b"new"


def test_a_file_created_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(InvalidArgumentError, match="exists"), new_file(DISK, path, overwrite=False):
        path.write_bytes(b"another's")
    assert path.read_bytes() == b"another's"
    assert list(tmp_path.iterdir()) == [path]


def test_only_regular_files_are_overwritten(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", tmp_path / "missing" / "file", Path("/dev/null")):
        with pytest.raises(InvalidArgumentError, match="cannot write"), new_file(DISK, path, overwrite=True):
            pytest.fail("it was opened")


def test_an_unreadable_path_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: "x" * 300)
    with (
        pytest.raises(StorageError, match=r"cannot write .*/file: File name too long"),
        new_file(DISK, tmp_path / "file", overwrite=False),
    ):
        pytest.fail("it was opened")
