"""Topics by name, as requests name them."""

from __future__ import annotations

from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.storage.state import CONTROL_TOPIC, Topic
from litemq.storage.store import Store
from litemq.types import is_system_name

__all__ = ["TopicDirectory", "check_queue"]


class TopicDirectory:
    """Finds the topics of a store. It has no state of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, name: str) -> Topic:
        """Return the topic called ``name``, or raise ``TopicNotFoundError``."""
        if name == CONTROL_TOPIC:
            raise InvalidArgumentError(
                f"topic {name!r} is reserved: it has the broker's own records, which no client can read or change"
            )
        topic = self._store.state.topic(name)
        if topic is None:
            raise TopicNotFoundError(f"topic {name!r} does not exist: create it with `litemq topic create {name}`")
        return topic

    def find_with_queue(self, name: str, queue_id: int) -> Topic:
        """Return the topic ``name``; raise if it is unknown, or has no queue ``queue_id``."""
        topic = self.find(name)
        check_queue(topic, queue_id)
        return topic

    @property
    def user_topics(self) -> list[Topic]:
        """The topics that users created, sorted by name."""
        topics = self._store.state.topics.values()
        return sorted(
            (topic for topic in topics if not topic.deleted and not is_system_name(topic.name)),
            key=lambda topic: topic.name,
        )

    @property
    def readable(self) -> list[Topic]:
        """All topics that clients can read, those of the broker among them."""
        # The broker alone reads the control topic, and system topics without a number of queues.
        topics = self._store.state.topics.values()
        return [topic for topic in topics if not topic.deleted and topic.queues and topic.name != CONTROL_TOPIC]


def check_queue(topic: Topic, queue_id: int) -> None:
    """Raise unless ``topic`` has a queue ``queue_id``."""
    if queue_id >= topic.queues:
        raise InvalidArgumentError(
            f"topic {topic.name!r} has no queue {queue_id}: it has {topic.queues}, numbered from 0"
        )
