"""Finding messages by key and id: the key index, how far it got, and the records that it leads to."""

from __future__ import annotations

import threading
from collections.abc import Callable

from litemq.clock import Clock
from litemq.errors import CorruptStoreError
from litemq.format.columns.keys import hash_key
from litemq.storage.index.key_indexes import KeyIndexes
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import Window, read_log
from litemq.storage.state import QueueKey, State
from litemq.types import StoredRecord

__all__ = ["Finder"]


class Finder:
    """The key index of a store, kept behind its log. Any thread may call; they take turns."""

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
        self._written_from = written_from  # what stands behind it, this process wrote, and has checked
        self._turn = threading.Lock()
        self.indexed = max(index.resume_at, log.start)

    def add(self, window: Window, behind: int) -> None:
        """Records that are being read anyway, and end at log offset ``behind``; ignored if the index is not as far as they begin."""
        if self.indexed <= window.base:
            self._index.add(window.columns, window.base, self._clock.wall_ms())
            self.indexed = behind

    def index_to(self, end: int, damaged: Callable[[CorruptStoreError], None]) -> None:
        """Build the index up to a log offset."""
        with self._turn:
            self._index_to(end, damaged)

    def _index_to(self, end: int, damaged: Callable[[CorruptStoreError], None]) -> None:
        if self.indexed < end:
            verify_crc = self.indexed < self._written_from
            for window in read_log(self._log, self.indexed, end, verify_crc=verify_crc, damaged=damaged):
                self._index.add(window.columns, window.base, self._clock.wall_ms())
            self.indexed = end

    def find(
        self,
        topic: str,
        key: str,
        most: int,
        confirmed: int,
        damaged: Callable[[CorruptStoreError], None],
        *,
        anywhere: bool = False,
    ) -> list[StoredRecord]:
        """The messages of a topic that carry a key, or have it as their id, the latest first; ``anywhere``: their copies elsewhere, too."""
        with self._turn:
            try:
                return self._find(topic, key, most, confirmed, damaged, anywhere=anywhere)
            except CorruptStoreError as error:
                if not self._index.holds(error.path):
                    raise
                self._index.rebuild(error)
                self.indexed = self._log.start
                return self._find(topic, key, most, confirmed, damaged, anywhere=anywhere)

    def _find(
        self, topic: str, key: str, most: int, confirmed: int, damaged: Callable[[CorruptStoreError], None], *, anywhere: bool
    ) -> list[StoredRecord]:
        self._index_to(confirmed, damaged)
        found: list[StoredRecord] = []
        for offset in self._index.find(hash_key(topic, key)):
            if offset < self._log.start or len(found) == most:
                break
            # The hash only narrows the search: the record decides. What retention has said is gone is gone, even if it is still there; and
            # what waits elsewhere for its time, or to be tried again, is not in its topic.
            stored = self._read_record(offset)
            is_kept = self._is_kept(stored, None if anywhere else topic)
            if is_kept and stored.record.topic == topic and key in (stored.record.message_id, *stored.record.keys):
                found.append(stored)
        return found

    def _is_kept(self, stored: StoredRecord, topic: str | None) -> bool:
        stamp = stored.stamp
        if stamp is None or (topic is not None and self._state.topics[stamp.topic_id].name != topic):
            return False
        return stamp.queue_offset >= self._state.least.get(QueueKey(stamp.topic_id, stamp.queue_id), 0)

    def drop_before(self, log_start: int) -> None:
        """Remove the files that lead only to what is gone."""
        with self._turn:
            self._index.drop_before(log_start)
