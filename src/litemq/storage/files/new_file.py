"""Atomic creation of a file: it gets its name only once it is complete and durable."""

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
    """A file that is being written, with a buffer in memory."""

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
        """Write the buffered pieces to the file."""
        with _writing(self._path):
            self._file.write(b"".join(self._pieces), self._written)
        self._written = self.size
        self._pieces = []


@contextmanager
def new_file(disk: Disk, path: Path, *, overwrite: bool) -> Iterator[NewFile]:
    """Create a file at ``path`` when the block ends. If the block raises, no file is left."""
    _check(path, overwrite=overwrite)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with _writing(path):
            # O_EXCL: in a directory that other users can write to, an existing name may be a link.
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = OpenFile(disk, unfinished, os.open(unfinished, flags, 0o640))
        growing = NewFile(file, path)
        yield growing
        growing.write()
        with _writing(path):
            file.sync()
            _check(path, overwrite=overwrite)
            disk.rename(unfinished, path)
            disk.sync_directory(path.parent)
    finally:
        with suppress(OSError):  # the file has been renamed, or an earlier error counts
            unfinished.unlink()


def _check(path: Path, *, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise InvalidArgumentError(f"cannot write {path}: the directory {path.parent} does not exist")
    if path.exists() and not path.is_file():
        raise InvalidArgumentError(f"cannot write {path}: it is not a regular file")
    if path.exists() and not overwrite:
        raise InvalidArgumentError(f"{path} already exists: choose another name, or overwrite it with --force")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
