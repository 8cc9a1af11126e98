"""A file that gets its name only when it is whole, and is on disk by then; until then it stands beside it under another name."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from litemq.errors import InvalidArgumentError, StorageError
from litemq.storage.files.disk import Disk, OpenFile

__all__ = ["NewFile", "new_file"]

_BUFFERED_BYTES: Final = 4 << 20


class NewFile:
    """What is being written, one piece behind another."""

    def __init__(self, file: OpenFile, path: Path) -> None:
        self._file = file
        self._path = path
        self._pieces: list[bytes] = []
        self._written = 0
        self.size = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)
        if self.size - self._written >= _BUFFERED_BYTES:
            self.write()

    def write(self) -> None:
        """Hand over what was gathered."""
        with _writing(self._path):
            self._file.write(b"".join(self._pieces), self._written)
        self._written = self.size
        self._pieces = []


@contextmanager
def new_file(disk: Disk, path: Path, *, overwrite: bool) -> Iterator[NewFile]:
    """A file at ``path`` once the block has ended well; where it has not, whatever the reason, there is nothing new."""
    _check(path, overwrite=overwrite)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with _writing(path):
            # Never through a name that is there already: in a directory that is open to others it may lead elsewhere.
            file = OpenFile(disk, unfinished, os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640))
        growing = NewFile(file, path)
        yield growing
        growing.write()
        with _writing(path):
            file.sync()
            _check(path, overwrite=overwrite)
            disk.rename(unfinished, path)
            disk.sync_directory(path.parent)
    finally:
        with suppress(OSError):  # it has its name by now; or what went wrong before is what counts
            unfinished.unlink()


def _check(path: Path, *, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise InvalidArgumentError(f"cannot write {path}: there is no directory {path.parent}")
    if path.exists() and not path.is_file():
        raise InvalidArgumentError(f"cannot write {path}: it is no file")
    if path.exists() and not overwrite:
        raise InvalidArgumentError(f"{path} exists: choose another name, or overwrite it (--force)")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
