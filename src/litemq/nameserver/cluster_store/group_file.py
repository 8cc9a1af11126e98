"""The SQLite file with the facts of groups: every write is synced, and no damage goes unnoticed.

Each commit syncs the journal, the file, and the journal's end. Not WAL: SQLite takes a damaged
frame in a WAL for its end, and would return to an older epoch without an error. If the file is
damaged, it is renamed, and the new file records that facts were lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import struct
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from litemq.errors import CorruptStoreError, DiskFullError, InvalidArgumentError, StorageError, StoreLockedError
from litemq.format.crc import crc32c
from litemq.nameserver.cluster_store.groups import MAX_LEASE_MS, GroupFact, decode_fact, encode_fact
from litemq.nameserver.cluster_store.sqlite_errors import explained

__all__ = ["GroupFile", "StoredFact"]

_LOG = logging.getLogger(__name__)
_SCHEMA: Final = files("litemq.nameserver.cluster_store").joinpath("groups.sql").read_text("utf-8")
_VERSION: Final = 1
_MAGIC: Final = b"SQLite format 3\0"
_JOURNALS: Final = ("-journal", "-wal", "-shm")
_NUMBERS: Final = struct.Struct(">QI")  # revision, lease_ms


class StoredFact(NamedTuple):
    """A fact, and how long (ms) the last lease was granted for; 0: there is none."""

    fact: GroupFact
    lease_ms: int


class GroupFile:
    """The file ``path``, which this process has to itself. All calls block, some for a sync."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = self._take_lock()
        self._stored: dict[str, StoredFact] = {}
        self._crcs: dict[str, int] = {}  # of the rows
        self._is_lost = False
        try:
            self._connection = self._open()
        except OSError as error:
            os.close(self._lock)
            raise _no_access(path, error) from error
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def path(self) -> Path:
        return self._path

    @property
    def stored(self) -> dict[str, StoredFact]:
        """The facts by the names of their groups."""
        return dict(self._stored)

    @property
    def is_lost(self) -> bool:
        """Whether an earlier file was damaged: groups may have existed that this one lacks."""
        return self._is_lost

    def put(self, stored: StoredFact) -> None:
        """Write a fact, replacing that of the same group; it is synced on return.

        ``DiskFullError``: nothing was written. Any other error: a part may have been.
        """
        name, fact = stored.fact.name, encode_fact(stored.fact)
        crc = _crc(fact, stored)
        row = (name, fact, stored.fact.revision, stored.lease_ms, crc)
        contents = _crc_of_contents(self._is_lost, self._crcs | {name: crc})
        try:
            with explained(self._path):
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?, ?)", row)
                self._connection.execute("UPDATE contents SET crc = ?", (contents,))
                self._connection.execute("COMMIT")
        except DiskFullError:
            with explained(self._path):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise
        self._stored[name], self._crcs[name] = stored, crc

    def close(self) -> None:
        self._connection.close()
        os.close(self._lock)

    def _take_lock(self) -> int:
        path = self._beside(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise _no_access(path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreLockedError(
                f"another NameServer has {self._path} open: stop it, or choose another storage.data_path"
            ) from None
        return lock

    def _open(self) -> sqlite3.Connection:
        if not self._path.exists():
            # Files beside it remain if the process ended after it had renamed a damaged file.
            is_lost = self._beside(".damaged").exists() or any(self._beside(end).exists() for end in _JOURNALS)
            self._create(is_lost=is_lost)
        try:
            return self._connect()
        except CorruptStoreError as error:
            self._set_aside(error)
        self._create(is_lost=True)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        with self._path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:  # SQLite would take a very short file for a new one
                raise CorruptStoreError(str(self._path), 0, "it is no SQLite file")
        with explained(self._path):
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=0.2)
        try:
            with explained(self._path):
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
                connection.execute("PRAGMA journal_mode=TRUNCATE")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("BEGIN EXCLUSIVE")  # also rolls back what a crash left unfinished
                connection.execute("COMMIT")
                self._check_version(connection)
            self._read(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise StorageError(
                f"{self._path} has version {version}, this NameServer supports {_VERSION}: "
                "upgrade the NameServer, or choose another storage.data_path"
            )
        if version != _VERSION:
            raise CorruptStoreError(str(self._path), 0, f"it has version {version}")

    def _read(self, connection: sqlite3.Connection) -> None:
        with explained(self._path):
            rows = connection.execute("SELECT name, fact, revision, lease_ms, crc FROM groups ORDER BY name").fetchall()
            contents = connection.execute("SELECT is_lost, crc FROM contents").fetchall()
        stored = {row[0]: self._checked(*row) for row in rows}
        crcs = {row[0]: row[4] for row in rows}
        if len(contents) != 1 or contents[0] not in [(lost, _crc_of_contents(bool(lost), crcs)) for lost in (0, 1)]:
            raise CorruptStoreError(str(self._path), 0, "a group is missing, or is not the last one written")
        self._stored, self._crcs, self._is_lost = stored, crcs, bool(contents[0][0])

    def _checked(self, name: object, fact: object, revision: object, lease_ms: object, crc: object) -> StoredFact:
        if not (
            isinstance(name, str)
            and isinstance(fact, bytes)
            and isinstance(revision, int)
            and isinstance(lease_ms, int)
            and 0 <= revision < 1 << 63
            and 0 <= lease_ms <= MAX_LEASE_MS
        ):
            raise CorruptStoreError(str(self._path), 0, f"group {name!r} is no group")
        try:
            stored = StoredFact(decode_fact(name, fact, revision), lease_ms)
        except InvalidArgumentError as error:
            raise CorruptStoreError(str(self._path), 0, str(error)) from error
        if crc != _crc(fact, stored):
            raise CorruptStoreError(str(self._path), 0, f"wrong checksum of group {name!r}")
        return stored

    def _create(self, *, is_lost: bool) -> None:
        """Make the file with its tables under another name, so that it is never incomplete."""
        new = self._beside(".new")
        for path in (new, *(self._beside(".new" + end) for end in _JOURNALS)):
            path.unlink(missing_ok=True)
        for end in _JOURNALS:  # SQLite would apply them to the new file
            with contextlib.suppress(FileNotFoundError):
                self._beside(end).rename(self._free_name(end))
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640))  # SQLite would make it world-readable
        with explained(new), contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={_VERSION}; COMMIT")
            row = (int(is_lost), _crc_of_contents(is_lost, {}))
            connection.execute("INSERT INTO contents VALUES (?, ?)", row)
        new.rename(self._path)
        self._sync_directory()

    def _set_aside(self, reason: CorruptStoreError) -> None:
        aside = self._free_name("")
        _LOG.error(
            "%s. Renamed it to %s: the facts of its groups are lost, and no group elects a master until "
            "`litemq cluster recover GROUP` is run for it",
            reason,
            aside.name,
        )
        self._path.rename(aside)
        self._sync_directory()  # from here on, the renamed file is the sign of the loss

    def _free_name(self, end: str) -> Path:
        """Return an unused name for a damaged file, or for its journal with the suffix ``end``."""
        number = 1
        path = self._beside(".damaged" + end)
        while path.exists():
            number += 1
            path = self._beside(f".damaged-{number}{end}")
        return path

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)

    def _sync_directory(self) -> None:
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _crc(fact: bytes, stored: StoredFact) -> int:
    return crc32c(_NUMBERS.pack(stored.fact.revision, stored.lease_ms), crc32c(fact))


def _crc_of_contents(is_lost: bool, crcs: dict[str, int]) -> int:
    crc = crc32c(b"\1" if is_lost else b"\0")
    for name in sorted(crcs):
        crc = crc32c(crcs[name].to_bytes(4, "big"), crc)
    return crc


def _no_access(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot open {path}: {error.strerror}. Choose another storage.data_path, or grant write permission"
    )
