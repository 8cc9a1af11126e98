"""How far a queue may run ahead of its slowest group: what is sent beyond that is refused, or dies for the groups that are too far behind."""

from __future__ import annotations

from typing import Final

import numpy as np

from litemq.broker.dead_letters.writing import Burial, letters_of
from litemq.clock import Clock
from litemq.errors import BacklogFullError
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.store import Store
from litemq.types import DeadReason, RecordKind

__all__ = ["Backlog"]

_NO_GROUPS: Final = 1024  # so many messages later somebody may have come


class Backlog:
    """Asked before each append, and so mostly a look into a table: below an offset a queue surely has room."""

    def __init__(self, store: Store, clock: Clock, max_backlog: int) -> None:
        """``max_backlog`` is for topics that do not say."""
        self._store = store
        self._clock = clock
        self._max_backlog = max_backlog
        self._room_below: dict[QueueKey, int] = {}

    def check(self, topic: TopicFacts, queue_id: int) -> None:
        """Raises where a queue takes nothing more."""
        key = QueueKey(topic.topic_id, queue_id)
        if self._is_full(topic, key) and not topic.backlog_dead_letters:
            raise BacklogFullError(
                f"queue {queue_id} of {topic.name!r} has {self._most(topic)} messages behind its slowest group: let the group catch up, "
                f"delete it, or raise max_backlog"
            )

    def _most(self, topic: TopicFacts) -> int:
        return topic.max_backlog or self._max_backlog

    def _is_full(self, topic: TopicFacts, key: QueueKey) -> bool:
        following = self._store.state.next.get(key, 0)
        if following < self._room_below.get(key, 0):
            return False
        behind = self._behind(key)
        if not behind:
            self._room_below[key] = following + min(_NO_GROUPS, self._most(topic))
            return False
        room_below = self._room_below[key] = min(behind.values()) + self._most(topic)
        return following >= room_below

    def _behind(self, key: QueueKey) -> dict[str, int]:
        """The groups of a queue, and how far each has come."""
        progress, least = self._store.state.delivery.progress, self._store.state.least.get(key, 0)
        return {group: max(least, progress.offsets[group, key]) for group in progress.groups_of(key)}

    def appended(self, topic: TopicFacts, queue_ids: set[int], batch: bytearray) -> None:
        """Messages were taken: where the topic says so, those that are too many die for each group that is too far behind."""
        if not topic.backlog_dead_letters:
            return
        full = [key for queue_id in queue_ids if self._is_full(topic, key := QueueKey(topic.topic_id, queue_id))]
        if not full:
            return
        starts = scan(batch, limits=STORED_LIMITS).starts
        header = RecordColumns(batch, starts).header
        bounds = [*starts.tolist(), len(batch)]
        burials: list[Burial] = []
        for key in full:
            for group, offset in self._behind(key).items():
                too_many = (header["queue_id"] == key.queue_id) & (header["queue_offset"] >= offset + self._most(topic))
                for number in np.flatnonzero(too_many & (header["kind"] == RecordKind.MESSAGE)).tolist():
                    record = bytes(batch[bounds[number] : bounds[number + 1]])
                    at = int(header["queue_offset"][number])
                    burials.append(Burial(record, topic.topic_id, key, at, group, 0, DeadReason.QUEUE_FULL))
        if burials:
            self._store.append_placed(letters_of(self._store, burials, self._clock.wall_ms()))
