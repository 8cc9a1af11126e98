"""From the log to what is derived from it: a window of records at a time goes to the state, the queues and, when asked, the key index."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.batches.stamp import QUEUE_ENTRY, queue_entries, queue_runs
from litemq.format.columns.record_columns import RecordColumns
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import NO_OFFSET
from litemq.storage.batches.record_events import numbered_events
from litemq.storage.log.reader import SegmentedLog, Window, read_log
from litemq.storage.projections.snapshot import SnapshotReader
from litemq.storage.queues.queues import Queues
from litemq.storage.state import QueueKey, State
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.persistence.changes import Changes
from litemq.storage.state.producers import Touched
from litemq.storage.timers.timer_store import HeldTimers
from litemq.types import RecordKind

__all__ = ["QueueRebuild", "controls_of", "find_snapshot", "read_snapshot", "replay_into_queues", "replay_into_state", "replay_into_timers"]

Longs = npt.NDArray[np.int64]


class _NumberedControl(NamedTuple):
    number: int
    control: Control


def controls_of(columns: RecordColumns) -> list[_NumberedControl]:
    """The control records among some records, with their numbers."""
    which = np.flatnonzero(columns.header["kind"] == RecordKind.CONTROL)
    if which.size == 0:
        return []
    begins, lengths = columns.part("body")
    pieces = zip(which.tolist(), begins[which].tolist(), lengths[which].tolist(), strict=True)
    return [_NumberedControl(number, Control.FromString(bytes(columns.buffer[at : at + length]))) for number, at, length in pieces]


def find_snapshot(log: SegmentedLog, begin: int, end: int) -> int:
    """Where the latest whole snapshot begins that stands between two log offsets, -1 = there is none."""
    latest = -1
    for window in read_log(log, begin, end):
        for _, control in controls_of(window.columns):
            if control.HasField("snapshot_end") and control.snapshot_end.begin_offset >= begin:
                latest = control.snapshot_end.begin_offset
    return latest


def read_snapshot(log: SegmentedLog, begin: int, end: int) -> tuple[State, int]:
    """The state that the snapshot which begins at a log offset tells, and the offset from which on records must be applied to it."""
    reader = SnapshotReader(begin)
    try:
        for window in read_log(log, begin, end):
            for _, control in controls_of(window.columns):
                rows = reader.take(control)
                if rows is not None and reader.as_of is not None:
                    return State.from_rows(rows), reader.as_of
    except ValueError as error:
        reason = str(error)
    else:
        reason = "the log ends inside the snapshot"
    segment = log.segment_of(begin)
    raise CorruptStoreError(str(segment.file.path), begin - segment.start, reason)


def replay_into_state(window: Window, state: State, changes: Changes) -> None:
    """Apply the records of a window to a state that knows everything before them."""
    columns = window.columns
    end = window.base + int(columns.starts[-1] + columns.header["size"][-1])
    # What is no plain message, in the order of the log.
    events: list[tuple[int, Control | PlacedEvent]] = [*controls_of(columns), *numbered_events(columns, columns.starts + window.base)]
    events.sort(key=itemgetter(0))
    # Only a topic that is created again looks at how far queues have come, and one that is deleted at who has written to them: messages on
    # both sides of it are told apart, no others.
    cuts = [number for number, event in events if _looks_at_messages(event)]
    waiting = iter(events)
    upcoming = next(waiting, None)
    for first, behind in pairwise([0, *cuts, len(columns)]):
        while upcoming is not None and upcoming[0] == first and _looks_at_messages(upcoming[1]):
            _happen(upcoming[1], end, state, changes)
            upcoming = next(waiting, None)
        header = columns.header[first:behind]
        if header.size:
            runs = queue_runs(header["topic_id"].astype(np.int64), header["queue_id"].astype(np.int64))
            latest = header["queue_offset"][runs.order[runs.bounds[1:] - 1]].tolist()
            for key, offset in zip(map(QueueKey, runs.topic_ids.tolist(), runs.queue_ids.tolist()), latest, strict=True):
                state.placed(key, offset + 1)
                changes.placed(end, key, offset + 1)
            changes.took(end, _replay_into_producers(columns.subset(np.arange(first, behind)), state))
        while upcoming is not None and upcoming[0] < behind:
            _happen(upcoming[1], end, state, changes)
            upcoming = next(waiting, None)


def _happen(event: Control | PlacedEvent, end: int, state: State, changes: Changes) -> None:
    if isinstance(event, Control):
        changes.changed(end, event, state.apply(event))
    else:
        changes.was_placed(end, state.place(event))


def _looks_at_messages(event: Control | PlacedEvent) -> bool:
    return isinstance(event, Control) and event.WhichOneof("change") in {"topic_created", "topic_deleted"}


def _replay_into_producers(columns: RecordColumns, state: State) -> list[Touched]:
    header = columns.header
    latest = int(header["store_timestamp"][-1])
    is_held = header["kind"] == RecordKind.PENDING
    sent = np.flatnonzero((header["producer_id"] != 0) & ((header["kind"] == RecordKind.MESSAGE) | is_held) & (header["origin"] == -1))
    touched: list[Touched] = []
    if sent.size:
        columns, is_held = columns.subset(sent), is_held[sent]
        header = columns.header
        longs = ("sequence", "topic_id", "queue_id", "queue_offset", "store_timestamp")
        sequences, topic_ids, queue_ids, offsets, times = (header[name].astype(np.int64) for name in longs)
        if is_held.any():
            topic_ids[is_held] = _sent_to(columns.subset(np.flatnonzero(is_held)), state)
            offsets[is_held] = NO_OFFSET
        touched = state.producers.took(header["producer_id"].astype(np.uint64), sequences, topic_ids, queue_ids, offsets, times)
    return touched + state.producers.expire(latest)


def _sent_to(columns: RecordColumns, state: State) -> list[int]:
    """The topics that records were sent to, wherever they stand."""
    begins, lengths = columns.part("topic")
    names = [bytes(columns.buffer[at : at + length]).decode() for at, length in zip(begins.tolist(), lengths.tolist(), strict=True)]
    return [state.topic_ids.get(name, 0) for name in names]


def replay_into_timers(window: Window, begin: int, timers: HeldTimers) -> None:
    """Tell the timers what a window's records from log offset ``begin`` on say of them."""
    columns, offsets = window.columns, window.columns.starts + window.base
    if int(offsets[0]) < begin:
        columns = columns.subset(np.flatnonzero(offsets >= begin))
        offsets = columns.starts + window.base
    if len(columns) == 0:
        return
    events: list[tuple[int, Control | PlacedEvent]] = [*controls_of(columns), *numbered_events(columns, offsets)]
    for number, event in sorted(events, key=itemgetter(0)):
        if isinstance(event, Control):
            timers.apply(event, int(offsets[number]))
        else:
            timers.place(event)


class _TakesEntries(Protocol):
    def add(self, key: QueueKey, first: int, entries: npt.NDArray[np.void]) -> None: ...


def replay_into_queues(window: Window, begin: int, queues: _TakesEntries) -> None:
    """Put the entries of a window's records from log offset ``begin`` on into their queues."""
    columns, offsets = window.columns, window.columns.starts + window.base
    if int(offsets[0]) < begin:
        columns = columns.subset(np.flatnonzero(offsets >= begin))
        offsets = columns.starts + window.base
    header = columns.header
    if header.size == 0:
        return
    runs = queue_runs(header["topic_id"].astype(np.int64), header["queue_id"].astype(np.int64))
    entries = queue_entries(columns, runs, commitlog_offsets=offsets, store_timestamps=header["store_timestamp"])
    queue_offsets = header["queue_offset"].astype(np.int64)[runs.order]
    # An offset that does not follow the one before it begins a run of its own: the record between them is damaged.
    breaks = np.flatnonzero(queue_offsets[1:] != queue_offsets[:-1] + 1) + 1
    bounds = np.union1d(runs.bounds, breaks)
    firsts = queue_offsets[bounds[:-1]].tolist()
    numbers = (np.searchsorted(runs.bounds, bounds[:-1], side="right") - 1).tolist()
    topic_ids, queue_ids = runs.topic_ids.tolist(), runs.queue_ids.tolist()
    for (at, until), first, number in zip(pairwise(bounds.tolist()), firsts, numbers, strict=True):
        queues.add(QueueKey(topic_ids[number], queue_ids[number]), first, entries[at:until])


class QueueRebuild:
    """Queues that are being made anew from a log that may be damaged: an offset whose record is lost becomes a hole, and the next ones keep
    their place."""

    def __init__(self, queues: Queues, state: State, log_start: int) -> None:
        self._queues = queues
        self._state = state
        self._log_start = log_start
        self._ends: dict[QueueKey, tuple[int, int]] = {}  # the next queue offset, and where the last record ends in the log

    def add(self, key: QueueKey, first: int, entries: npt.NDArray[np.void]) -> None:
        following, log_offset = self._ends.get(key, (self._state.least.get(key, 0), self._log_start))
        if first < following:  # said to be gone, and still in the log
            entries, first = entries[following - first :], following
        if entries.size == 0:
            return
        self._dig(key, following, first, log_offset)
        self._queues.add(key, first, entries)
        last = entries[-1]
        self._ends[key] = first + entries.size, int(last["log_offset"]) + int(last["size"])

    def end(self) -> None:
        """No more entries come."""
        for key, following in list(self._state.next.items()):
            at, log_offset = self._ends.get(key, (self._state.least.get(key, 0), self._log_start))
            self._dig(key, at, following, log_offset)

    def _dig(self, key: QueueKey, begin: int, end: int, log_offset: int) -> None:
        if begin < end:
            holes = np.zeros(end - begin, QUEUE_ENTRY)
            holes["log_offset"] = log_offset  # rising, as in any queue; the size of 0 says that nothing is there
            self._queues.add(key, begin, holes)
            self._queues.holes.update(((key, offset), log_offset) for offset in range(begin, end))
