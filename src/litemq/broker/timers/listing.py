"""Timer listing: waiting delayed messages, page by page in the order of their due times.

Timers have neither topic nor key, so the broker reads their records, up to a limit per page, and
selects from them. Messages with a key are found through the key index.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from litemq.broker.timers.lookup import is_pending, stored_log_offset
from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.format.record_view import RecordView
from litemq.format.timer_batches import BATCH_ID
from litemq.proto.wire_pb2 import ListTimersRequest, TimerFacts, TimersAnswer
from litemq.storage.store import Store
from litemq.storage.timers.entries import Timer

__all__ = ["TimerListing", "timer_facts"]

_LOOKED_AT: Final = 10_000  # timers for one answer; the client asks again for more
_READ_BYTES: Final = 8 << 20  # for one answer
_MAX_WITH_KEY: Final = 1_000
_MAX_FACTS: Final = 1_000
_FOREVER: Final = 1 << 62
_WAITS: Final = 1
_LOG = logging.getLogger(__name__)


class _TimerSelection(NamedTuple):
    """Selects messages that match every field that is not empty."""

    topic: str
    key: str
    batch_id: str

    def matches(self, record: RecordView) -> bool:
        if record.topic != self.topic:
            return False
        if self.batch_id and record.properties.get(BATCH_ID, "") != self.batch_id:
            return False
        return not self.key or self.key == record.message_id or self.key in record.keys


class TimerListing:
    """Reads the timers of a store. Any thread may call it; it may wait for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(self, request: ListTimersRequest) -> TimersAnswer:
        """Return the next page of the confirmed timers that ``request`` selects."""
        after = max((request.since, -1), (request.after_due, request.after_pending))
        until = request.until or _FOREVER
        limit = min(request.most, _MAX_FACTS)
        timers, is_end = self._candidates(request, after, until)
        selection = _TimerSelection(request.topic, request.key, request.batch_id)
        answer = TimersAnswer(is_end=is_end, next_due=after[0], next_pending=after[1])
        for timer, record in self._read(timers):
            if record is not None and selection.matches(record) and not self._is_cancelled(timer, record):
                if not request.count_only:
                    if len(answer.timers) == limit:
                        answer.is_end = False
                        break
                    answer.timers.append(timer_facts(record, timer, _WAITS))
                answer.count += 1
            answer.next_due, answer.next_pending = timer.due, timer.pending
        else:
            answer.is_end = is_end and (not timers or answer.next_pending == timers[-1].pending)
        return answer

    def _candidates(self, request: ListTimersRequest, after: tuple[int, int], until: int) -> tuple[list[Timer], bool]:
        """Return the timers from ``after`` to ``until``, in order, and whether these are all."""
        if request.key:
            with_key = self._with_key(request.topic, request.key)
            if with_key is not None:
                return sorted(timer for timer in with_key if after < timer[:2] and timer.due < until), True
        timers = self._store.timers_after(after, until, _LOOKED_AT)
        return timers, len(timers) < _LOOKED_AT

    def _with_key(self, topic: str, key: str) -> list[Timer] | None:
        """Return the timers with ``key``; ``None`` if there are too many."""
        found = self._store.find(topic, key, _MAX_WITH_KEY, anywhere=True)
        if len(found) == _MAX_WITH_KEY:
            return None
        pendings = [one for one in found if is_pending(one)]
        if not pendings:
            return []
        log_offsets = np.array(list(map(stored_log_offset, pendings)), np.int64)
        dues = np.array([one.record.delay_time for one in pendings], np.int64)
        timers = self._store.timers
        live = zip(pendings, self._store.are_timers_pending(dues, log_offsets).tolist(), strict=True)
        return [
            Timer(timers.due_time(stored_log_offset(one), one.record.delay_time), stored_log_offset(one), one.size)
            for one, waits in live
            if waits
        ]

    def _read(self, timers: Iterable[Timer]) -> Iterator[tuple[Timer, RecordView | None]]:
        """Yield the records of ``timers``, up to ``_READ_BYTES``; ``None`` if one is gone meanwhile
        or cannot be read.
        """
        size = 0
        for timer in timers:
            size += timer.size
            if size > _READ_BYTES and size > timer.size:
                return
            try:
                yield timer, RecordView(self._store.read_raw(timer.pending))
            except OffsetOutOfRangeError:
                yield timer, None
            except CorruptStoreError as error:
                _LOG.error("the delayed message at log offset %d cannot be read: %s", timer.pending, error)
                yield timer, None

    def _is_cancelled(self, timer: Timer, record: RecordView) -> bool:
        batches = self._store.state.parts.timer_batches
        return len(batches) > 0 and batches.is_cancelled(
            record.topic, record.properties.get(BATCH_ID, ""), timer.pending
        )


def timer_facts(record: RecordView, timer: Timer, state: int) -> TimerFacts:
    """Return the facts of a delayed message, for the wire."""
    return TimerFacts(
        message_id=record.message_id,
        state=state,
        due=timer.due,
        delay_time=record.delay_time,
        keys=record.keys,
        batch_id=record.properties.get(BATCH_ID, ""),
        size=record.size,
        queue_id=record.queue_id,
        sent_at=record.born_timestamp,
        pending=timer.pending,
    )
