"""What a group may be given of a topic: messages of all its queues, and of the queue in which the group tries them again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from litemq.broker.delivery.availability import Stock
from litemq.broker.delivery.granting import Giving, Granted, Wish
from litemq.broker.delivery.queue_rotation import QueueTurns
from litemq.broker.delivery.read_ahead import Chunks
from litemq.broker.delivery.tick_record import Tick
from litemq.broker.runtime.topic_directory import check_queue
from litemq.format.offset_runs import Run, RunSet
from litemq.storage.state import QueueKey, TopicFacts, retry_topic
from litemq.storage.state.delivery.leases import Lease
from litemq.storage.store import Store

__all__ = ["TopicStock"]

_REMEMBERED: Final = 10_000  # leases of a group and topic that were settled lately


class TopicStock:
    """All queues of a topic, for one group."""

    def __init__(self, store: Store, chunks: Chunks, group: str, topic: TopicFacts) -> None:
        self._store = store
        self._chunks = chunks
        self.group = group
        self.topic_id = topic.topic_id
        self._stocks: dict[QueueKey, Stock] = {}
        self._settled: OrderedDict[tuple[int, QueueKey, bool], list[Run]] = OrderedDict()  # by token
        self._facts: TopicFacts | None = None
        self._turns = QueueTurns(0)

    @property
    def topic(self) -> TopicFacts:
        return self._store.state.topics[self.topic_id]

    @property
    def in_flight(self) -> int:
        """How many messages are leased."""
        return sum(stock.in_flight for stock in self._stocks.values())

    @property
    def stocks(self) -> list[Stock]:
        return list(self._stocks.values())

    @property
    def is_reading(self) -> bool:
        """Whether something that was asked for is on its way from the disk."""
        return any(self._chunks.is_reading((self.group, key)) for key in self._stocks)

    def queues(self) -> list[QueueKey]:
        """The queues that there are, the group's retry queue last."""
        keys = [QueueKey(self.topic_id, queue_id) for queue_id in range(self.topic.queues)]
        retry = self._store.state.topic(retry_topic(self.group))
        return keys if retry is None else [*keys, QueueKey(retry.topic_id, self.topic_id)]

    def key_of(self, queue_id: int, *, is_retry: bool) -> QueueKey:
        """The queue that a request means."""
        if is_retry:
            return QueueKey(self.retry_topic().topic_id, self.topic_id)
        check_queue(self._store.state.topics[self.topic_id], queue_id)
        return QueueKey(self.topic_id, queue_id)

    def retry_topic(self) -> TopicFacts:
        """Where the group tries messages again."""
        return self._store.system_topic(retry_topic(self.group))

    def stock(self, key: QueueKey) -> Stock:
        """The messages of one queue."""
        stock = self._stocks.get(key)
        if stock is None:
            stock = self._stocks[key] = Stock(self.group, key, self._store.state.delivery.progress)
        return stock

    def refresh(self, now: int) -> Iterator[tuple[Stock, Lease]]:
        """See what others changed; gives the leases that are to be watched."""
        for key in self.queues():
            stock = self.stock(key)
            for lease in stock.refresh(now):
                yield stock, lease

    def forget(self) -> None:
        """Nothing of what was decided since the last record is true."""
        self._stocks.clear()

    def recorded(self) -> None:
        """Everything that was decided is in the log."""
        for stock in self._stocks.values():
            stock.recorded()

    def settled(self, token: int, key: QueueKey, begin: int, end: int, *, failed: bool = False) -> None:
        """Whoever had this token has settled some messages; it is remembered for a while, since the answer may be lost."""
        self._settled.setdefault((token, key, failed), []).append((begin, end))
        if len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)

    def not_settled(self, token: int, key: QueueKey, runs: list[Run], *, failed: bool = False) -> list[Run]:
        """Those of some messages that whoever had this token has not settled, or not in this way."""
        settled = self._settled.get((token, key, failed))
        return runs if settled is None else [left for run in runs for left in RunSet(settled).without(*run)]

    @property
    def has_unread(self) -> bool:
        """Whether there is something that was never given out, and may be read when it is safe."""
        following = self._store.state.next
        return any(stock.frontier < following.get(key, 0) for key, stock in self._stocks.items())

    # Giving out ---------------------------------------------------------------------------------------------------------------

    def grant(self, wish: Wish, tick: Tick) -> Granted:
        """Messages for somebody, as many as there are and are wished for: some that are tried again, then the queues in their turn."""
        topic = self.topic
        if topic != self._facts:
            self._facts = topic
            self._turns = QueueTurns(topic.queues, has_priorities=topic.has_priorities, weighted=topic.weighted_priorities)
        giving = Giving(self._store, self._chunks, topic, wish, tick)
        granted = giving.granted
        retries = [stock for key, stock in self._stocks.items() if key.topic_id != self.topic_id]
        for stock in retries:
            giving.take(stock, -(-wish.max_messages // 2))
        self._turns.take(wish.max_messages - len(granted.counts), lambda queue_id, most: giving.take(self._of_id(queue_id), most))
        for stock in retries:
            giving.take(stock, wish.max_messages - len(granted.counts))
        return granted

    def _of_id(self, queue_id: int) -> Stock:
        return self.stock(QueueKey(self.topic_id, queue_id))
