"""SQLite's errors as errors of this library."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from litemq.errors import CorruptStoreError, DiskFullError, StorageError, StoreLockedError

__all__ = ["explained"]

# SQLite errors that do not mean damage. SQLITE_READONLY does: the file was opened for writing, so
# SQLite must have found a damaged header.
_NO_DAMAGE: Final = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}


@contextlib.contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Raise errors of SQLite, in the ``with`` block, as errors that name ``path`` and the fix."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreLockedError(
                f"another NameServer has {path} open: stop it, or choose another storage.data_path"
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise DiskFullError(f"the disk is full: free some space to write {path}") from error
        if code in _NO_DAMAGE or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DIRECTORY:
            raise StorageError(f"cannot use {path}: {error}") from error
        raise CorruptStoreError(str(path), 0, f"SQLite cannot read it: {error}") from error
