"""The queue of a redriven dead letter: the original queue of its message, if still known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.broker.dead_letters.reading import DeadLetter
from litemq.errors import LiteMQError, TopicNotFoundError
from litemq.format.crc import crc32c
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.storage.state import TopicFacts
from litemq.storage.state.topics import HALF_TOPIC_ID
from litemq.storage.store import Store
from litemq.types import PRIORITY_CLASSES, Stamp, priority_class

__all__ = ["RedriveDestinations"]

_MOST_STEPS: Final = 64  # from a retry to the one before it: more tries than anybody makes


class RedriveDestinations:
    """Finds the queues of redriven dead letters."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def topic(self, name: str) -> TopicFacts:
        """Return the topic called ``name``, or raise if it is gone."""
        facts = self._store.state.topic(name)
        if facts is None:
            raise TopicNotFoundError(
                f"there is no topic {name!r} to send its dead letters to: create it again with `litemq topic create {name}`"
            )
        return facts

    def queues_of(self, topic: str, dead_letters: Sequence[DeadLetter]) -> list[tuple[int, int]]:
        """Return the topic id and queue id of each dead letter.

        In a thread: it may wait for the disk.
        """
        facts = self.topic(topic)
        return [(facts.topic_id, self._queue(facts, dead_letter) % facts.queues) for dead_letter in dead_letters]

    def with_priority(self, topic_id: int, queue_id: int, priority: int) -> int:
        """The queue id of a message's priority, beside a queue id of the same queue."""
        if not self._store.state.topics[topic_id].has_priorities:
            return queue_id
        return queue_id - queue_id % PRIORITY_CLASSES + priority_class(priority)

    def _queue(self, topic: TopicFacts, dead_letter: DeadLetter) -> int:
        original = dead_letter.original()
        stamp = original.stamp
        for _ in range(_MOST_STEPS):
            if stamp is None:
                break
            if self._is_of(topic, stamp.topic_id) or stamp.topic_id == HALF_TOPIC_ID:  # a half has the queue id of its destination
                return stamp.queue_id
            stamp = self._before(stamp)
        topic_id, _, rest = dead_letter.story.place.partition("/")
        queue_id = rest.partition("/")[0]
        if topic_id.isdecimal() and queue_id.isdecimal() and self._is_of(topic, int(topic_id)):
            return int(queue_id)
        # The queue is no longer known. Messages of one key still share a queue.
        return crc32c((original.record.sharding_key or original.record.message_id).encode())

    def _is_of(self, topic: TopicFacts, topic_id: int) -> bool:
        """Return whether ``topic_id`` is the topic's, or was before the topic was created again."""
        facts = self._store.state.topics.get(topic_id)
        return facts is not None and facts.name == topic.name

    def _before(self, stamp: Stamp) -> Stamp | None:
        """Return the stamp of the record that ``stamp`` originates from, if it is still there."""
        if stamp.origin < 0:
            return None
        try:
            return decode_record(self._store.read_raw(stamp.origin), limits=STORED_LIMITS, verify_crc=False).stamp
        except LiteMQError:
            return None  # retention took it, or it is damaged
