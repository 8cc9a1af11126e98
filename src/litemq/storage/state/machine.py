"""What a broker knows besides its messages: topics, queues, what groups have done and what producers have sent.

A pure state machine: each change is a record in the log first, and taking it in is all that happens here. The same records give the same
state, whoever applies them and whenever; ``rows`` is the whole of it, for a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from litemq.proto.control_pb2 import Control, Queue, Row, Topic
from litemq.storage.state.machine_parts import Delivery, PlacedEvent
from litemq.storage.state.producers import Producers, runs_row
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID, SYSTEM_TOPICS, QueueKey, TopicFacts
from litemq.storage.state.transactions.half_runs import HalvesPlaced

__all__ = ["State"]


class State:
    """Everything that control records have said so far, each queue's range, and what producers have sent."""

    def __init__(self) -> None:
        self.topics: dict[int, TopicFacts] = {facts.topic_id: facts for facts in SYSTEM_TOPICS}
        # For each name the latest topic that had it, deleted or not.
        self.topic_ids: dict[str, int] = {facts.name: facts.topic_id for facts in SYSTEM_TOPICS}
        self.least: dict[QueueKey, int] = {}
        self.next: dict[QueueKey, int] = {}
        self.producers = Producers()
        self.delivery = Delivery()

    @property
    def free_topic_id(self) -> int:
        """The number that a topic created now gets: never one that was used before, while its topic is known."""
        return max(FIRST_FREE_TOPIC_ID - 1, *self.topics) + 1

    @property
    def group_offsets(self) -> dict[tuple[str, QueueKey], int]:
        """How far groups have come in queues."""
        return self.delivery.progress.offsets

    def apply(self, control: Control) -> list[Row]:
        """Take in one change; returns the rows that are different now, but for those of the delivery."""
        rows = self._apply(control)
        self.delivery.apply(control)
        return rows

    def place(self, event: PlacedEvent) -> PlacedEvent:
        """Take in a record that is no plain message, or many halves; their queues have grown already.

        Returns what was taken in: halves are meant for the topic that has their topic's name now.
        """
        if isinstance(event, HalvesPlaced):
            event = event._replace(topic_id=self.topic_ids.get(event.topic, 0))
        self.delivery.place(event)
        return event

    def _apply(self, control: Control) -> list[Row]:
        match control.WhichOneof("change"):
            case "topic_created":
                continued = self._continue_queues(control.topic_created.topic)
                self._put_topic(control.topic_created.topic)
                return [self._topic_row(control.topic_created.topic.topic_id), *map(self.queue_row, continued)]
            case "topic_deleted":
                facts = self.topics.get(control.topic_deleted.topic_id)
                if facts is None:
                    return []
                self.topics[facts.topic_id] = facts._replace(deleted=True)
                return [self._topic_row(facts.topic_id), *map(runs_row, self.producers.forget_topic(facts.topic_id))]
            case "topic_changed":
                changed = control.topic_changed.topic
                if changed.topic_id not in self.topics:
                    return []
                self.topics[changed.topic_id] = TopicFacts.of(changed)
                return [self._topic_row(changed.topic_id)]
            case "retention_crossed":
                keys = [QueueKey(queue.topic_id, queue.queue_id) for queue in control.retention_crossed.queues]
                for key, queue in zip(keys, control.retention_crossed.queues, strict=True):
                    self.least[key] = max(queue.least, self.least.get(key, 0))
                return [self.queue_row(key) for key in keys if key in self.next]
            case _:
                return []  # the parts of a snapshot say nothing new; later kinds of change are for later readers

    def placed(self, key: QueueKey, next_offset: int) -> None:
        """A queue has grown to ``next_offset``."""
        self.next[key] = next_offset
        self.least.setdefault(key, 0)

    def topic(self, name: str) -> TopicFacts | None:
        """The topic of that name, if there is one now."""
        facts = self.topics.get(self.topic_ids.get(name, -1))
        return None if facts is None or facts.deleted else facts

    def earliest(self, key: QueueKey) -> int:
        """The oldest offset of a queue that can be read: here, or in its topic's archive."""
        least, archived = self.least.get(key, 0), self.delivery.archives.of_queue(key)
        return least if archived is None or archived.begin >= archived.next else min(archived.begin, least)

    def unarchived(self) -> list[tuple[QueueKey, int]]:
        """The queues for whose archive retention waits, each with the first offset that the archive lacks."""
        lacking = []
        for topic_id in sorted(self.topics):
            topic = self.topics[topic_id]
            if topic.archived and not topic.deleted:
                for key in (QueueKey(topic_id, queue_id) for queue_id in range(topic.queues)):
                    archived = self.delivery.archives.of_queue(key)
                    first = max(self.least.get(key, 0), 0 if archived is None else archived.next)
                    if first < self.next.get(key, 0):
                        lacking.append((key, first))
        return lacking

    def _continue_queues(self, topic: Topic) -> list[QueueKey]:
        """A topic that is created again goes on with its offsets where the one before it ended."""
        before = self.topic_ids.get(topic.name)
        continued = []
        for queue_id in range(topic.queues):
            old, new = QueueKey(before or 0, queue_id), QueueKey(topic.topic_id, queue_id)
            if old in self.next and new not in self.next:
                self.next[new] = self.least[new] = self.next[old]
                continued.append(new)
        return continued

    def _put_topic(self, topic: Topic) -> None:
        self.topics[topic.topic_id] = TopicFacts.of(topic)
        self.topic_ids[topic.name] = max(topic.topic_id, self.topic_ids.get(topic.name, 0))

    def _topic_row(self, topic_id: int) -> Row:
        return Row(topic=self.topics[topic_id].told())

    def queue_row(self, key: QueueKey) -> Row:
        return Row(queue=Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=self.least[key], next=self.next[key]))

    def copy(self) -> State:
        """As it is now, to be told in a snapshot while this one goes on."""
        other = State()
        other.topics, other.topic_ids = dict(self.topics), dict(self.topic_ids)
        other.least, other.next = dict(self.least), dict(self.next)
        other.producers = self.producers.copy()
        other.delivery = self.delivery.copy()
        return other

    def rows(self) -> Iterator[Row]:
        """All of it, in one order whatever the order in which it came."""
        yield from map(self._topic_row, sorted(self.topics))
        yield from map(self.queue_row, sorted(self.next))
        yield from self.producers.rows()
        yield from self.delivery.rows()

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> State:
        state = cls()
        for row in rows:
            match row.WhichOneof("row"):
                case "topic":
                    state._put_topic(row.topic)
                case "queue":
                    key = QueueKey(row.queue.topic_id, row.queue.queue_id)
                    state.least[key], state.next[key] = row.queue.least, row.queue.next
                case "producer_runs":
                    state.producers.put(row.producer_runs)
                case _:
                    state.delivery.put(row)
        return state
