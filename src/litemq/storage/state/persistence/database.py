"""``state.db``: the rows of the state in SQLite, and the log offset up to which they hold.

The database makes a start fast. It is a projection: if it is damaged, missing or too old, the store
rebuilds it from the log. So a commit is not synced, and a power cut may restore an earlier one.
SQLite detects a torn write but not a flipped bit. Each row therefore has a checksum, and a summary
row (the *account*) shows whether any row is missing.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple, Self

from litemq.errors import CorruptStoreError, StorageError
from litemq.format.crc import crc32c
from litemq.proto.control_pb2 import Row
from litemq.storage.state.persistence.rows import is_gone

__all__ = ["SIDE_FILES", "StateDatabase", "StoredState"]

SIDE_FILES: Final = ("", "-wal", "-shm")  # the suffixes of the database and of SQLite's files beside it
_SCHEMA: Final = files("litemq.storage.state.persistence").joinpath("schema.sql").read_text("utf-8")
_ACCOUNT: Final = struct.Struct(">qQQ")  # applied, number of rows, sum of their checksums
_UPSERT: Final = (
    "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row, crc = excluded.crc"
)
_MASK: Final = (1 << 64) - 1
_KEYS_PER_QUERY: Final = 500
_UNREADABLE: Final = (sqlite3.Error, UnicodeError)  # SQLite may quote a damaged schema in a message that is not UTF-8


class StoredState(NamedTuple):
    """The rows of the database, as of log offset ``applied``."""

    applied: int
    serialized: list[bytes]

    @property
    def rows(self) -> Iterator[Row]:
        """The rows, parsed one by one to save memory."""
        return map(Row.FromString, self.serialized)


def read_applied(path: Path) -> int:
    """Return the log offset that the database has reached; 0 if there is none."""
    if not path.exists():
        return 0
    database = StateDatabase(path)
    try:
        return database.applied()
    finally:
        database.close()


class StateDatabase:
    """An open ``state.db``. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))  # SQLite would make it world-readable
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"cannot open {path}: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except _UNREADABLE as error:
            self._connection.close()
            raise CorruptStoreError(str(path), 0, f"SQLite cannot read it: {error}") from error

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create an empty database at ``path``, replacing any existing one."""
        for suffix in SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return cls(path)

    def applied(self) -> int:
        """Return the log offset of the last commit, 0 if there is none, without the rows."""
        try:
            found = self._connection.execute("SELECT row, crc FROM rows WHERE key = x''").fetchone()
        except _UNREADABLE as error:
            raise CorruptStoreError(str(self._path), 0, f"SQLite cannot read it: {error}") from error
        if found is None or not isinstance(found[0], bytes) or len(found[0]) != _ACCOUNT.size:
            return 0
        return int(_ACCOUNT.unpack(found[0])[0]) if found[1] == crc32c(found[0]) else 0

    def load(self) -> StoredState | None:
        """Load all rows, or ``None`` if nothing was ever committed.

        Raise ``CorruptStoreError`` unless every row is as it was written.
        """
        try:
            return self._load()
        except _UNREADABLE as error:
            raise CorruptStoreError(str(self._path), 0, f"SQLite cannot read it: {error}") from error

    def _load(self) -> StoredState | None:
        account: bytes | None = None
        rows: list[bytes] = []
        total = 0
        for number, (key, row, crc) in enumerate(
            self._connection.execute("SELECT key, row, crc FROM rows ORDER BY key")
        ):
            if not (isinstance(key, bytes) and isinstance(row, bytes) and crc == crc32c(row, crc32c(key))):
                raise CorruptStoreError(str(self._path), 0, f"the checksum of row {key!r} does not match")
            if number:
                rows.append(row)
                total += crc
            elif key == b"" and len(row) == _ACCOUNT.size:
                account = row
            else:
                raise CorruptStoreError(str(self._path), 0, "the summary row is missing")
        if account is None:
            return None
        applied, count, expected = _ACCOUNT.unpack(account)
        if count != len(rows) or expected != total & _MASK:
            raise CorruptStoreError(str(self._path), 0, f"the {len(rows)} rows found are not the {count} rows written")
        return StoredState(applied, rows)

    def commit(self, applied: int, rows: Iterable[tuple[bytes, Row]]) -> None:
        """Store or delete ``rows``, and store the log offset ``applied`` up to which they hold."""
        gone: list[bytes] = []
        serialized: list[tuple[bytes, bytes]] = []
        for key, row in rows:
            if is_gone(row):
                gone.append(key)
            else:
                serialized.append((key, row.SerializeToString(deterministic=True)))
        new = [(key, value, crc32c(value, crc32c(key))) for key, value in serialized]
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            account = execute("SELECT row FROM rows WHERE key = x''").fetchone()
            _, count, total = _ACCOUNT.unpack(account[0]) if account is not None else (0, 0, 0)
            for old in self._checksums([*(key for key, _, _ in new), *gone]):
                count -= 1
                total -= old
            count += len(new)
            total = (total + sum(crc for _, _, crc in new)) & _MASK
            packed = _ACCOUNT.pack(applied, count, total)
            self._connection.executemany("DELETE FROM rows WHERE key = ?", [(key,) for key in gone])
            account_row = (b"", packed, crc32c(packed, crc32c(b"")))
            self._connection.executemany(_UPSERT, [*new, account_row])
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def _checksums(self, keys: list[bytes]) -> Iterator[int]:
        """Yield the checksums of the stored rows among ``keys``."""
        for at in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[at : at + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT crc FROM rows WHERE key IN ({marks})"  # noqa: S608  only question marks
            for (crc,) in self._connection.execute(query, some):
                yield crc

    def close(self) -> None:
        self._connection.close()
