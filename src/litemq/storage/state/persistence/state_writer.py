"""The writer of ``state.db`` and ``topics.json``, which follow the confirmed log."""

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
from litemq.storage.state.persistence.topics_file import ListedTopic, TopicList, read_topics, write_topics
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID

__all__ = ["StateWriter"]

_PAUSE_FACTOR: Final = 8  # the pause after a commit, in multiples of its duration, limits its share of the load
# After a crash, the store replays the log from the last commit on. These limits keep that short.
_MAX_PAUSE_NS: Final = 5_000_000_000
_MAX_LAG: Final = 64 << 20  # bytes of the log
_LOG = logging.getLogger(__name__)


class StateWriter:
    """Writes the confirmed state to a data directory. Used by one thread at a time."""

    def __init__(self, disk: Disk, directory: Path, clock: Clock, *, broker_name: str = "") -> None:
        self._disk = disk
        self._clock = clock
        self._broker_name = broker_name
        self._path = directory / "state.db"
        self._topics_path = directory / "topics.json"
        self._changes: Changes | None = None
        self._failed = False
        self._is_behind = False  # the last commit failed
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
            _LOG.warning("%s; rebuilding it from the log", error)
            return StateDatabase.create(self._path), None

    def follow(self, state: State, applied: int, *, rebuild: bool) -> Changes:
        """Start to follow ``state``, which is as of log offset ``applied``.

        ``rebuild`` rewrites the database, if the state was not loaded from it. The caller adds
        every later change to the ``Changes`` returned.
        """
        self._topics = {topic_id: Row(topic=topic.to_wire()) for topic_id, topic in state.topics.items()}
        self.applied = applied
        if rebuild:
            self._database.close()
            self._database = StateDatabase.create(self._path)
            self._database.commit(applied, ((row_key(row), row) for row in state.rows()))
        self.stored = None
        before = read_topics(self._topics_path)
        self._broker_name = self._broker_name or (before.broker if before is not None else "")
        if before != self._topic_list():
            self._write_topics()
        self._changes = Changes(state, applied)
        return self._changes

    def commit_if_due(self, confirmed: int) -> None:
        """Commit up to ``confirmed``, unless the pause after the last commit is not over.

        The pause is in proportion to the last commit's duration. Rows that appear and disappear
        within it are never written.
        """
        begin = self._clock.elapsed_ns()
        if begin < self._pause_until and confirmed - self.applied < _MAX_LAG:
            return
        self.commit(confirmed)
        end = self._clock.elapsed_ns()
        self._pause_until = end + min(_PAUSE_FACTOR * (end - begin), _MAX_PAUSE_NS)

    def commit(self, confirmed: int) -> None:
        """Store all changes up to ``confirmed``. On a full disk, a later commit stores them."""
        if self._changes is None or confirmed <= self.applied:
            return
        self._uncommitted.update(self._changes.take(confirmed))
        applied = self._changes.taken
        if self._failed:
            self._uncommitted.clear()
            return
        try:
            self._database.commit(applied, self._uncommitted.items())
            self._put_topics(self._uncommitted.values())
        except (sqlite3.OperationalError, DiskFullError) as error:
            if not self._is_behind:  # once, not at every commit
                _LOG.warning("cannot commit to %s: %s; retrying at each commit", self._path, error)
            self._is_behind = True
            return
        except (sqlite3.Error, UnicodeError) as error:
            _LOG.warning("cannot write %s: %s; rebuilding it from the log at the next start", self._path, error)
            self._failed = True
            return
        self._uncommitted.clear()
        self._is_behind = False
        self.applied = applied

    def _put_topics(self, changed: Iterable[Row]) -> None:
        topics = {row.topic.topic_id: row for row in changed if row.HasField("topic")}
        if topics:
            self._topics |= topics
            self._write_topics()

    def _topic_list(self) -> TopicList:
        topics = [self._topics[topic_id].topic for topic_id in sorted(self._topics) if topic_id >= FIRST_FREE_TOPIC_ID]
        listed = {topic.topic_id: ListedTopic(topic.name, topic.queues) for topic in topics if not topic.deleted}
        return TopicList(self._broker_name, listed)

    def _write_topics(self) -> None:
        write_topics(self._disk, self._topics_path, self._topic_list())

    def close(self) -> None:
        self._database.close()
