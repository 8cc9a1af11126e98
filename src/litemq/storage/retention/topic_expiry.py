"""Expiry by topic: moves the start of queues past messages older than their topic's ``retention``.

The messages are gone for readers at once. Their space is freed when retention drops their segments.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

import numpy as np

from litemq.clock import Clock
from litemq.errors import CorruptStoreError
from litemq.proto.control_pb2 import Control
from litemq.storage.retention.entries import ReadEntries
from litemq.storage.retention.retention import crossing_record
from litemq.storage.retention.unread import unread
from litemq.storage.state import QueueKey, State, Topic
from litemq.types import Archived

__all__ = ["Expired", "TopicExpiry"]

_ENTRIES_AT_ONCE: Final = 4096
# A message may outlive its age by a thousandth of it, within these limits: each run is a record.
_INTERVAL_SHARE: Final = 1000
_MIN_INTERVAL_MS: Final = 1000
_MAX_INTERVAL_MS: Final = 60_000


class Expired(NamedTuple):
    """The result of a run: its record, if messages have expired, and when to run again."""

    crossing: Control | None
    next_at: int | None  # ms; ``None``: no topic has a ``retention``


class _First(NamedTuple):
    """The first message of a queue."""

    offset: int
    stored_at: int  # ms


class TopicExpiry:
    """Expires messages. Only one thread at a time may call it."""

    def __init__(
        self,
        state: State,
        clock: Clock,
        writing: AbstractContextManager[object],
        read_entries: ReadEntries,
        append_control: Callable[[Control], object],
        *,
        archive_wait_ms: int = 0,
        keep_unread: bool = False,
    ) -> None:
        self._state = state
        self._clock = clock
        self._writing = writing  # while it is held, the state does not change
        self._read_entries = read_entries
        self._append_control = append_control
        self._archive_wait_ms = archive_wait_ms
        self._keep_unread = keep_unread
        self._firsts: dict[QueueKey, _First] = {}

    def expire(self) -> Expired:
        """Expire all messages that are too old by now. It may wait for the disk."""
        now = self._clock.wall_ms()
        with self._writing:
            topics = [topic for topic in self._state.topics.values() if topic.retention_ms and not topic.deleted]
            ranges = {
                topic.topic_id: [
                    (key, self._state.start_offsets.get(key, 0))
                    for key in (QueueKey(topic.topic_id, queue_id) for queue_id in range(topic.queues))
                    if self._state.start_offsets.get(key, 0) < self._state.end_offsets.get(key, 0)
                ]
                for topic in topics
            }
        if not topics:
            self._firsts.clear()
            return Expired(None, None)
        starts: dict[QueueKey, int] = {}
        due = now + min(topic.retention_ms for topic in topics)
        for topic in topics:
            for key, start in ranges[topic.topic_id]:
                first = self._first_after(key, start, now - topic.retention_ms)
                if first.offset > start:
                    starts[key] = self._limited_by_archive(topic, key, start, first.offset, now)
                if first.stored_at:
                    due = min(due, first.stored_at + topic.retention_ms)
        interval = min(topic.retention_ms for topic in topics) // _INTERVAL_SHARE
        next_at = max(due, now + min(max(interval, _MIN_INTERVAL_MS), _MAX_INTERVAL_MS))
        return Expired(self._record(starts, now), next_at)

    def _first_after(self, key: QueueKey, start: int, time_ms: int) -> _First:
        """Find the first message from ``start`` on that was stored after ``time_ms``.

        If there is none yet, ``stored_at`` is 0.
        """
        known = self._firsts.get(key)
        if known is not None and known.offset == start and known.stored_at > time_ms:
            return known
        at = start
        while True:
            try:
                entries = self._read_entries(key, at, _ENTRIES_AT_ONCE)
            except CorruptStoreError:  # the read has reported it; retention will drop the segment
                return _First(at, 0)
            if entries.size == 0:
                return _First(at, 0)
            # A damaged message has an entry of size 0 without a time.
            kept = np.flatnonzero((entries["size"] > 0) & (entries["store_timestamp"] > time_ms))
            if kept.size:
                first = _First(at + int(kept[0]), int(entries["store_timestamp"][kept[0]]))
                self._firsts[key] = first
                return first
            at += entries.size

    def _limited_by_archive(self, topic: Topic, key: QueueKey, start: int, expired_to: int, now: int) -> int:
        """Return ``expired_to``, or the first message that the topic's archive must get before."""
        if topic.archived == Archived.NO:
            return expired_to
        archived = self._state.parts.archives.queue(key)
        unarchived = max(start, 0 if archived is None else archived.end)
        if unarchived >= expired_to or topic.archived == Archived.BLOCK:
            return min(unarchived, expired_to)
        waits_since = now - (topic.archive_wait_ms or self._archive_wait_ms)
        return min(expired_to, max(unarchived, self._first_after(key, unarchived, waits_since).offset))

    def _record(self, starts: dict[QueueKey, int], now: int) -> Control | None:
        """Record the new ``starts`` of queues; return the record, or ``None`` if there are none."""
        with self._writing:
            if self._keep_unread and starts:
                for each in unread(self._state, {key.topic_id for key in starts}):
                    starts[each.key] = min(each.begin, starts.get(each.key, 0))
            moved = {key: start for key, start in starts.items() if start > self._state.start_offsets.get(key, 0)}
            if not moved:
                return None
            crossing = crossing_record(self._state, 0, moved, now)
            self._append_control(crossing)
            return crossing
