"""The backlog limit: how far a queue may run ahead of its slowest group.

Beyond the limit, the broker refuses sends, or turns messages into dead letters of the groups that
are behind.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from litemq.broker.dead_letters.writing import DeadDelivery, dead_letter_records
from litemq.clock import Clock
from litemq.errors import BacklogFullError
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.state import QueueKey, Topic
from litemq.storage.store import Store
from litemq.types import DeadReason, RecordKind

__all__ = ["Backlog"]

_NO_GROUPS: Final = 1024  # a queue without groups is checked again after this many messages


class Backlog:
    """Checks queues before each append. A table has the offset below which a queue is not full."""

    def __init__(self, store: Store, clock: Clock, max_backlog: int) -> None:
        """``max_backlog`` is the limit of topics without a setting of their own."""
        self._store = store
        self._clock = clock
        self._max_backlog = max_backlog
        self._free_below: dict[QueueKey, int] = {}

    def check(self, topic: Topic, queue_id: int) -> None:
        """Raise if the queue is full."""
        key = QueueKey(topic.topic_id, queue_id)
        if self._is_full(topic, key) and not topic.backlog_dead_letters:
            raise BacklogFullError(
                f"queue {queue_id} of topic {topic.name!r} is full: its slowest group is {self._limit(topic)} messages "
                "behind. Let the group catch up, delete it, or raise the topic's limit with "
                f"`litemq topic alter {topic.name} --max-backlog NUMBER`"
            )

    def _limit(self, topic: Topic) -> int:
        return topic.max_backlog or self._max_backlog

    def _is_full(self, topic: Topic, key: QueueKey) -> bool:
        end_offset = self._store.state.end_offsets.get(key, 0)
        if end_offset < self._free_below.get(key, 0):
            return False
        offsets = self._group_offsets(key)
        if not offsets:
            self._free_below[key] = end_offset + min(_NO_GROUPS, self._limit(topic))
            return False
        limit = self._free_below[key] = min(offsets.values()) + self._limit(topic)
        return end_offset >= limit

    def _group_offsets(self, key: QueueKey) -> dict[str, int]:
        """Return the offset of each group in the queue."""
        progress, start_offset = self._store.state.parts.progress, self._store.state.start_offsets.get(key, 0)
        return {group: max(start_offset, progress.offsets[group, key]) for group in progress.groups_of(key)}

    def dead_letter_excess(self, topic: Topic, queue_ids: set[int], batch: bytearray) -> None:
        """If the topic has ``backlog_dead_letters``, dead-letter the messages of the appended
        ``batch`` that are beyond the limit.
        """
        if not topic.backlog_dead_letters:
            return
        full = [key for queue_id in queue_ids if self._is_full(topic, key := QueueKey(topic.topic_id, queue_id))]
        if not full:
            return
        starts = scan(batch, limits=STORED_LIMITS).starts
        header = RecordColumns(batch, starts).header
        bounds = [*starts.tolist(), len(batch)]
        dead: list[DeadDelivery] = []
        for key in full:
            for group, offset in self._group_offsets(key).items():
                too_many = (header["queue_id"] == key.queue_id) & (
                    header["queue_offset"] >= offset + self._limit(topic)
                )
                for number in np.flatnonzero(too_many & (header["kind"] == RecordKind.MESSAGE)).tolist():
                    record = bytes(batch[bounds[number] : bounds[number + 1]])
                    at = int(header["queue_offset"][number])
                    dead.append(DeadDelivery(record, topic.topic_id, key, at, group, 0, DeadReason.QUEUE_FULL))
        if dead:
            self._store.append_placed(dead_letter_records(self._store, dead, self._clock.wall_ms()))
