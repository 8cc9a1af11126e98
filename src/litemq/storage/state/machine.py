"""The state machine of a broker: topics, queue ranges, producers' sequences, and the parts.

Pure: the log has each change before the state applies it, and applying has no other effect. The
same records give the same state, whichever process applies them. ``State.rows`` exports the whole
state for a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from litemq.proto.control_pb2 import Control, Queue, Row
from litemq.proto.control_pb2 import Topic as WireTopic
from litemq.storage.state.machine_parts import MachineParts, PlacedEvent
from litemq.storage.state.producers import Producers, runs_row
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID, SYSTEM_TOPICS, QueueKey, Topic
from litemq.storage.state.transactions.half_events import HalvesPlaced
from litemq.types import Visibility

__all__ = ["State"]


class State:
    """The state as of the last applied record."""

    def __init__(self) -> None:
        self.topics: dict[int, Topic] = {topic.topic_id: topic for topic in SYSTEM_TOPICS}
        # The id of the latest topic of each name, deleted or not.
        self.topic_ids: dict[str, int] = {topic.name: topic.topic_id for topic in SYSTEM_TOPICS}
        self._former_ids: dict[str, list[int]] = {}  # of all topics of a name, deleted or not
        self.start_offsets: dict[QueueKey, int] = {}
        self.end_offsets: dict[QueueKey, int] = {}
        self.producers = Producers()
        self.parts = MachineParts()

    @property
    def free_topic_id(self) -> int:
        """The id for the next topic; never the id of a topic in the state, deleted or not."""
        return max(FIRST_FREE_TOPIC_ID - 1, *self.topics) + 1

    @property
    def group_offsets(self) -> dict[tuple[str, QueueKey], int]:
        """The committed offsets by group and queue."""
        return self.parts.progress.offsets

    def apply(self, control: Control) -> list[Row]:
        """Apply ``control``; return the changed rows, except those of the parts."""
        rows = self._apply(control)
        self.parts.apply(control)
        return rows

    def place(self, event: PlacedEvent) -> PlacedEvent:
        """Apply an event of records other than plain messages, after ``extend_queue``.

        Return the event as applied: halves get the id of the topic that has their topic's name now.
        """
        if isinstance(event, HalvesPlaced):
            event = event._replace(topic_id=self.topic_ids.get(event.topic, 0))
        self.parts.place(event)
        return event

    def _apply(self, control: Control) -> list[Row]:
        match control.WhichOneof("change"):
            case "topic_created":
                continued = self._continue_queues(control.topic_created.topic)
                self._put_topic(control.topic_created.topic)
                return [self._topic_row(control.topic_created.topic.topic_id), *map(self.queue_row, continued)]
            case "topic_deleted":
                topic = self.topics.get(control.topic_deleted.topic_id)
                if topic is None:
                    return []
                self.topics[topic.topic_id] = topic._replace(deleted=True)
                return [self._topic_row(topic.topic_id), *map(runs_row, self.producers.forget_topic(topic.topic_id))]
            case "topic_changed":
                changed = control.topic_changed.topic
                if changed.topic_id not in self.topics:
                    return []
                self.topics[changed.topic_id] = Topic.from_wire(changed)
                return [self._topic_row(changed.topic_id)]
            case "retention_crossed":
                keys = [QueueKey(queue.topic_id, queue.queue_id) for queue in control.retention_crossed.queues]
                for key, queue in zip(keys, control.retention_crossed.queues, strict=True):
                    self.start_offsets[key] = max(queue.least, self.start_offsets.get(key, 0))
                return [self.queue_row(key) for key in keys if key in self.end_offsets]
            case _:
                return []  # a snapshot record changes nothing; an unknown change comes from a later version

    def extend_queue(self, key: QueueKey, end_offset: int) -> None:
        """Set the end of a queue that has grown."""
        self.end_offsets[key] = end_offset
        if end_offset <= self.start_offsets.setdefault(key, 0):
            self.start_offsets[key] = 0  # an earlier version did not continue the offsets of this queue

    def topic(self, name: str) -> Topic | None:
        """Return the topic named ``name``, or ``None`` if it does not exist or is deleted."""
        topic = self.topics.get(self.topic_ids.get(name, -1))
        return None if topic is None or topic.deleted else topic

    def earliest(self, key: QueueKey) -> int:
        """Return the oldest readable offset of a queue, in the log or in its topic's archive."""
        start, archived = self.start_offsets.get(key, 0), self.parts.archives.queue(key)
        return start if archived is None or archived.begin >= archived.end else min(archived.begin, start)

    def shows_received(self, key: QueueKey) -> bool:
        """Return whether consumers of a queue read its messages before they are confirmed."""
        topic = self.topics.get(key.topic_id)
        if topic is not None and not topic.queues:  # a retry queue: its queue id is its topic's id
            topic = self.topics.get(key.queue_id)
        return topic is not None and topic.visibility == Visibility.RECEIVED

    def unarchived(self) -> list[tuple[QueueKey, int]]:
        """Return the queues with unarchived messages that retention waits for.

        Each comes with the first offset that its archive lacks.
        """
        lacking = []
        for topic_id in sorted(self.topics):
            topic = self.topics[topic_id]
            if topic.archived and not topic.deleted:
                for key in (QueueKey(topic_id, queue_id) for queue_id in range(topic.queues)):
                    archived = self.parts.archives.queue(key)
                    first = max(self.start_offsets.get(key, 0), 0 if archived is None else archived.end)
                    if first < self.end_offsets.get(key, 0):
                        lacking.append((key, first))
        return lacking

    def _continue_queues(self, topic: WireTopic) -> list[QueueKey]:
        """Continue the offsets of all deleted topics of the same name, which may be wider."""
        former = self._former_ids.get(topic.name, [])
        continued = []
        for queue_id in range(topic.queues):
            new = QueueKey(topic.topic_id, queue_id)
            ends = [
                self.end_offsets[old]
                for old in (QueueKey(each, queue_id) for each in former)
                if old in self.end_offsets
            ]
            if ends and new not in self.end_offsets:
                self.end_offsets[new] = self.start_offsets[new] = max(ends)
                continued.append(new)
        return continued

    def _put_topic(self, topic: WireTopic) -> None:
        self.topics[topic.topic_id] = Topic.from_wire(topic)
        self.topic_ids[topic.name] = max(topic.topic_id, self.topic_ids.get(topic.name, 0))
        former = self._former_ids.setdefault(topic.name, [])
        if topic.topic_id not in former:
            former.append(topic.topic_id)

    def _topic_row(self, topic_id: int) -> Row:
        return Row(topic=self.topics[topic_id].to_wire())

    def queue_row(self, key: QueueKey) -> Row:
        start, end = self.start_offsets[key], self.end_offsets[key]
        return Row(queue=Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=start, next=end))

    def copy(self) -> State:
        """Return an independent copy, for a snapshot."""
        other = State()
        other.topics, other.topic_ids = dict(self.topics), dict(self.topic_ids)
        other._former_ids = {name: list(ids) for name, ids in self._former_ids.items()}
        other.start_offsets, other.end_offsets = dict(self.start_offsets), dict(self.end_offsets)
        other.producers = self.producers.copy()
        other.parts = self.parts.copy()
        return other

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        yield from map(self._topic_row, sorted(self.topics))
        yield from map(self.queue_row, sorted(self.end_offsets))
        yield from self.producers.rows()
        yield from self.parts.rows()

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> State:
        state = cls()
        for row in rows:
            match row.WhichOneof("row"):
                case "topic":
                    state._put_topic(row.topic)
                case "queue":
                    key = QueueKey(row.queue.topic_id, row.queue.queue_id)
                    state.start_offsets[key], state.end_offsets[key] = row.queue.least, row.queue.next
                case "producer_runs":
                    state.producers.put(row.producer_runs)
                case _:
                    state.parts.put(row)
        return state
