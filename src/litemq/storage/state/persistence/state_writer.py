"""Keeps ``state.db`` and ``topics.json`` up to date with what is confirmed."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, DiskFullError
from litemq.proto.control_pb2 import Row
from litemq.storage.files.disk import Disk
from litemq.storage.state.machine import State
from litemq.storage.state.persistence.changes import Changes
from litemq.storage.state.persistence.database import StateDatabase, StoredState
from litemq.storage.state.persistence.rows import row_key
from litemq.storage.state.persistence.topics_file import ToldTopic, ToldTopics, read_topics, write_topics
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID

__all__ = ["StateKeeper"]

_PAUSES: Final = 8  # so many times as long as it took: it is a small part of what the process does
_LONGEST_PAUSE_NS: Final = 5_000_000_000  # what it lacks must be read from the log at a start after a crash
_MOST_BEHIND: Final = 64 << 20  # bytes of the log: the same
_LOG = logging.getLogger(__name__)


class StateKeeper:
    """The database of a data directory, and the changes on their way to it. Used by one thread at a time."""

    def __init__(self, disk: Disk, directory: Path, clock: Clock, *, broker_name: str = "") -> None:
        self._disk = disk
        self._clock = clock
        self._broker_name = broker_name
        self._path = directory / "state.db"
        self._topics_path = directory / "topics.json"
        self._changes: Changes | None = None
        self._failed = False
        self._uncommitted: dict[bytes, Row] = {}
        self._topics: dict[int, Row] = {}
        self.applied = 0
        self._pause_until = 0
        self._database, self.stored = self._open()

    def _open(self) -> tuple[StateDatabase, StoredState | None]:
        try:
            database = StateDatabase(self._path)
            try:
                return database, database.load()
            except CorruptStoreError:
                database.close()
                raise
        except CorruptStoreError as error:
            _LOG.warning("%s; it is made anew from the log", error)
            return StateDatabase.anew(self._path), None

    def follow(self, state: State, applied: int, *, anew: bool) -> Changes:
        """Begin with a state that is true up to ``applied``; ``anew`` if it did not come from the database. What changes comes in the answer."""
        self._topics = {topic_id: Row(topic=facts.told()) for topic_id, facts in state.topics.items()}
        self.applied = applied
        if anew:
            self._database.close()
            self._database = StateDatabase.anew(self._path)
            self._database.commit(applied, ((row_key(row), row) for row in state.rows()))
        self.stored = None
        before = read_topics(self._topics_path)
        self._broker_name = self._broker_name or (before.broker if before is not None else "")
        if before != self._told():
            self._write_topics()
        self._changes = Changes(state)
        return self._changes

    def commit_in_time(self, confirmed: int) -> None:
        """Put everything up to ``confirmed`` into the database, unless that was done a moment ago and took long.

        Where very many rows change, others come first; and rows that come and go within the pause are never written.
        """
        begin = self._clock.elapsed_ns()
        if begin < self._pause_until and confirmed - self.applied < _MOST_BEHIND:
            return
        self.commit(confirmed)
        end = self._clock.elapsed_ns()
        self._pause_until = end + min(_PAUSES * (end - begin), _LONGEST_PAUSE_NS)

    def commit(self, confirmed: int) -> None:
        """Put everything up to ``confirmed`` into the database. On a full disk it is put there later: the log has it."""
        if self._changes is None or confirmed <= self.applied:
            return
        self._uncommitted.update(self._changes.take(confirmed))
        if self._failed:
            self._uncommitted.clear()
            return
        try:
            self._database.commit(confirmed, self._uncommitted.items())
            self._put_topics(self._uncommitted.values())
        except (sqlite3.OperationalError, DiskFullError) as error:
            _LOG.warning("%s: %s; what it lacks is in the log", self._path, error)
            return
        except (sqlite3.Error, UnicodeError) as error:
            _LOG.warning("%s: %s; it is made anew from the log at the next start", self._path, error)
            self._failed = True
            return
        self._uncommitted.clear()
        self.applied = confirmed

    def _put_topics(self, changed: Iterable[Row]) -> None:
        topics = {row.topic.topic_id: row for row in changed if row.HasField("topic")}
        if topics:
            self._topics |= topics
            self._write_topics()

    def _told(self) -> ToldTopics:
        topics = [self._topics[number].topic for number in sorted(self._topics) if number >= FIRST_FREE_TOPIC_ID]
        return ToldTopics(self._broker_name, {topic.topic_id: ToldTopic(topic.name, topic.queues) for topic in topics if not topic.deleted})

    def _write_topics(self) -> None:
        write_topics(self._disk, self._topics_path, self._told())

    def close(self) -> None:
        self._database.close()
