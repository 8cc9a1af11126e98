"""What must not go with its segment: records that are still held are appended again before it goes.

The copy has the old record as its origin: the same record tells that the old one is held no longer, and that this one is. There are four kinds:
timers, messages that a group tries again later, halves that no producer has decided yet, and dead letters, for as long as those are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.timer_batches import batch_of
from litemq.proto.control_pb2 import Control, DeadLettersDropped, TimerEnded, TimersEnded
from litemq.storage.batches.batch import Placed
from litemq.storage.batches.half_batches import rollbacks_of
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import read_log
from litemq.storage.state.delivery.dead_letters import DeadLetters
from litemq.storage.state.delivery.tries import Tries, WaitingTry
from litemq.storage.state.timers.timer_batches import TimerBatches
from litemq.storage.state.topics import HALF_TOPIC_ID, TIMER_TOPIC_ID
from litemq.storage.state.transactions.half_runs import HalfRun
from litemq.storage.state.transactions.halves import Halves
from litemq.storage.timers.timer_store import EndedSince, HeldTimers, ending_of
from litemq.types import RecordKind, StoredRecord

__all__ = ["carry_halves", "carry_letters", "carry_timers", "carry_tries"]

Longs = npt.NDArray[np.int64]
# Appends what it is told by a function that is called while nobody else writes.
Append = Callable[[Callable[[], list[Placed]]], None]
# Appends a change, while nobody else writes.
End = Callable[[Control], object]
Damaged = Callable[[CorruptStoreError], None]
Read = Callable[[int], tuple[bytes, StoredRecord]]

_BYTES_AT_ONCE: Final = 4 << 20
_MOST_AT_ONCE: Final = 1000  # timers
_TIMER_BYTES_AT_ONCE: Final = 128 << 10  # there may be millions of them, small ones, and nobody else writes meanwhile


class _Pending(NamedTuple):
    """Records that were to wait, by column: where they stand, their sizes, their due times, and the queues that they were sent to."""

    log_offsets: Longs
    sizes: Longs
    dues: Longs
    queue_ids: Longs

    def chunks(self) -> Iterator[_Pending]:
        """All of them, as many at a time as one append should have."""
        at = 0
        while at < self.sizes.size:
            until = at + max(1, int(np.searchsorted(np.cumsum(self.sizes[at : at + _MOST_AT_ONCE]), _TIMER_BYTES_AT_ONCE)))
            yield _Pending(*(column[at:until] for column in self))
            at = until


def carry_timers(
    log: CommitLog, log_start: int, timers: HeldTimers, batches: TimerBatches, damaged: Damaged, append: Append, end: End
) -> None:
    """Carry on the timers that wait before a log offset; those that were cancelled with their batch are ended."""
    pending = _pending_before(log, log_start, damaged)
    with timers.watching() as has_ended:
        live = timers.live_among(pending.dues, pending.log_offsets)
        for some in _Pending(*(column[live] for column in pending)).chunks():
            offsets = some.log_offsets.tolist()
            records = [bytes(log.read(at, at + size)) for at, size in zip(offsets, some.sizes.tolist(), strict=True)]
            rows = list(zip(offsets, records, some.queue_ids.tolist(), strict=True))
            append(partial(_those_that_wait, timers, batches, has_ended, some.dues.tolist(), rows, end))
            has_ended.forget(offsets)


def _those_that_wait(
    timers: HeldTimers,
    batches: TimerBatches,
    has_ended: EndedSince,
    dues: list[int],
    rows: list[tuple[int, bytes, int]],
    end: End,
) -> list[Placed]:
    cancelled: list[TimerEnded] = []
    carried: list[Placed] = []
    for (at, record, queue_id), due in zip(rows, dues, strict=True):
        if has_ended(at):
            continue
        if len(batches) and batches.is_cancelled(*batch_of(record), at):
            cancelled.append(ending_of(timers, at, due, len(record)))
        else:
            carried.append(Placed(record, TIMER_TOPIC_ID, queue_id, RecordKind.PENDING, at))
    if cancelled:
        end(Control(timers_ended=TimersEnded(timers=cancelled, cancelled=True)))
    return carried


def _pending_before(log: CommitLog, log_start: int, damaged: Damaged) -> _Pending:
    """The records before a log offset that were to wait, whether they still do or not."""
    found: list[list[Longs]] = [[np.empty(0, np.int64)] for _ in _Pending._fields]
    for window in read_log(log, log.start, log_start, damaged=damaged):
        header = window.columns.header
        which = np.flatnonzero((header["kind"] == RecordKind.PENDING) & (header["consume_count"] == 0))
        if which.size:
            for column, name in zip(found, ("commitlog_offset", "size", "delay_time", "queue_id"), strict=True):
                column.append(header[name][which].astype(np.int64))
    return _Pending(*map(np.concatenate, found))


def carry_tries(tries: Tries, waiting: list[tuple[int, str, WaitingTry]], read: Read, damaged: Damaged, append: Append) -> None:
    """Carry on messages that groups will try again. A copy's count tells it from a timer."""
    counts: dict[int, int] = {}
    for predecessor, _, each in waiting:
        counts[predecessor] = max(1, each.tries, counts.get(predecessor, 0))
    for records in _read_some(sorted(counts), read, damaged):
        append(partial(_those_that_are_tried, tries, [(at, raw, counts[at]) for at, raw, _ in records]))


def _those_that_are_tried(tries: Tries, rows: list[tuple[int, bytes, int]]) -> list[Placed]:
    return [Placed(record, TIMER_TOPIC_ID, 0, RecordKind.PENDING, at, count) for at, record, count in rows if tries.holds(at)]


def carry_halves(halves: Halves, waiting: list[tuple[str, HalfRun]], read: Read, damaged: Damaged, append: Append) -> list[Control]:
    """Carry on halves of producers' transactions. The answer says whose cannot be read: nobody will see the others of those, either."""
    names = {run.first_log_offset: (name, run.queue_id) for name, run in waiting}
    missing = set(names)
    for records in _read_some(sorted(names), read, damaged):
        rows = [(at, raw, *names[at]) for at, raw, _ in records]
        missing -= {row[0] for row in rows}
        append(partial(_those_undecided, halves, rows))
    lost = sorted({names[at][0] for at in missing if halves.is_at(names[at][0], at)})
    return rollbacks_of(lost, "a record of it is damaged, and cannot be carried forward")


def _those_undecided(halves: Halves, rows: list[tuple[int, bytes, str, int]]) -> list[Placed]:
    return [Placed(record, HALF_TOPIC_ID, queue_id, RecordKind.HALF, at) for at, record, name, queue_id in rows if halves.is_at(name, at)]


def carry_letters(letters: DeadLetters, which: list[int], since: int, read: Read, damaged: Damaged, append: Append) -> Control | None:
    """Carry on dead letters that died at a time (ms) or later; the answer says which are kept no longer."""
    old: list[int] = []
    for records in _read_some(sorted(which), read, damaged):
        old += [at for at, _, stored in records if stored.record.born_timestamp < since]
        append(partial(_those_that_lie, letters, [(at, raw) for at, raw, stored in records if stored.record.born_timestamp >= since]))
    steps = [after - before for before, after in pairwise([0, *old])]
    return Control(dead_letters_dropped=DeadLettersDropped(log_offset_steps=steps)) if old else None


def _those_that_lie(letters: DeadLetters, rows: list[tuple[int, bytes]]) -> list[Placed]:
    places = [(at, record, letters.place_of(at)) for at, record in rows]
    return [Placed(record, place[0].topic_id, place[0].queue_id, RecordKind.DEAD, at) for at, record, place in places if place is not None]


def _read_some(offsets: list[int], read: Read, damaged: Damaged) -> Iterator[list[tuple[int, bytes, StoredRecord]]]:
    """Records at log offsets, as many at a time as one append should have; without those that are damaged."""
    some: list[tuple[int, bytes, StoredRecord]] = []
    size = 0
    for at in offsets:
        try:
            raw, stored = read(at)
        except CorruptStoreError as error:
            damaged(error)
            continue
        some.append((at, raw, stored))
        size += len(raw)
        if size >= _BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some
