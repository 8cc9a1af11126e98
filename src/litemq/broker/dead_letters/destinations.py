"""The queue of a redriven dead letter: the original queue of its message, if still known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.broker.dead_letters.reading import DeadLetter
from litemq.errors import LiteMQError, TopicNotFoundError
from litemq.format.crc import crc32c
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.storage.state import Topic
from litemq.storage.state.topics import HALF_TOPIC_ID
from litemq.storage.store import Store
from litemq.types import PRIORITY_CLASSES, Stamp, priority_class

__all__ = ["RedriveDestinations"]

_MAX_STEPS: Final = 64  # back through the retries of a message


class RedriveDestinations:
    """Finds the queues of redriven dead letters."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def topic(self, name: str) -> Topic:
        """Return the topic called ``name``, or raise if it is gone."""
        topic = self._store.state.topic(name)
        if topic is None:
            raise TopicNotFoundError(
                f"topic {name!r} of the dead letters does not exist: create it again with `litemq topic create {name}`"
            )
        return topic

    def find_queues(self, topic: str, dead_letters: Sequence[DeadLetter]) -> list[tuple[int, int]]:
        """Return the topic id and queue id of each dead letter.

        In a thread: it may wait for the disk.
        """
        found = self.topic(topic)
        return [(found.topic_id, self._queue(found, dead_letter) % found.queues) for dead_letter in dead_letters]

    def with_priority(self, topic_id: int, queue_id: int, priority: int) -> int:
        """Return the queue id for ``priority`` within the queue of ``queue_id``."""
        if not self._store.state.topics[topic_id].has_priorities:
            return queue_id
        return queue_id - queue_id % PRIORITY_CLASSES + priority_class(priority)

    def _queue(self, topic: Topic, dead_letter: DeadLetter) -> int:
        original = dead_letter.original()
        stamp = original.stamp
        for _ in range(_MAX_STEPS):
            if stamp is None:
                break
            if (
                self._is_of(topic, stamp.topic_id) or stamp.topic_id == HALF_TOPIC_ID
            ):  # a half has the queue id of its destination
                return stamp.queue_id
            stamp = self._before(stamp)
        topic_id, _, rest = dead_letter.history.position.partition("/")
        queue_id = rest.partition("/")[0]
        if topic_id.isdecimal() and queue_id.isdecimal() and self._is_of(topic, int(topic_id)):
            return int(queue_id)
        # The queue is no longer known. Messages of one key still share a queue.
        return crc32c((original.record.sharding_key or original.record.message_id).encode())

    def _is_of(self, topic: Topic, topic_id: int) -> bool:
        """Return whether ``topic_id`` is the topic's, or was before the topic was created again."""
        other = self._store.state.topics.get(topic_id)
        return other is not None and other.name == topic.name

    def _before(self, stamp: Stamp) -> Stamp | None:
        """Return the stamp of the record that ``stamp`` originates from, if it is still there."""
        if stamp.origin < 0:
            return None
        try:
            return decode_record(self._store.read_raw(stamp.origin), limits=STORED_LIMITS, verify_crc=False).stamp
        except LiteMQError:
            return None  # retention deleted it, or it is damaged
