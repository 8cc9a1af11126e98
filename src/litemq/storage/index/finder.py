"""Look-ups of messages by key or id: the key index, verified against the records."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, DiskFullError
from litemq.format.columns.keys import hash_key, hash_keys
from litemq.storage.index.key_indexes import KeyIndexes, hash_message_keys
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import Window, read_log
from litemq.storage.state import QueueKey, State
from litemq.types import RecordKind, StoredRecord

__all__ = ["Finder"]


class Finder:
    """The key index of a store, and its progress in the log.

    Any thread may call; a lock serializes them.
    """

    def __init__(
        self,
        log: CommitLog,
        index: KeyIndexes,
        state: State,
        clock: Clock,
        read_record: Callable[[int], StoredRecord],
        *,
        written_from: int,
    ) -> None:
        self._log = log
        self._index = index
        self._state = state
        self._clock = clock
        self._read_record = read_record
        self._written_from = written_from  # this process wrote, and verified, the records after it
        self._lock = threading.Lock()
        for begin, end in index.gaps(log.start):
            if self._has_keys(begin, end):
                index.rebuild(f"the key index lacks the log offsets {begin} … {end}")
                break
        self.indexed = max(index.resume_at, log.start)

    def _has_keys(self, begin: int, end: int) -> bool:
        """Whether a record between ``begin`` and ``end`` has a key that is not in the index."""
        for window in read_log(self._log, begin, end, verify_crc=False, on_damage=lambda _error: None):
            columns = window.columns
            are_messages = columns.header["kind"] != RecordKind.CONTROL
            if window.base == begin and self._index.is_last_of_a_file(begin):
                are_messages[0] = False
            if hash_keys(columns.subset(np.flatnonzero(are_messages))).hashes.size:
                return True
        return False

    def add(self, window: Window, end: int) -> None:
        """Index the records of ``window``, which ends at log offset ``end``, and follows the
        indexed part of the log or overlaps it.
        """
        if self.indexed < end:
            self._index.add(window.columns, window.base, self._clock.wall_ms())
            self.indexed = end

    def index_to(self, end: int, on_damage: Callable[[CorruptStoreError], None]) -> None:
        """Index the log up to offset ``end``. Call ``on_damage(error)`` for each damaged record."""
        with self._lock:
            self._index_to(end, on_damage)

    def _index_to(self, end: int, on_damage: Callable[[CorruptStoreError], None]) -> None:
        if self.indexed < end:
            verify_crc = self.indexed < self._written_from
            for window in read_log(self._log, self.indexed, end, verify_crc=verify_crc, on_damage=on_damage):
                self.indexed = window.base  # the windows before are indexed, even if this one fails
                self._index.add(window.columns, window.base, self._clock.wall_ms())
            self.indexed = end

    def _add_recent(self, key_hash: int, confirmed: int, on_damage: Callable[[CorruptStoreError], None]) -> list[int]:
        """Index the log up to ``confirmed``.

        If the disk is full, return the log offsets of the records with ``key_hash`` that cannot be
        indexed, the latest first.
        """
        try:
            self._index_to(confirmed, on_damage)
        except DiskFullError:
            found: list[int] = []
            for window in read_log(self._log, self.indexed, confirmed, verify_crc=False, on_damage=on_damage):
                hashes, owners = hash_message_keys(window.columns)
                found += (window.columns.starts[owners[hashes == key_hash]] + window.base).tolist()
            return found[::-1]
        return []

    def find(
        self,
        topic: str,
        key: str,
        limit: int,
        confirmed: int,
        on_damage: Callable[[CorruptStoreError], None],
        *,
        anywhere: bool = False,
    ) -> list[StoredRecord]:
        """Find up to ``limit`` messages of ``topic`` with ``key`` as key or id, the latest first.

        If ``anywhere``, also find their copies in system topics. Rebuild a damaged index.
        """
        with self._lock:
            try:
                return self._find(topic, key, limit, confirmed, on_damage, anywhere=anywhere)
            except CorruptStoreError as error:
                if not self._index.holds(error.path):
                    raise
                self._index.rebuild(error)
                self.indexed = self._log.start
                return self._find(topic, key, limit, confirmed, on_damage, anywhere=anywhere)

    def _find(
        self,
        topic: str,
        key: str,
        limit: int,
        confirmed: int,
        on_damage: Callable[[CorruptStoreError], None],
        *,
        anywhere: bool,
    ) -> list[StoredRecord]:
        key_hash = hash_key(topic, key)
        recent = self._add_recent(key_hash, confirmed, on_damage)
        found: list[StoredRecord] = []
        for offset in dict.fromkeys(recent + self._index.find(key_hash)):
            if offset < self._log.start or len(found) == limit:
                break
            # The hash is a hint: the record decides. Skip records that retention has given up but
            # not removed yet and, unless ``anywhere``, timers and retries in system topics.
            stored = self._read_record(offset)
            is_kept = self._is_kept(stored, None if anywhere else topic)
            if is_kept and stored.record.topic == topic and key in (stored.record.message_id, *stored.record.keys):
                found.append(stored)
        return found

    def _is_kept(self, stored: StoredRecord, topic: str | None) -> bool:
        stamp = stored.stamp
        if stamp is None or (topic is not None and self._state.topics[stamp.topic_id].name != topic):
            return False
        return stamp.queue_offset >= self._state.start_offsets.get(QueueKey(stamp.topic_id, stamp.queue_id), 0)

    def restore(self, window: Window) -> None:
        """Rebuild the index if it skipped records of ``window`` while they were damaged."""
        base, columns = window
        with self._lock:
            indexed = columns.subset(np.flatnonzero(columns.starts + base < self.indexed))
            try:
                is_complete = len(indexed) == 0 or not self._index.lacks(indexed, base)
            except CorruptStoreError:
                is_complete = False
            if not is_complete:
                self._index.rebuild("the key index lacks repaired records")
                self.indexed = self._log.start

    def drop_before(self, log_start: int) -> None:
        """Remove the index files whose entries are all before ``log_start``."""
        with self._lock:
            self._index.drop_before(log_start)
