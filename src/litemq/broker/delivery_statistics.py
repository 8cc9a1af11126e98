"""How a group stands in a topic: what is left for it to do, what it is doing, and for how long the oldest message has waited."""

from __future__ import annotations

from typing import NamedTuple

from litemq.storage.state import QueueKey, State, retry_topic
from litemq.storage.state.progress import QueueProgress
from litemq.storage.store import Store

__all__ = ["DeliveryStatistics", "QueueStatistics", "delivery_statistics", "oldest_store_timestamp"]

_NOTHING = QueueProgress()


class QueueStatistics(NamedTuple):
    """One queue, exactly: ``lag`` messages are not done, of which ``in_flight`` are leased and ``ready`` can be had."""

    key: QueueKey
    offset: int  # everything below is done; -1: the group has never been here
    next: int
    lag: int
    in_flight: int
    ready: int
    oldest: int  # offset of the first message that is not done; the next one, if all are


class DeliveryStatistics(NamedTuple):
    """All queues of a topic, and the group's retry queue of it as the last, where there is one."""

    queues: tuple[QueueStatistics, ...]
    waiting_tries: int  # failed, and due later: neither in flight nor in any queue

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def in_flight(self) -> int:
        return sum(queue.in_flight for queue in self.queues)

    @property
    def ready(self) -> int:
        return sum(queue.ready for queue in self.queues)


def delivery_statistics(state: State, group: str, topic_id: int, now: int) -> DeliveryStatistics:
    """How a group stands in a topic at a time (ms)."""
    keys = [QueueKey(topic_id, queue_id) for queue_id in range(state.topics[topic_id].queues)]
    retry = state.topic(retry_topic(group))
    if retry is not None and QueueKey(retry.topic_id, topic_id) in state.next:
        keys.append(QueueKey(retry.topic_id, topic_id))
    waiting = sum(1 for _, name, waits in state.delivery.tries if name == group and waits.topic_id == topic_id)
    return DeliveryStatistics(tuple(_of_queue(state, group, key, now) for key in keys), waiting)


def _of_queue(state: State, group: str, key: QueueKey, now: int) -> QueueStatistics:
    progress = state.delivery.progress
    committed = progress.offsets.get((group, key), -1)
    least, following = state.least.get(key, 0), state.next.get(key, 0)
    begin = max(committed, least)  # what retention took is no lag
    queue = progress.of_queue(group, key) or _NOTHING
    undone = queue.done.without(begin, following)
    lag = sum(end - first for first, end in undone)
    in_flight = sum(lease.end - lease.begin for lease in queue.leases.within(begin, following) if lease.deadline > now)
    return QueueStatistics(key, committed, following, lag, in_flight, lag - in_flight, undone[0][0] if undone else following)


def oldest_store_timestamp(store: Store, statistics: DeliveryStatistics) -> int:
    """When the oldest message that is not done was stored (ms); 0, if there is none. It may wait for the disk."""
    times = []
    for queue in statistics.queues:
        if queue.lag:
            entries = store.read_entries(queue.key, queue.oldest, 1)
            times += entries["store_timestamp"].tolist()
    return min(times, default=0)
