"""Where a dead letter goes when it is sent on: the queue that the message stood in, as far as anything still tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.broker.dead_letters.reading import Letter
from litemq.errors import LiteMQError, TopicNotFoundError
from litemq.format.crc import crc32c
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.storage.state import TopicFacts
from litemq.storage.state.topics import HALF_TOPIC_ID
from litemq.storage.store import Store
from litemq.types import PRIORITY_CLASSES, Stamp, priority_class

__all__ = ["Destinations"]

_MOST_STEPS: Final = 64  # from a retry to the one before it: more tries than anybody makes


class Destinations:
    """The queues of topics, for letters that go back to them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def topic(self, name: str) -> TopicFacts:
        """The topic that letters go back to; raises where it is not there any more."""
        facts = self._store.state.topic(name)
        if facts is None:
            raise TopicNotFoundError(
                f"there is no topic {name!r} to send its dead letters to: create it again with `litemq topic create {name}`"
            )
        return facts

    def queues_of(self, topic: str, letters: Sequence[Letter]) -> list[tuple[int, int]]:
        """For each letter the topic's number and the queue's. From a thread: it may wait for the disk."""
        facts = self.topic(topic)
        return [(facts.topic_id, self._queue(facts, letter) % facts.queues) for letter in letters]

    def with_priority(self, topic_id: int, queue_id: int, priority: int) -> int:
        """The queue id of a message's priority, beside a queue id of the same queue."""
        if not self._store.state.topics[topic_id].has_priorities:
            return queue_id
        return queue_id - queue_id % PRIORITY_CLASSES + priority_class(priority)

    def _queue(self, topic: TopicFacts, letter: Letter) -> int:
        original = letter.original()
        stamp = original.stamp
        for _ in range(_MOST_STEPS):
            if stamp is None:
                break
            if self._is_of(topic, stamp.topic_id) or stamp.topic_id == HALF_TOPIC_ID:  # a half stands under its destination's number
                return stamp.queue_id
            stamp = self._before(stamp)
        topic_id, _, rest = letter.story.place.partition("/")
        queue_id = rest.partition("/")[0]
        if topic_id.isdecimal() and queue_id.isdecimal() and self._is_of(topic, int(topic_id)):
            return int(queue_id)
        # Nothing tells any more. Messages of one key stay together, at least.
        return crc32c((original.record.sharding_key or original.record.message_id).encode())

    def _is_of(self, topic: TopicFacts, topic_id: int) -> bool:
        """Whether a number is the topic's, or was before it was created again."""
        facts = self._store.state.topics.get(topic_id)
        return facts is not None and facts.name == topic.name

    def _before(self, stamp: Stamp) -> Stamp | None:
        """The record that one came from, if it is still there."""
        if stamp.origin < 0:
            return None
        try:
            return decode_record(self._store.read_raw(stamp.origin), limits=STORED_LIMITS, verify_crc=False).stamp
        except LiteMQError:
            return None  # retention took it, or nobody can read it
