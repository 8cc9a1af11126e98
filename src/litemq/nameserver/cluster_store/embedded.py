"""A ``ClusterStore`` in a SQLite file.

A commit survives the death of the process, but not always a power failure, because it is not
synced. The store renames a damaged file and starts with an empty one, so that the NameServer
always starts; brokers register again within a heartbeat.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from importlib.resources import files
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError

from litemq.errors import CorruptStoreError, StorageError
from litemq.format.crc import crc32c
from litemq.nameserver.cluster_store.sqlite_errors import explained
from litemq.nameserver.cluster_store.store import StoredBroker
from litemq.proto.wire_pb2 import BrokerFacts

__all__ = ["EmbeddedStore"]

_LOG = logging.getLogger(__name__)
_SCHEMA: Final = files("litemq.nameserver.cluster_store").joinpath("schema.sql").read_text("utf-8")
_VERSION: Final = 1
_SIDE_FILES: Final = ("", "-wal", "-shm", "-journal")
_DAMAGED: Final = ".damaged"


class EmbeddedStore:
    """A store that has the SQLite file ``path`` to itself; in memory if ``path`` is ``None``."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        try:
            self._connection = self._open()
        except CorruptStoreError as error:
            self._set_aside(error)
            self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            name = ":memory:"
        else:
            name = str(self._path)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                os.close(
                    os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
                )  # SQLite would make it world-readable
            except OSError as error:
                raise StorageError(
                    f"cannot open {name}: {error.strerror}. Choose another storage.data_path, or grant write permission"
                ) from error
        with explained(self._path):
            connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=0.2)
        try:
            with explained(self._path):
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                self._check_version(connection)
                connection.execute("BEGIN IMMEDIATE")  # takes the exclusive lock
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA user_version={_VERSION}")
                connection.execute("COMMIT")
            self._read(connection)  # detects damage at start
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

    def _read(self, connection: sqlite3.Connection) -> list[StoredBroker]:
        with explained(self._path):
            rows = connection.execute("SELECT name, facts, silent, crc FROM brokers ORDER BY name").fetchall()
        return [self._checked(*row) for row in rows]

    def _checked(self, name: object, facts: object, silent: object, crc: object) -> StoredBroker:
        if not (isinstance(facts, bytes) and silent in (0, 1) and crc == _crc(facts, bool(silent))):
            raise CorruptStoreError(str(self._path), 0, f"wrong checksum of broker {name!r}")
        try:
            broker = StoredBroker(BrokerFacts.FromString(facts), bool(silent))
        except DecodeError as error:
            raise CorruptStoreError(str(self._path), 0, f"broker {name!r} cannot be decoded: {error}") from error
        if broker.facts.name != name:
            raise CorruptStoreError(str(self._path), 0, f"broker {broker.facts.name!r} is stored as {name!r}")
        return broker

    def _set_aside(self, reason: CorruptStoreError) -> None:
        if self._path is None:
            raise reason
        aside = self._path.with_name(self._path.name + _DAMAGED)
        _LOG.error("%s. Renamed it to %s and created a new one; brokers will register again", reason, aside.name)
        for suffix in _SIDE_FILES:
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(self._path.name + suffix).replace(self._path.with_name(aside.name + suffix))

    def brokers(self) -> list[StoredBroker]:
        return self._read(self._connection)

    def put_broker(self, broker: StoredBroker) -> None:
        facts = broker.facts.SerializeToString(deterministic=True)
        row = (broker.facts.name, facts, int(broker.silent), _crc(facts, broker.silent))
        with explained(self._path):
            self._connection.execute("INSERT OR REPLACE INTO brokers VALUES (?, ?, ?, ?)", row)

    def remove_broker(self, name: str) -> None:
        with explained(self._path):
            self._connection.execute("DELETE FROM brokers WHERE name = ?", (name,))

    def close(self) -> None:
        self._connection.close()


def _crc(facts: bytes, silent: bool) -> int:
    return crc32c(b"\1" if silent else b"\0", crc32c(facts))
