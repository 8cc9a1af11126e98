"""Topics by name, as requests name them."""

from __future__ import annotations

from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.storage.state import TopicFacts
from litemq.storage.store import Store
from litemq.types import is_system_name

__all__ = ["TopicDirectory", "check_queue"]


class TopicDirectory:
    """The topics of a store. It keeps nothing of its own: the store's state is the truth."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, name: str) -> TopicFacts:
        """Return the topic called ``name``, or raise ``TopicNotFoundError``."""
        topic = self._store.state.topic(name)
        if topic is None:
            raise TopicNotFoundError(f"there is no topic {name!r}: create it with `litemq topic create {name}`")
        return topic

    def find_with_queue(self, name: str, queue_id: int) -> TopicFacts:
        """Return the topic called ``name``; raise if it is unknown, or has no queue ``queue_id``."""
        topic = self.find(name)
        check_queue(topic, queue_id)
        return topic

    @property
    def user_topics(self) -> list[TopicFacts]:
        """The topics that users created, sorted by name."""
        facts = [facts for facts in self._store.state.topics.values() if not facts.deleted and not is_system_name(facts.name)]
        return sorted(facts, key=lambda topic: topic.name)

    @property
    def readable(self) -> list[TopicFacts]:
        """All topics that clients can read, those of the broker among them."""
        # System topics without a fixed number of queues are read by the broker alone.
        return [topic for topic in self._store.state.topics.values() if not topic.deleted and topic.queues]


def check_queue(topic: TopicFacts, queue_id: int) -> None:
    """Raise unless ``topic`` has a queue ``queue_id``."""
    if queue_id >= topic.queues:
        raise InvalidArgumentError(f"queue {queue_id}: topic {topic.name!r} has {topic.queues}")
