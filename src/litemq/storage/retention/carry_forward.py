"""Carrying forward: pending records are appended again before retention drops their segment.

The copy has the old record as its origin, so one record ends the old one and replaces it. Four
kinds are carried: timers, messages that wait for a retry, undecided halves of producers'
transactions, and dead letters within their retention time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.format.timer_batches import timer_batch
from litemq.proto.control_pb2 import Control, DeadLettersDropped, TimerEnded, TimersEnded
from litemq.storage.batches.batch import Placed
from litemq.storage.batches.half_batches import rollback_controls
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import read_log
from litemq.storage.state.delivery.dead_letters import DeadLetters
from litemq.storage.state.delivery.tries import Tries, WaitingTry
from litemq.storage.state.timers.timer_batches import TimerBatches
from litemq.storage.state.topics import HALF_TOPIC_ID, TIMER_TOPIC_ID
from litemq.storage.state.transactions.halves import Halves
from litemq.storage.state.transactions.transaction import HalfRun
from litemq.storage.timers.timer_store import EndedTimers, TimerStore, timer_end
from litemq.types import RecordKind, StoredRecord

__all__ = ["carry_dead_letters", "carry_halves", "carry_timers", "carry_tries"]

Longs = npt.NDArray[np.int64]
# Appends the records that a function returns; calls the function under the writer's lock.
Append = Callable[[Callable[[], list[Placed]]], None]
# Appends a control record, under the writer's lock.
AppendControl = Callable[[Control], object]
OnDamage = Callable[[CorruptStoreError], None]
Read = Callable[[int], tuple[bytes, StoredRecord]]

_MAX_APPEND_BYTES: Final = 4 << 20
# Smaller appends for timers: there may be millions, and each append blocks all other writers.
_MAX_APPEND_TIMERS: Final = 1000
_MAX_APPEND_TIMER_BYTES: Final = 128 << 10


class _Pending(NamedTuple):
    """Timer records, by column, whether they still wait or not."""

    log_offsets: Longs
    sizes: Longs
    dues: Longs
    queue_ids: Longs

    def chunks(self) -> Iterator[_Pending]:
        """Split into the chunks of one append each."""
        at = 0
        while at < self.sizes.size:
            sizes = np.cumsum(self.sizes[at : at + _MAX_APPEND_TIMERS])
            until = at + max(1, int(np.searchsorted(sizes, _MAX_APPEND_TIMER_BYTES)))
            yield _Pending(*(column[at:until] for column in self))
            at = until


def carry_timers(
    log: CommitLog,
    log_start: int,
    timers: TimerStore,
    batches: TimerBatches,
    on_damage: OnDamage,
    append: Append,
    append_control: AppendControl,
) -> None:
    """Carry forward the timers before ``log_start``; end those whose batch was cancelled."""
    pending = _pending_before(log, log_start, on_damage)
    with timers.watch_ended() as has_ended:
        live = timers.live_among(pending.dues, pending.log_offsets)
        for some in _Pending(*(column[live] for column in pending)).chunks():
            offsets = some.log_offsets.tolist()
            records = [bytes(log.read(at, at + size)) for at, size in zip(offsets, some.sizes.tolist(), strict=True)]
            rows = list(zip(offsets, records, some.queue_ids.tolist(), strict=True))
            append(partial(_place_timers, timers, batches, has_ended, some.dues.tolist(), rows, append_control))
            has_ended.forget(offsets)


def _place_timers(
    timers: TimerStore,
    batches: TimerBatches,
    has_ended: EndedTimers,
    dues: list[int],
    rows: list[tuple[int, bytes, int]],
    append_control: AppendControl,
) -> list[Placed]:
    cancelled: list[TimerEnded] = []
    carried: list[Placed] = []
    for (at, record, queue_id), due in zip(rows, dues, strict=True):
        if has_ended(at):
            continue
        if len(batches) and batches.is_cancelled(*timer_batch(record), at):
            cancelled.append(timer_end(timers, at, due, len(record)))
        else:
            carried.append(Placed(record, TIMER_TOPIC_ID, queue_id, RecordKind.PENDING, at))
    if cancelled:
        append_control(Control(timers_ended=TimersEnded(timers=cancelled, cancelled=True)))
    return carried


def _pending_before(log: CommitLog, log_start: int, on_damage: OnDamage) -> _Pending:
    """Read the timer records before ``log_start``."""
    found: list[list[Longs]] = [[np.empty(0, np.int64)] for _ in _Pending._fields]
    for window in read_log(log, log.start, log_start, on_damage=on_damage):
        header = window.columns.header
        which = np.flatnonzero((header["kind"] == RecordKind.PENDING) & (header["consume_count"] == 0))
        if which.size:
            for column, name in zip(found, ("commitlog_offset", "size", "delay_time", "queue_id"), strict=True):
                column.append(header[name][which].astype(np.int64))
    return _Pending(*map(np.concatenate, found))


def carry_tries(
    tries: Tries, waiting: list[tuple[int, str, WaitingTry]], read: Read, on_damage: OnDamage, append: Append
) -> None:
    """Carry forward messages that wait for a retry. A copy has a count; a timer has none."""
    counts: dict[int, int] = {}
    for predecessor, _, each in waiting:
        counts[predecessor] = max(1, each.tries, counts.get(predecessor, 0))
    for records in _read_chunks(sorted(counts), read, on_damage):
        append(partial(_place_tries, tries, [(at, raw, counts[at]) for at, raw, _ in records]))


def _place_tries(tries: Tries, rows: list[tuple[int, bytes, int]]) -> list[Placed]:
    return [
        Placed(record, TIMER_TOPIC_ID, 0, RecordKind.PENDING, at, count)
        for at, record, count in rows
        if tries.holds(at)
    ]


def carry_halves(
    halves: Halves, waiting: list[tuple[str, HalfRun]], read: Read, on_damage: OnDamage, append: Append
) -> list[Control]:
    """Carry forward undecided halves of producers' transactions.

    Return the control records that roll back the transactions with a damaged half.
    """
    names = {run.first_log_offset: (name, run.queue_id) for name, run in waiting}
    missing = set(names)
    for records in _read_chunks(sorted(names), read, on_damage):
        rows = [(at, raw, *names[at]) for at, raw, _ in records]
        missing -= {row[0] for row in rows}
        append(partial(_place_halves, halves, rows))
    lost = sorted({names[at][0] for at in missing if halves.is_at(names[at][0], at)})
    return rollback_controls(lost, "one of its records is damaged and cannot be carried forward")


def _place_halves(halves: Halves, rows: list[tuple[int, bytes, str, int]]) -> list[Placed]:
    return [
        Placed(record, HALF_TOPIC_ID, queue_id, RecordKind.HALF, at)
        for at, record, name, queue_id in rows
        if halves.is_at(name, at)
    ]


def carry_dead_letters(
    dead_letters: DeadLetters, offsets: list[int], since: int, read: Read, on_damage: OnDamage, append: Append
) -> Control | None:
    """Carry forward the dead letters at log ``offsets`` that are as young as ``since`` (ms).

    Return the control record that drops the older ones, or ``None``.
    """
    old: list[int] = []
    for records in _read_chunks(sorted(offsets), read, on_damage):
        old += [at for at, _, stored in records if stored.record.born_timestamp < since]
        kept = [(at, raw) for at, raw, stored in records if stored.record.born_timestamp >= since]
        append(partial(_place_dead_letters, dead_letters, kept))
    steps = [after - before for before, after in pairwise([0, *old])]
    return Control(dead_letters_dropped=DeadLettersDropped(log_offset_steps=steps)) if old else None


def _place_dead_letters(dead_letters: DeadLetters, rows: list[tuple[int, bytes]]) -> list[Placed]:
    positions = [(at, record, dead_letters.position(at)) for at, record in rows]
    return [
        Placed(record, position[0].topic_id, position[0].queue_id, RecordKind.DEAD, at)
        for at, record, position in positions
        if position is not None
    ]


def _read_chunks(
    offsets: list[int], read: Read, on_damage: OnDamage
) -> Iterator[list[tuple[int, bytes, StoredRecord]]]:
    """Read the records at log ``offsets``, in chunks of one append, without unreadable ones."""
    some: list[tuple[int, bytes, StoredRecord]] = []
    size = 0
    for at in offsets:
        try:
            raw, stored = read(at)
        except CorruptStoreError as error:
            on_damage(error)
            continue
        except OffsetOutOfRangeError:  # an earlier version lost it
            continue
        some.append((at, raw, stored))
        size += len(raw)
        if size >= _MAX_APPEND_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
