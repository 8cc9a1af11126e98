"""What a group is given of a topic: messages of all its queues, and of the queue in which the group tries them again."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from itertools import groupby
from time import perf_counter
from typing import Final, NamedTuple

from litemq.broker.choosing import choose, count_unwanted, runs_of
from litemq.broker.chunks import Chunk, Chunks
from litemq.broker.dead_letters import Burial
from litemq.broker.delivery import Piece, Stock
from litemq.broker.filters import Filter
from litemq.broker.lease_tick import Tick
from litemq.broker.priorities import QueueTurns
from litemq.errors import CorruptStoreError, InvalidArgumentError, LiteMQError, OffsetExpiredError
from litemq.format.runs import Run, RunSet
from litemq.storage.state import QueueKey, TopicFacts, retry_topic
from litemq.storage.state.leases import Lease
from litemq.storage.store import Store
from litemq.types import DeadReason

__all__ = ["Granted", "TopicStock", "Wish"]

_REMEMBERED: Final = 10_000  # leases of a group and topic that were settled lately
_LOOKING_SECONDS: Final = 0.004  # for what a filter wants, while others wait
_LOOKED_AT: Final = 8192  # entries
_LOG = logging.getLogger(__name__)


class Wish(NamedTuple):
    """How much somebody asks for."""

    max_messages: int
    max_bytes: int
    max_retries: int
    token: int
    deadline: int
    now: int
    wanted: Filter | None = None  # None: everything


class Granted:
    """What somebody is given: records one behind another, and which try each of them is."""

    __slots__ = ("counts", "is_cut", "leases", "pieces", "size", "trouble", "until")

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.counts: list[int] = []
        self.leases: list[tuple[Stock, Lease]] = []
        self.size = 0
        self.trouble: LiteMQError | None = None  # of which somebody is to be told
        self.until = perf_counter() + _LOOKING_SECONDS  # by then, what a filter has found is enough
        self.is_cut = False  # there is more to be looked at, and the time was up

    def is_enough_for(self, wish: Wish) -> bool:
        """Whether to look no further."""
        return len(self.counts) >= wish.max_messages or self.size >= wish.max_bytes or self.trouble is not None or self.is_cut


class TopicStock:
    """All queues of a topic, for one group."""

    def __init__(self, store: Store, chunks: Chunks, group: str, topic: TopicFacts) -> None:
        self._store = store
        self._chunks = chunks
        self.group = group
        self.topic_id = topic.topic_id
        self._stocks: dict[QueueKey, Stock] = {}
        self._settled: OrderedDict[tuple[int, QueueKey, bool], RunSet] = OrderedDict()  # by token
        self._turn = 0
        self._turns: QueueTurns | None = None  # where the topic has priorities
        self._is_weighted = False

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
        if queue_id >= self.topic.queues:
            raise InvalidArgumentError(f"queue {queue_id}: topic {self.topic.name!r} has {self.topic.queues}")
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
        self._settled.setdefault((token, key, failed), RunSet()).add(begin, end)
        if len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)

    def not_settled(self, token: int, key: QueueKey, runs: list[Run], *, failed: bool = False) -> list[Run]:
        """Those of some messages that whoever had this token has not settled, or not in this way."""
        settled = self._settled.get((token, key, failed))
        return runs if settled is None else [left for run in runs for left in settled.without(*run)]

    @property
    def has_unread(self) -> bool:
        """Whether there is something that was never given out, and may be read when it is safe."""
        following = self._store.state.next
        return any(stock.frontier < following.get(key, 0) for key, stock in self._stocks.items())

    # Giving out ---------------------------------------------------------------------------------------------------------------

    def grant(self, wish: Wish, tick: Tick, burials: list[Burial]) -> Granted:
        """Messages for somebody, as many as there are and are wished for: the queues take turns in being the first."""
        granted = Granted()
        if self.topic.has_priorities:
            self._grant_by_priority(wish, tick, burials, granted)
            return granted
        stocks = self.stocks
        self._turn += 1
        first = self._turn % len(stocks)
        for stock in stocks[first:] + stocks[:first]:
            if granted.is_enough_for(wish):
                break
            self._grant_of(stock, wish, wish.max_messages - len(granted.counts), tick, burials, granted)
        return granted

    def _grant_by_priority(self, wish: Wish, tick: Tick, burials: list[Burial], granted: Granted) -> None:
        """First what is tried again, then the queues as the topic's priorities say."""
        for stock in self.stocks:
            if stock.key.topic_id != self.topic_id and not granted.is_enough_for(wish):
                self._grant_of(stock, wish, wish.max_messages - len(granted.counts), tick, burials, granted)

        def take(queue_id: int, most: int) -> int | None:
            if granted.is_enough_for(wish):
                return None
            before = len(granted.counts)
            self._grant_of(self.stock(QueueKey(self.topic_id, queue_id)), wish, most, tick, burials, granted)
            return len(granted.counts) - before

        if wish.max_messages > len(granted.counts):
            self._queue_turns().take(wish.max_messages - len(granted.counts), take)

    def _queue_turns(self) -> QueueTurns:
        topic = self.topic
        if self._turns is None or self._is_weighted is not topic.weighted_priorities:
            self._turns = QueueTurns(topic.queues, has_priorities=True, weighted=topic.weighted_priorities)
            self._is_weighted = topic.weighted_priorities
        return self._turns

    def _grant_of(self, stock: Stock, wish: Wish, most: int, tick: Tick, burials: list[Burial], granted: Granted) -> None:
        least, following = self._store.state.least.get(stock.key, 0), self._store.state.next.get(stock.key, 0)
        offset = stock.offset
        if offset < least:  # retention was faster
            tick.done(stock.key, offset, least)
            stock.skipped_to(least)
            granted.trouble = OffsetExpiredError(
                f"offsets {offset} … {least - 1} of queue {stock.key.queue_id} are gone: retention took them before group {self.group!r}"
            )
            return
        enough = len(granted.counts) + most
        while len(granted.counts) < enough:
            if wish.wanted is not None and stock.key.topic_id == self.topic_id:
                self._pass_by(stock, wish.wanted, tick)
            looked_at = False
            for piece in stock.take(enough - len(granted.counts), following):
                looked_at = True
                reached = self._grant_piece(stock, piece, wish, tick, burials, granted)
                if reached < piece.end:
                    stock.put_back(reached, piece.end)
                    return
            if wish.wanted is None or not looked_at:
                return
            if perf_counter() >= granted.until:
                granted.is_cut = True
                return

    def _pass_by(self, stock: Stock, wanted: Filter, tick: Tick) -> None:
        """Entries tell that the next messages are of no interest: they are done without being read."""
        if stock.again or not wanted.narrows:
            return
        entries = self._store.read_entries_if_hot(stock.key, stock.frontier, _LOOKED_AT)
        passed = 0 if entries is None else count_unwanted(entries, wanted)
        if passed:
            tick.done(stock.key, stock.frontier, stock.frontier + passed)
            stock.skipped_to(stock.frontier + passed)

    def _grant_piece(self, stock: Stock, piece: Piece, wish: Wish, tick: Tick, burials: list[Burial], granted: Granted) -> int:
        """Give out what can be had of a piece; returns how far that was."""
        reached = piece.begin
        while reached < piece.end:
            room = max(0, wish.max_bytes - granted.size)
            try:
                chunk = self._chunks.at((self.group, stock.key), reached, piece.end - reached, room, self.topic.ttl_ms)
            except CorruptStoreError as error:
                # What is damaged is never served: somebody is told, and the others go on behind it.
                _LOG.error("offset %d of queue %d: %s", reached, stock.key.queue_id, error)
                tick.done(stock.key, reached, reached + 1)
                granted.trouble = error
                return reached + 1
            if chunk is None or chunk.end <= reached:
                return reached
            end = chunk.fitting(reached, min(piece.end, chunk.end), room)
            if end == reached:
                if granted.counts:
                    return reached
                end = reached + 1  # one at least
            self._give(stock, chunk, Piece(reached, end, piece.tries), wish, tick, burials, granted)
            reached = end
        return reached

    def _give(self, stock: Stock, chunk: Chunk, piece: Piece, wish: Wish, tick: Tick, burials: list[Burial], granted: Granted) -> None:
        expired = chunk.is_expired(piece.begin, piece.end, wish.now)
        runs = [(piece.begin, piece.end)]
        if expired is not None:
            runs = runs_of((~expired).tolist(), piece.begin)
            self._bury(chunk, stock.key, runs_of(expired.tolist(), piece.begin), piece.tries, DeadReason.TTL_EXPIRED, burials)
        if wish.wanted is not None and stock.key.topic_id == self.topic_id:
            runs, passed = choose(chunk, runs, wish.wanted)
            for run in passed:
                tick.done(stock.key, *run)
        if piece.tries or stock.key.topic_id == self.topic_id:
            counted: list[tuple[Run, int]] = [(run, piece.tries) for run in runs]
        else:  # tried before it came to this queue
            counted = [each for run in runs for each in _by_count(run, chunk)]
        for (begin, end), count in counted:
            if count > wish.max_retries:
                self._bury(chunk, stock.key, [(begin, end)], count, DeadReason.MAX_RETRY, burials)
                continue
            lease = Lease(begin, end, wish.token, wish.deadline, count + 1)
            tick.granted(stock.key, [lease])
            stock.granted(end - begin)
            view = chunk.view(begin, end)
            granted.pieces.append(view)
            granted.size += len(view)
            granted.counts += [count + 1] * (end - begin)
            granted.leases.append((stock, lease))

    def _bury(self, chunk: Chunk, key: QueueKey, runs: list[Run], count: int, reason: DeadReason, burials: list[Burial]) -> None:
        for begin, end in runs:
            for offset in range(begin, end):
                record = chunk.view(offset, offset + 1)
                burials.append(Burial(record, self.topic_id, key, offset, self.group, count, reason))


def _by_count(run: Run, chunk: Chunk) -> Iterator[tuple[Run, int]]:
    """A run in parts that were tried equally often before they came to this queue."""
    at = run[0]
    for count, group in groupby(chunk.consume_counts[run[0] - chunk.first : run[1] - chunk.first]):
        end = at + len(list(group))
        yield (at, end), count
        at = end
