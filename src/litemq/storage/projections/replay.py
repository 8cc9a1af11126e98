"""Replay of the log into the state, the queues and the timers, one window of records at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.batches.stamp import QUEUE_ENTRY, group_by_queue, queue_entries
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
from litemq.storage.state.producers import TouchedPage
from litemq.storage.timers.timer_store import TimerStore
from litemq.types import RecordKind

__all__ = [
    "QueueReplay",
    "decode_controls",
    "find_snapshots",
    "read_snapshot",
    "replay_into_queues",
    "replay_into_state",
    "replay_into_timers",
]

Longs = npt.NDArray[np.int64]


class _NumberedControl(NamedTuple):
    number: int
    control: Control


def decode_controls(columns: RecordColumns) -> list[_NumberedControl]:
    """Decode the control records among ``columns``, each with its number there."""
    which = np.flatnonzero(columns.header["kind"] == RecordKind.CONTROL)
    if which.size == 0:
        return []
    begins, lengths = columns.part("body")
    pieces = zip(which.tolist(), begins[which].tolist(), lengths[which].tolist(), strict=True)
    return [
        _NumberedControl(number, Control.FromString(bytes(columns.buffer[at : at + length])))
        for number, at, length in pieces
    ]


def find_snapshots(log: SegmentedLog, begin: int, end: int) -> list[int]:
    """Return the log offsets of the snapshots between ``begin`` and ``end``, the latest first."""
    found: list[int] = []
    for window in read_log(log, begin, end, on_damage=lambda _error: None):
        for _, control in decode_controls(window.columns):
            if control.HasField("snapshot_end") and control.snapshot_end.begin_offset >= begin:
                found.append(control.snapshot_end.begin_offset)
    return found[::-1]


def read_snapshot(log: SegmentedLog, begin: int, end: int) -> tuple[State, int]:
    """Load the snapshot at log offset ``begin``.

    Return its state, and the log offset from which on to apply records to it.
    """
    reader = SnapshotReader(begin)
    try:
        for window in read_log(log, begin, end):
            for _, control in decode_controls(window.columns):
                rows = reader.take(control)
                if rows is not None and reader.as_of is not None:
                    return State.from_rows(rows), reader.as_of
    except ValueError as error:
        reason = str(error)
    else:
        reason = "the log ends inside the snapshot"
    segment = log.segment_of(begin)
    raise CorruptStoreError(str(segment.file.path), begin - segment.start, reason)


def replay_into_state(
    window: Window,
    state: State,
    changes: Changes,
    timers: TimerStore | None = None,
    *,
    on_control: Callable[[Control, int, int], None] = lambda _control, _offset, _end: None,
) -> None:
    """Apply the records of ``window`` to ``state``, which has all records before them.

    If ``timers`` have all records before them, too, they follow. Call ``on_control`` with each
    control record, its log offset and the end of the window.
    """
    columns = window.columns
    end = window.base + int(columns.starts[-1] + columns.header["size"][-1])

    def apply(number: int, event: Control | PlacedEvent) -> None:
        if isinstance(event, Control):
            changes.add_control(end, event, state.apply(event))
            offset = window.base + int(columns.starts[number])
            if timers is not None:
                timers.apply(event, offset)
            on_control(event, offset, end)
        else:
            if timers is not None:
                timers.place(event, was_half=state.parts.was_half(event))
            changes.add_event(end, state.place(event))

    # All records but plain messages, in the order of the log.
    events: list[tuple[int, Control | PlacedEvent]] = [
        *decode_controls(columns),
        *numbered_events(columns, columns.starts + window.base),
    ]
    events.sort(key=itemgetter(0))
    # Creating a topic again reads its queues' ends, and deleting one reads its producers. So apply
    # the messages before such a change first, and those after it later.
    cuts = [number for number, event in events if _depends_on_messages(event)]
    waiting = iter(events)
    upcoming = next(waiting, None)
    for first, after in pairwise([0, *cuts, len(columns)]):
        while upcoming is not None and upcoming[0] == first and _depends_on_messages(upcoming[1]):
            apply(*upcoming)
            upcoming = next(waiting, None)
        header = columns.header[first:after]
        if header.size:
            runs = group_by_queue(header["topic_id"].astype(np.int64), header["queue_id"].astype(np.int64))
            latest = header["queue_offset"][runs.order[runs.bounds[1:] - 1]].tolist()
            for key, offset in zip(
                map(QueueKey, runs.topic_ids.tolist(), runs.queue_ids.tolist()), latest, strict=True
            ):
                state.extend_queue(key, offset + 1)
                changes.add_queue_range(end, key, offset + 1)
            changes.add_sequences(end, _replay_into_producers(columns.subset(np.arange(first, after)), state))
        while upcoming is not None and upcoming[0] < after:
            apply(*upcoming)
            upcoming = next(waiting, None)


def _depends_on_messages(event: Control | PlacedEvent) -> bool:
    return isinstance(event, Control) and event.WhichOneof("change") in {"topic_created", "topic_deleted"}


def _replay_into_producers(columns: RecordColumns, state: State) -> list[TouchedPage]:
    header = columns.header
    latest = int(header["store_timestamp"][-1])
    is_held = header["kind"] == RecordKind.PENDING
    sent = np.flatnonzero(
        (header["producer_id"] != 0) & ((header["kind"] == RecordKind.MESSAGE) | is_held) & (header["origin"] == -1)
    )
    touched: list[TouchedPage] = []
    if sent.size:
        columns, is_held = columns.subset(sent), is_held[sent]
        header = columns.header
        longs = ("sequence", "topic_id", "queue_id", "queue_offset", "store_timestamp")
        sequences, topic_ids, queue_ids, offsets, times = (header[name].astype(np.int64) for name in longs)
        if is_held.any():
            topic_ids[is_held] = _sent_to(columns.subset(np.flatnonzero(is_held)), state)
            offsets[is_held] = NO_OFFSET
        touched = state.producers.add_records(
            header["producer_id"].astype(np.uint64), sequences, topic_ids, queue_ids, offsets, times
        )
    return touched + state.producers.expire(latest)


def _sent_to(columns: RecordColumns, state: State) -> list[int]:
    """Return the topic ids that the records were sent to; they are stored in a system topic."""
    begins, lengths = columns.part("topic")
    names = [
        bytes(columns.buffer[at : at + length]).decode()
        for at, length in zip(begins.tolist(), lengths.tolist(), strict=True)
    ]
    return [state.topic_ids.get(name, 0) for name in names]


def replay_into_timers(window: Window, begin: int, timers: TimerStore) -> None:
    """Apply the records of ``window`` from log offset ``begin`` on to ``timers``."""
    columns, offsets = window.columns, window.columns.starts + window.base
    if int(offsets[0]) < begin:
        columns = columns.subset(np.flatnonzero(offsets >= begin))
        offsets = columns.starts + window.base
    if len(columns) == 0:
        return
    events: list[tuple[int, Control | PlacedEvent]] = [*decode_controls(columns), *numbered_events(columns, offsets)]
    for number, event in sorted(events, key=itemgetter(0)):
        if isinstance(event, Control):
            timers.apply(event, int(offsets[number]))
        else:
            timers.place(event)


class _EntrySink(Protocol):
    def add(self, key: QueueKey, first: int, entries: npt.NDArray[np.void]) -> None: ...


def replay_into_queues(window: Window, begin: int, queues: _EntrySink) -> None:
    """Add the entries of the records of ``window`` from log offset ``begin`` on to ``queues``."""
    columns, offsets = window.columns, window.columns.starts + window.base
    if int(offsets[0]) < begin:
        columns = columns.subset(np.flatnonzero(offsets >= begin))
        offsets = columns.starts + window.base
    header = columns.header
    if header.size == 0:
        return
    runs = group_by_queue(header["topic_id"].astype(np.int64), header["queue_id"].astype(np.int64))
    entries = queue_entries(columns, runs, commitlog_offsets=offsets, store_timestamps=header["store_timestamp"])
    queue_offsets = header["queue_offset"].astype(np.int64)[runs.order]
    # A gap between two offsets begins a new run: the record between them is damaged.
    breaks = np.flatnonzero(queue_offsets[1:] != queue_offsets[:-1] + 1) + 1
    bounds = np.union1d(runs.bounds, breaks)
    firsts = queue_offsets[bounds[:-1]].tolist()
    numbers = (np.searchsorted(runs.bounds, bounds[:-1], side="right") - 1).tolist()
    topic_ids, queue_ids = runs.topic_ids.tolist(), runs.queue_ids.tolist()
    for (at, until), first, number in zip(pairwise(bounds.tolist()), firsts, numbers, strict=True):
        queues.add(QueueKey(topic_ids[number], queue_ids[number]), first, entries[at:until])


class QueueReplay:
    """A replay of a log that may be damaged into the queues.

    The offset of a damaged record becomes a hole, so that later messages keep their offsets. A
    ``whole`` replay fills empty queues from the start of the log. Any other continues their files.
    """

    def __init__(self, queues: Queues, state: State, log_start: int, *, whole: bool) -> None:
        self._queues = queues
        self._state = state
        self._log_start = log_start
        self._whole = whole
        # The queue's end offset, and the log offset after its last record.
        self._ends: dict[QueueKey, tuple[int, int]] = {}

    def _end(self, key: QueueKey, first: int) -> tuple[int, int]:
        """Return the end of a queue; if it is not known, the queue continues at ``first``."""
        start = self._state.start_offsets.get(key, 0) if self._whole else first
        return self._ends.get(key, (start, self._log_start))

    def add(self, key: QueueKey, first: int, entries: npt.NDArray[np.void]) -> None:
        end_offset, log_offset = self._end(key, first)
        if first < end_offset:  # retention has given them up, but they are still in the log
            entries, first = entries[end_offset - first :], end_offset
        if entries.size == 0:
            return
        self._add_holes(key, end_offset, first, log_offset)
        self._queues.add(key, first, entries)
        last = entries[-1]
        self._ends[key] = first + entries.size, int(last["log_offset"]) + int(last["size"])

    def add_hole(self, key: QueueKey, queue_offset: int, log_offset: int) -> None:
        """Add the hole of a damaged record whose queue is known."""
        end_offset, _ = self._end(key, queue_offset)
        if end_offset <= queue_offset:
            self._add_holes(key, end_offset, queue_offset + 1, log_offset)
            self._ends[key] = queue_offset + 1, log_offset

    def finish(self) -> None:
        """Add the holes at the ends of the queues. Call it after the last entry."""
        keys = self._state.end_offsets if self._whole else self._ends
        for key in list(keys):
            end_offset = self._state.end_offsets.get(key, 0)
            at, log_offset = self._end(key, end_offset)
            self._add_holes(key, at, end_offset, log_offset)

    def _add_holes(self, key: QueueKey, begin: int, end: int, log_offset: int) -> None:
        if begin < end:
            holes = np.zeros(end - begin, QUEUE_ENTRY)
            holes["log_offset"] = log_offset  # rising, as in any queue; size 0 marks a hole
            self._queues.add(key, begin, holes)
            self._queues.holes.update(((key, offset), log_offset) for offset in range(begin, end))
