"""Fills one lease request.

Messages that have expired or exceeded ``max_retries`` become dead letters. Messages that the filter
rejects count as consumed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import groupby
from time import perf_counter
from typing import Final, NamedTuple

from litemq.broker.dead_letters.writing import DeadDelivery
from litemq.broker.delivery.availability import Piece, QueueAvailability
from litemq.broker.delivery.read_ahead import Chunk, ReadAhead
from litemq.broker.delivery.tick_record import TickRecord
from litemq.errors import CorruptStoreError, LiteMQError, OffsetExpiredError
from litemq.errors.detached import detached
from litemq.filters.filter import Filter
from litemq.format.offset_runs import Run, RunSet
from litemq.format.record_view import RecordView
from litemq.storage.state import QueueKey, Topic
from litemq.storage.state.delivery.leases import Lease
from litemq.storage.store import Store
from litemq.types import DeadReason

__all__ = ["Grant", "GrantBuilder", "GrantRequest"]

_LOOKING_SECONDS: Final = 0.004  # for one filter, while other requests wait
_ENTRIES: Final = 8192  # of the queue that a filter reads together
_RECORDS: Final = 256
_LOG = logging.getLogger(__name__)


class GrantRequest(NamedTuple):
    """The limits and the terms of one lease request."""

    max_messages: int
    max_bytes: int
    max_retries: int
    token: int
    deadline: int  # by the log's clock
    alive_at: int  # messages with an earlier end of their time to live have expired
    wanted: Filter | None = None


class Grant:
    """The messages of one lease: their records, and the number of the try of each."""

    __slots__ = ("counts", "error", "is_looking", "leases", "pieces", "size", "until")

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []
        self.counts: list[int] = []
        self.leases: list[tuple[QueueAvailability, Lease]] = []
        self.size = 0
        self.is_looking = False  # a filter has read some messages
        self.until = perf_counter() + _LOOKING_SECONDS
        self.error: LiteMQError | None = None  # to be reported to the group

    @property
    def is_out_of_time(self) -> bool:
        """Whether the filter has used up its time, so that other requests go first."""
        return self.is_looking and perf_counter() >= self.until


class GrantBuilder:
    """Builds the grant of one request."""

    def __init__(
        self, store: Store, read_ahead: ReadAhead, topic: Topic, request: GrantRequest, tick: TickRecord
    ) -> None:
        self._store = store
        self._read_ahead = read_ahead
        self._group = tick.group
        self._topic = topic
        self._request = request
        self._tick = tick
        self.grant = Grant()

    def take(self, queue: QueueAvailability, limit: int) -> int | None:
        """Grant up to ``limit`` messages of ``queue``; return their number, or ``None`` if the
        grant is complete.
        """
        request, grant, key = self._request, self.grant, queue.key
        if grant.size >= request.max_bytes or grant.error is not None or grant.is_out_of_time:
            return None
        start_offset, end_offset = (
            self._store.state.start_offsets.get(key, 0),
            self._store.state.end_offsets.get(key, 0),
        )
        offset = queue.offset
        if offset < start_offset:  # retention was faster
            self._tick.done(key, offset, start_offset)
            queue.skipped_to(start_offset)
            hint = ". The topic's archive has older messages: read them in queue mode or with a reader"
            grant.error = OffsetExpiredError(
                f"offsets {offset} … {start_offset - 1} of queue {key.queue_id} are gone: retention deleted them "
                f"before group {self._group!r} had consumed them"
                + (hint if self._store.state.earliest(key) < start_offset else "")
            )
            return None
        before = len(grant.counts)
        is_filtered = (
            request.wanted is not None and key.topic_id == self._topic.topic_id
        )  # retries have passed the filter before
        for piece in queue.take(max(limit, _ENTRIES) if is_filtered else limit, end_offset):
            reached = self._give_piece(queue, piece, before + limit, request.wanted if is_filtered else None)
            if reached < piece.end:
                queue.put_back(reached, piece.end)
                break
        return len(grant.counts) - before

    def _give_piece(self, queue: QueueAvailability, piece: Piece, count_limit: int, wanted: Filter | None) -> int:
        """Grant messages of ``piece`` until there are ``count_limit``; return how far it came."""
        grant, key = self.grant, queue.key
        reached = piece.begin
        while reached < piece.end and len(grant.counts) < count_limit:
            if wanted is not None:
                if grant.is_out_of_time:
                    return reached
                skipped = self._skip(key, reached, piece.end, wanted)
                if skipped > reached:
                    reached = skipped
                    continue
            budget = max(0, self._request.max_bytes - grant.size)
            limit = min(piece.end - reached, count_limit - len(grant.counts) if wanted is None else _RECORDS)
            try:
                chunk = self._read_ahead.at((self._group, key), reached, limit, budget, self._topic.ttl_ms)
            except CorruptStoreError as error:
                if self._store.is_replicated:  # another replica has the record: wait for the repair
                    return reached
                # A damaged record is never served: the group gets the error, and continues after
                # it.
                _LOG.error("the message at offset %d of queue %d cannot be read: %s", reached, key.queue_id, error)
                self._tick.done(key, reached, reached + 1)
                grant.error = detached(error)
                return reached + 1
            if chunk is None or chunk.end <= reached:
                return reached
            end = min(reached + limit, chunk.end)
            if wanted is None:
                end = max(chunk.fitting(reached, end, budget), reached if grant.counts else reached + 1)  # one at least
                runs = [(reached, end)]
            else:
                runs, end = self._choose(chunk, key, (reached, end), wanted, count_limit - len(grant.counts))
            if end == reached:
                return reached
            self._give(queue, chunk, runs, piece.tries)
            reached = end
        return reached

    def _skip(self, key: QueueKey, begin: int, end: int, wanted: Filter) -> int:
        """Skip messages that the queue's entries alone exclude, as consumed; return their end."""
        if not wanted.narrows:
            return begin
        entries = self._store.for_consumers.read_entries_if_hot(key, begin, min(end - begin, _ENTRIES))
        if entries is None or not entries.size:
            return begin
        marks = wanted.candidates(entries)
        skipped = int(marks.argmax()) if marks.any() else int(entries.size)
        if skipped:
            self._tick.done(key, begin, begin + skipped)
            self.grant.is_looking = True
        return begin + skipped

    def _choose(self, chunk: Chunk, key: QueueKey, run: Run, wanted: Filter, limit: int) -> tuple[list[Run], int]:
        """Return the runs of up to ``limit`` messages that the filter accepts, and their end.

        Rejected messages are done.
        """
        begin, end = run
        marks = wanted.candidates(chunk.columns.header[begin - chunk.first : end - chunk.first]).tolist()
        budget = self._request.max_bytes - self.grant.size
        accepted: list[bool] = []
        found = 0
        for offset, mark in enumerate(marks, begin):
            if accepted and perf_counter() >= self.grant.until:
                break  # one record may take milliseconds
            record = chunk.view(offset, offset + 1)
            is_wanted = mark and wanted.accepts(RecordView(record))
            if is_wanted:
                budget -= len(record)
                if found == limit or (budget < 0 and (found or self.grant.counts)):
                    break
                found += 1
            accepted.append(is_wanted)
        self.grant.is_looking = True
        runs = _chosen_runs(accepted, begin)
        reached = begin + len(accepted)
        for done_from, done_to in RunSet(runs).without(begin, reached):
            self._tick.done(key, done_from, done_to)
        return runs, reached

    def _give(self, queue: QueueAvailability, chunk: Chunk, runs: list[Run], tries: int) -> None:
        request, grant = self._request, self.grant
        if chunk.expire_at is not None:
            runs = [alive for run in runs for alive in self._drop_expired(chunk, queue.key, run, tries)]
        if tries or queue.key.topic_id == self._topic.topic_id:
            counted: list[tuple[Run, int]] = [(run, tries) for run in runs]
        else:  # a retry queue: the records know their earlier tries
            counted = [each for run in runs for each in _by_count(run, chunk)]
        for (begin, end), count in counted:
            if count > request.max_retries:
                self._dead_letter(chunk, queue.key, (begin, end), count, DeadReason.MAX_RETRY)
                continue
            lease = Lease(begin, end, request.token, request.deadline, count + 1)
            self._tick.granted(queue.key, [lease])
            queue.granted(end - begin)
            view = chunk.view(begin, end)
            grant.pieces.append(view)
            grant.size += len(view)
            grant.counts += [count + 1] * (end - begin)
            grant.leases.append((queue, lease))

    def _drop_expired(self, chunk: Chunk, key: QueueKey, run: Run, tries: int) -> list[Run]:
        """Return the runs of messages that have not expired; the others become dead letters."""
        expired = chunk.is_expired(*run, self._request.alive_at)
        if expired is None:
            return [run]
        for dead in _chosen_runs(expired.tolist(), run[0]):
            self._dead_letter(chunk, key, dead, tries, DeadReason.TTL_EXPIRED)
        return _chosen_runs((~expired).tolist(), run[0])

    def _dead_letter(self, chunk: Chunk, key: QueueKey, run: Run, tries: int, reason: DeadReason) -> None:
        topic_id = self._topic.topic_id
        for offset in range(*run):
            self._tick.dead.append(
                DeadDelivery(chunk.view(offset, offset + 1), topic_id, key, offset, self._group, tries, reason)
            )


def _chosen_runs(chosen: list[bool], first: int) -> list[Run]:
    """Return the runs of offsets, from ``first`` on, that are chosen."""
    runs: list[Run] = []
    at = first
    for is_chosen, group in groupby(chosen):
        end = at + len(list(group))
        if is_chosen:
            runs.append((at, end))
        at = end
    return runs


def _by_count(run: Run, chunk: Chunk) -> Iterator[tuple[Run, int]]:
    """Yield the parts of a run that have the same number of earlier tries."""
    at = run[0]
    for count, group in groupby(chunk.consume_counts[run[0] - chunk.first : run[1] - chunk.first]):
        end = at + len(list(group))
        yield (at, end), count
        at = end
