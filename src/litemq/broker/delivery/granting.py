"""One wish for messages, and how it is fulfilled: what is too old or was tried too often is buried, what a filter does not want is done."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import groupby
from time import perf_counter
from typing import Final, NamedTuple

from litemq.broker.dead_letters.writing import DeadDelivery
from litemq.broker.delivery.availability import Piece, Stock
from litemq.broker.delivery.read_ahead import Chunk, Chunks
from litemq.broker.delivery.tick_record import Tick
from litemq.errors import CorruptStoreError, LiteMQError, OffsetExpiredError
from litemq.filters.filter import Filter
from litemq.format.offset_runs import Run, RunSet
from litemq.format.record_view import RecordView
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.state.delivery.leases import Lease
from litemq.storage.store import Store
from litemq.types import DeadReason

__all__ = ["Giving", "Granted", "Wish"]

_LOOKING_SECONDS: Final = 0.004  # for what a filter wants, while others wait
_ENTRIES: Final = 8192  # that are looked at together
_RECORDS: Final = 256
_LOG = logging.getLogger(__name__)


class Wish(NamedTuple):
    """How much somebody asks for."""

    max_messages: int
    max_bytes: int
    max_retries: int
    token: int
    deadline: int
    now: int
    wanted: Filter | None = None


class Granted:
    """What somebody is given: records one behind another, and which try each of them is."""

    __slots__ = ("counts", "is_looking", "leases", "pieces", "size", "trouble", "until")

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.counts: list[int] = []
        self.leases: list[tuple[Stock, Lease]] = []
        self.size = 0
        self.is_looking = False  # a filter has looked at some messages
        self.until = perf_counter() + _LOOKING_SECONDS
        self.trouble: LiteMQError | None = None  # of which somebody is to be told

    @property
    def looked_far_enough(self) -> bool:
        """Whether a filter has looked for so long that others should have their turn."""
        return self.is_looking and perf_counter() >= self.until


class Giving:
    """One wish while it is fulfilled."""

    def __init__(self, store: Store, chunks: Chunks, topic: TopicFacts, wish: Wish, tick: Tick) -> None:
        self._store = store
        self._chunks = chunks
        self._group = tick.group
        self._topic = topic
        self._wish = wish
        self._tick = tick
        self.granted = Granted()

    def take(self, stock: Stock, most: int) -> int | None:
        """Up to so many messages of a queue; returns how many, or nothing where no more are to be taken of any."""
        wish, granted, key = self._wish, self.granted, stock.key
        if granted.size >= wish.max_bytes or granted.trouble is not None or granted.looked_far_enough:
            return None
        least, following = self._store.state.least.get(key, 0), self._store.state.next.get(key, 0)
        offset = stock.offset
        if offset < least:  # retention was faster
            self._tick.done(key, offset, least)
            stock.skipped_to(least)
            hint = ". The topic's archive has older ones, which leases do not give out: read them in queue mode, or with a reader"
            granted.trouble = OffsetExpiredError(
                f"offsets {offset} … {least - 1} of queue {key.queue_id} are gone: retention took them before group {self._group!r}"
                + (hint if self._store.state.earliest(key) < least else "")
            )
            return None
        before = len(granted.counts)
        is_filtered = wish.wanted is not None and key.topic_id == self._topic.topic_id  # what is tried again was wanted before
        for piece in stock.take(max(most, _ENTRIES) if is_filtered else most, following):
            reached = self._give_piece(stock, piece, before + most, wish.wanted if is_filtered else None)
            if reached < piece.end:
                stock.put_back(reached, piece.end)
                break
        return len(granted.counts) - before

    def _give_piece(self, stock: Stock, piece: Piece, until: int, wanted: Filter | None) -> int:
        """Give out what can be had of a piece, until so many messages were; returns how far that was."""
        granted, key = self.granted, stock.key
        reached = piece.begin
        while reached < piece.end and len(granted.counts) < until:
            if wanted is not None:
                if granted.looked_far_enough:
                    return reached
                skipped = self._skip(key, reached, piece.end, wanted)
                if skipped > reached:
                    reached = skipped
                    continue
            room = max(0, self._wish.max_bytes - granted.size)
            most = min(piece.end - reached, until - len(granted.counts) if wanted is None else _RECORDS)
            try:
                chunk = self._chunks.at((self._group, key), reached, most, room, self._topic.ttl_ms)
            except CorruptStoreError as error:
                # What is damaged is never served: somebody is told, and the others go on behind it.
                _LOG.error("offset %d of queue %d: %s", reached, key.queue_id, error)
                self._tick.done(key, reached, reached + 1)
                granted.trouble = error
                return reached + 1
            if chunk is None or chunk.end <= reached:
                return reached
            end = min(reached + most, chunk.end)
            if wanted is None:
                end = max(chunk.fitting(reached, end, room), reached if granted.counts else reached + 1)  # one at least
                runs = [(reached, end)]
            else:
                runs, end = self._choose(chunk, key, (reached, end), wanted, until - len(granted.counts))
            if end == reached:
                return reached
            self._give(stock, chunk, runs, piece.tries)
            reached = end
        return reached

    def _skip(self, key: QueueKey, begin: int, end: int, wanted: Filter) -> int:
        """Pass over what the queue's entries alone say is not wanted: it is done. Returns where that ends."""
        if not wanted.narrows:
            return begin
        entries = self._store.read_entries_if_hot(key, begin, min(end - begin, _ENTRIES))
        if entries is None or not entries.size:
            return begin
        marks = wanted.candidates(entries)
        skipped = int(marks.argmax()) if marks.any() else int(entries.size)
        if skipped:
            self._tick.done(key, begin, begin + skipped)
            self.granted.is_looking = True
        return begin + skipped

    def _choose(self, chunk: Chunk, key: QueueKey, run: Run, wanted: Filter, most: int) -> tuple[list[Run], int]:
        """The runs of up to so many messages that a filter lets through, and how far it came; what it does not want is done."""
        begin, end = run
        marks = wanted.candidates(chunk.columns.header[begin - chunk.first : end - chunk.first]).tolist()
        room = self._wish.max_bytes - self.granted.size
        accepted: list[bool] = []
        found = 0
        for offset, mark in enumerate(marks, begin):
            record = chunk.view(offset, offset + 1)
            is_wanted = mark and wanted.accepts(RecordView(record))
            if is_wanted:
                room -= len(record)
                if found == most or (room < 0 and (found or self.granted.counts)):
                    break
                found += 1
            accepted.append(is_wanted)
        self.granted.is_looking = True
        runs = _runs_of(accepted, begin)
        reached = begin + len(accepted)
        for done_from, done_to in RunSet(runs).without(begin, reached):
            self._tick.done(key, done_from, done_to)
        return runs, reached

    def _give(self, stock: Stock, chunk: Chunk, runs: list[Run], tries: int) -> None:
        wish, granted = self._wish, self.granted
        if chunk.expire_at is not None:
            runs = [alive for run in runs for alive in self._alive_of(chunk, stock.key, run, tries)]
        if tries or stock.key.topic_id == self._topic.topic_id:
            counted: list[tuple[Run, int]] = [(run, tries) for run in runs]
        else:  # tried before it came to this queue
            counted = [each for run in runs for each in _by_count(run, chunk)]
        for (begin, end), count in counted:
            if count > wish.max_retries:
                self._dead_letter(chunk, stock.key, (begin, end), count, DeadReason.MAX_RETRY)
                continue
            lease = Lease(begin, end, wish.token, wish.deadline, count + 1)
            self._tick.granted(stock.key, [lease])
            stock.granted(end - begin)
            view = chunk.view(begin, end)
            granted.pieces.append(view)
            granted.size += len(view)
            granted.counts += [count + 1] * (end - begin)
            granted.leases.append((stock, lease))

    def _alive_of(self, chunk: Chunk, key: QueueKey, run: Run, tries: int) -> list[Run]:
        """The runs of messages that are not too old; the others are buried."""
        expired = chunk.is_expired(*run, self._wish.now)
        if expired is None:
            return [run]
        for dead in _runs_of(expired.tolist(), run[0]):
            self._dead_letter(chunk, key, dead, tries, DeadReason.TTL_EXPIRED)
        return _runs_of((~expired).tolist(), run[0])

    def _dead_letter(self, chunk: Chunk, key: QueueKey, run: Run, tries: int, reason: DeadReason) -> None:
        topic_id = self._topic.topic_id
        for offset in range(*run):
            self._tick.dead.append(DeadDelivery(chunk.view(offset, offset + 1), topic_id, key, offset, self._group, tries, reason))


def _runs_of(chosen: list[bool], first: int) -> list[Run]:
    """The runs of offsets, from ``first`` on, that are chosen."""
    runs: list[Run] = []
    at = first
    for is_chosen, group in groupby(chosen):
        end = at + len(list(group))
        if is_chosen:
            runs.append((at, end))
        at = end
    return runs


def _by_count(run: Run, chunk: Chunk) -> Iterator[tuple[Run, int]]:
    """A run in parts that were tried equally often before they came to this queue."""
    at = run[0]
    for count, group in groupby(chunk.consume_counts[run[0] - chunk.first : run[1] - chunk.first]):
        end = at + len(list(group))
        yield (at, end), count
        at = end
