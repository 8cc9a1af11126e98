"""``state.db``: the rows of the state in SQLite, with the log offset up to which they are true in the same transaction.

It makes a start quick and is never the only place where anything stands: what is damaged, missing or too old is made anew from the log.
So a commit is not synced; a power cut leaves an earlier one. SQLite notices a torn write, but not a flipped bit: each row has a checksum,
and an account of all of them tells whether any is missing.
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

SIDE_FILES: Final = ("", "-wal", "-shm")  # what SQLite keeps beside the database has its name and one of these
_SCHEMA: Final = files("litemq.storage.state.persistence").joinpath("schema.sql").read_text("utf-8")
_ACCOUNT: Final = struct.Struct(">qQQ")  # applied, number of rows, sum of their checksums
_MASK: Final = (1 << 64) - 1
_AT_ONCE: Final = 500
_UNREADABLE: Final = (sqlite3.Error, UnicodeError)  # a damaged schema can be quoted in a message that is no text


class StoredState(NamedTuple):
    """The rows of the database, true for the log up to ``applied``."""

    applied: int
    serialized: list[bytes]

    @property
    def rows(self) -> Iterator[Row]:
        """Made one by one: a million would be too much at once."""
        return map(Row.FromString, self.serialized)


class StateDatabase:
    """An open ``state.db``. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))  # SQLite would let others read it
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
    def anew(cls, path: Path) -> Self:
        """An empty database in the place of whatever was there."""
        for suffix in SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return cls(path)

    def load(self) -> StoredState | None:
        """Everything in it, ``None`` if nothing was ever committed. Raises ``CorruptStoreError`` unless every row is as it was written."""
        try:
            return self._load()
        except _UNREADABLE as error:
            raise CorruptStoreError(str(self._path), 0, f"SQLite cannot read it: {error}") from error

    def _load(self) -> StoredState | None:
        account: bytes | None = None
        rows: list[bytes] = []
        total = 0
        for number, (key, row, crc) in enumerate(self._connection.execute("SELECT key, row, crc FROM rows ORDER BY key")):
            if not (isinstance(key, bytes) and isinstance(row, bytes) and crc == crc32c(row, crc32c(key))):
                raise CorruptStoreError(str(self._path), 0, f"the checksum of row {key!r} does not fit")
            if number:
                rows.append(row)
                total += crc
            elif key == b"" and len(row) == _ACCOUNT.size:
                account = row
            else:
                raise CorruptStoreError(str(self._path), 0, "the account of the rows is missing")
        if account is None:
            return None
        applied, count, expected = _ACCOUNT.unpack(account)
        if count != len(rows) or expected != total & _MASK:
            raise CorruptStoreError(str(self._path), 0, f"{len(rows)} rows are not the {count} that were written")
        return StoredState(applied, rows)

    def commit(self, applied: int, rows: Iterable[tuple[bytes, Row]]) -> None:
        """Put rows in, take those out that are gone, and put with them the log offset up to which all of it is true now."""
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
            put = "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row, crc = excluded.crc"
            self._connection.executemany(put, [*new, (b"", packed, crc32c(packed, crc32c(b"")))])
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def _checksums(self, keys: list[bytes]) -> Iterator[int]:
        """The checksums of those keys that are there."""
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            marks = ",".join("?" * len(some))
            for (crc,) in self._connection.execute(f"SELECT crc FROM rows WHERE key IN ({marks})", some):  # noqa: S608  only question marks
                yield crc

    def close(self) -> None:
        self._connection.close()
