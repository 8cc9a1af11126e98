"""The availability of a topic for a group: its queues and the group's retry queue."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from litemq.broker.delivery.availability import QueueAvailability
from litemq.broker.delivery.granting import Grant, GrantBuilder, GrantRequest
from litemq.broker.delivery.queue_rotation import QueueRotation
from litemq.broker.delivery.read_ahead import ReadAhead
from litemq.broker.delivery.tick_record import TickRecord
from litemq.broker.runtime.topic_directory import check_queue
from litemq.format.offset_runs import Run, RunSet
from litemq.storage.state import QueueKey, Topic, retry_topic
from litemq.storage.state.delivery.leases import Lease
from litemq.storage.store import Store

__all__ = ["TopicAvailability"]

_REMEMBERED: Final = 10_000  # recently settled leases of a group and topic


class TopicAvailability:
    """All queues of a topic, for one group."""

    def __init__(self, store: Store, read_ahead: ReadAhead, group: str, topic: Topic) -> None:
        self._store = store
        self._read_ahead = read_ahead
        self.group = group
        self.topic_id = topic.topic_id
        self._queues: dict[QueueKey, QueueAvailability] = {}
        self._settled: OrderedDict[tuple[int, QueueKey, bool], list[Run]] = OrderedDict()  # by token
        self._rotation_topic: Topic | None = None
        self._rotation = QueueRotation(0)

    @property
    def topic(self) -> Topic:
        return self._store.state.topics[self.topic_id]

    @property
    def in_flight(self) -> int:
        """The number of messages that are leased."""
        return sum(queue.in_flight for queue in self._queues.values())

    @property
    def is_reading(self) -> bool:
        """Whether a read from the disk is under way."""
        return any(self._read_ahead.is_reading((self.group, key)) for key in self._queues)

    def queue_keys(self) -> list[QueueKey]:
        """Return the topic's queues and the group's retry queue."""
        keys = [QueueKey(self.topic_id, queue_id) for queue_id in range(self.topic.queues)]
        retry = self._store.state.topic(retry_topic(self.group))
        return keys if retry is None else [*keys, QueueKey(retry.topic_id, self.topic_id)]

    def queue_key(self, queue_id: int, *, is_retry: bool) -> QueueKey:
        """Return the queue that a request names, or raise if the topic has none."""
        if is_retry:
            return QueueKey(self.retry_topic().topic_id, self.topic_id)
        check_queue(self._store.state.topics[self.topic_id], queue_id)
        return QueueKey(self.topic_id, queue_id)

    def retry_topic(self) -> Topic:
        """Return the group's retry topic; create it if there is none."""
        return self._store.system_topic(retry_topic(self.group))

    def queue(self, key: QueueKey) -> QueueAvailability:
        """Return the availability of one queue."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = QueueAvailability(self.group, key, self._store.state.parts.progress)
        return queue

    def refresh(self, now: int) -> Iterator[tuple[QueueAvailability, Lease]]:
        """Follow changes of the log's view, and yield the leases to watch."""
        for key in self.queue_keys():
            queue = self.queue(key)
            for lease in queue.refresh(now):
                yield queue, lease

    def forget(self) -> None:
        """Discard all decisions since the last record."""
        self._queues.clear()

    def recorded(self) -> None:
        """The decisions of the tick are in the log."""
        for queue in self._queues.values():
            queue.recorded()

    def settled(self, token: int, key: QueueKey, begin: int, end: int, *, failed: bool = False) -> None:
        """Remember that the holder of ``token`` has settled a run. It repeats the request if
        the answer is lost.
        """
        self._settled.setdefault((token, key, failed), []).append((begin, end))
        if len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)

    def not_settled(self, token: int, key: QueueKey, runs: list[Run], *, failed: bool = False) -> list[Run]:
        """Return the parts of ``runs`` that the holder of ``token`` has not settled so."""
        settled = self._settled.get((token, key, failed))
        return runs if settled is None else [left for run in runs for left in RunSet(settled).without(*run)]

    @property
    def has_unread(self) -> bool:
        """Whether there are messages that were never leased, confirmed or not."""
        end_offsets = self._store.state.end_offsets
        return any(queue.frontier < end_offsets.get(key, 0) for key, queue in self._queues.items())

    # Granting -------------------------------------------------------------------------------------

    def grant(self, request: GrantRequest, tick: TickRecord) -> Grant:
        """Grant messages: up to half of them retries, then the queues in rotation, then retries."""
        topic = self.topic
        if topic != self._rotation_topic:
            self._rotation_topic = topic
            self._rotation = QueueRotation(
                topic.queues, has_priorities=topic.has_priorities, weighted=topic.weighted_priorities
            )
        builder = GrantBuilder(self._store, self._read_ahead, topic, request, tick)
        grant = builder.grant
        retries = [queue for key, queue in self._queues.items() if key.topic_id != self.topic_id]
        for queue in retries:
            builder.take(queue, -(-request.max_messages // 2))
        self._rotation.take(
            request.max_messages - len(grant.counts),
            lambda queue_id, limit: builder.take(self._topic_queue(queue_id), limit),
        )
        for queue in retries:
            builder.take(queue, request.max_messages - len(grant.counts))
        return grant

    def _topic_queue(self, queue_id: int) -> QueueAvailability:
        return self.queue(QueueKey(self.topic_id, queue_id))
