"""Jobs that send messages at their times: what they are, how far their ticks are, and what became of the latest.

A job is known by its id, and by a number that it keeps however it changes. The message of a tick has that number as its origin and the tick's time
as its delay time: the record that delivers a tick is the record that says that it is sent, so none is sent twice. Numbers are no multiples of 8,
as log offsets are: nobody takes a tick for what became of another record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.proto.control_pb2 import Control, JobPut, JobRow, Row, TickPassed, TryFailed
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.storage.state.jobs.job_table import JOB_COLUMNS, JobTable
from litemq.storage.state.part import PlacedRecord, Touch
from litemq.types import Overlap, RecordKind

__all__ = ["JOB_NUMBER_BITS", "Jobs", "TicksPlaced", "first_job_number", "is_job_number"]

Longs = npt.NDArray[np.int64]

JOB_NUMBER_BITS: Final = 4  # of an origin's lowest three bits
_STEP: Final = 8
_TOLD: Final = JOB_COLUMNS[:-1]  # the last one follows from the definition
_MOST: Final = 0xFFFFFFFF


def first_job_number(log_end: int, count: int = 1) -> range:
    """Numbers for jobs that are created by a record behind ``log_end``: none of them is used again, since the record is longer than they are apart."""
    return range(log_end + JOB_NUMBER_BITS, log_end + JOB_NUMBER_BITS + _STEP * count, _STEP)


def is_job_number(origin: int) -> bool:
    """Whether an origin is a job's number, and no log offset."""
    return origin >= 0 and origin & 7 == JOB_NUMBER_BITS


class TicksPlaced(NamedTuple):
    """Messages of jobs that stand one behind another in the log, by column. A tick of 0 was triggered by hand."""

    numbers: Longs
    ticks: Longs
    topic_ids: Longs
    queue_ids: Longs
    queue_offsets: Longs
    log_offsets: Longs
    times: Longs


class Jobs:
    """All that there are. Changed by records alone."""

    def __init__(self) -> None:
        self.table = JobTable()
        # The latest messages of jobs that do not want two at a time, by their log offsets: what is tried again goes on elsewhere.
        self._watched: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.table)

    # Asking -------------------------------------------------------------------------------------------------------------------

    def slot_of(self, job_id: str) -> int | None:
        """Where a job is in the table."""
        return self.table.ids.get(job_id)

    def definition(self, slot: int) -> JobDefinition:
        """What a job is."""
        return JobDefinition.FromString(self.table.definitions[slot])

    def may_send(self, numbers: Longs, ticks: Longs) -> npt.NDArray[np.bool_]:
        """For each tick whether its job is there, and it was neither sent nor given up."""
        slots = self.table.slots(numbers)
        if not self.table.definitions:
            return slots >= 0
        rows = self.table.columns[slots]
        may: npt.NDArray[np.bool_] = (slots >= 0) & ((ticks == 0) | (ticks > rows["through"]) | (ticks == rows["queued"]))
        return may

    def row_at(self, slot: int) -> JobRow:
        """All that is known of a job."""
        return self._row(slot, int(self.table.numbers[slot]), self.table.values(slot)).job

    def _row(self, slot: int, number: int, values: tuple[int, ...]) -> Row:
        row = Row()
        job = row.job
        job.number, job.definition = number, self.table.definitions[slot]
        for name, value in zip(_TOLD, values, strict=False):
            if value:  # most are 0, and need not be set
                setattr(job, name, value)
        return row

    # Changing -----------------------------------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "jobs_put":
                return self._put_all(control.jobs_put.jobs)
            case "jobs_deleted":
                return [touch for number in control.jobs_deleted.numbers for touch in self._delete(number)]
            case "ticks_passed":
                return [touch for told in control.ticks_passed.jobs for touch in self._pass(told)]
            case "lease_tick" if self._watched:
                tick = control.lease_tick
                return [touch for failed in tick.failed for touch in self._try_again(tick.group, failed)]
            case "try_failed" if self._watched:
                return self._try_again(control.try_failed.group, control.try_failed)
            case _:
                return []

    def _put_all(self, jobs: Sequence[JobPut]) -> list[Touch]:
        """Most are new: those that stand together are taken in together."""
        last = int(self.table.numbers[-1]) if self.table.definitions else 0
        new: list[JobPut] = []
        for told in jobs:
            if told.number > last and not told.skipped:
                new.append(told)
            else:
                self._add(new)
                new = []
                self._put(told)
            last = max(last, told.number)
        self._add(new)
        return [("job", told.number) for told in jobs]

    def _add(self, new: list[JobPut]) -> None:
        if not new:
            return
        definitions = [told.definition for told in new]
        known = list(map(JobDefinition.FromString, definitions))
        slots = self.table.add([told.number for told in new], [job.id for job in known], definitions)
        columns = self.table.columns[slots.start : slots.stop]
        columns["through"] = [told.through for told in new]
        columns["is_watched"] = [_is_watched(job) for job in known]

    def _put(self, told: JobPut) -> None:
        definition = JobDefinition.FromString(told.definition)
        slot = self.table.put(told.number, definition.id, told.definition)
        row = self.table.columns[slot]
        if told.through:
            row["through"], row["queued"] = max(told.through, int(row["through"])), 0
        _count(row, "skipped", told.skipped)
        self._watch(slot, definition)

    def _watch(self, slot: int, definition: JobDefinition) -> None:
        row = self.table.columns[slot]
        row["is_watched"] = _is_watched(definition)
        log_offset = int(row["log_offset"])
        if log_offset >= 0:
            if row["is_watched"]:
                self._watched[log_offset] = int(self.table.numbers[slot])
            else:
                self._watched.pop(log_offset, None)

    def _delete(self, number: int) -> list[Touch]:
        slot = self.table.slot(number)
        if slot is None:
            return []
        self._watched.pop(int(self.table.columns[slot]["log_offset"]), None)
        self.table.remove(slot, self.definition(slot).id)
        return [("job", number)]

    def _pass(self, told: TickPassed) -> list[Touch]:
        slot = self.table.slot(told.number)
        if slot is None:
            return []
        row = self.table.columns[slot]
        row["through"] = max(told.through, int(row["through"]))
        _count(row, "skipped", told.skipped)
        _count(row, "missed", told.missed)
        if told.queued:
            row["queued"] = max(told.queued, 0)
        return [("job", told.number)]

    def _try_again(self, group: str, failed: TryFailed) -> list[Touch]:
        slot = self._watched_at(failed.predecessor)
        if slot is None or self.definition(slot).group != group:
            return []
        self.table.columns[slot]["retry_topic_id"] = failed.retry_topic_id
        return [("job", int(self.table.numbers[slot]))]

    def _watched_at(self, log_offset: int) -> int | None:
        number = self._watched.get(log_offset)
        return None if number is None else self.table.slot(number)

    def take(self, event: TicksPlaced) -> list[Touch]:
        """Take in messages of jobs."""
        table = self.table
        slots = table.slots(event.numbers)
        there = np.flatnonzero(slots >= 0)
        if not there.size:
            return []
        if there.size < slots.size:
            slots, event = slots[there], TicksPlaced(*(column[there] for column in event))
        columns = table.columns
        watched = columns["is_watched"][slots]
        if watched.any():
            for log_offset in columns["log_offset"][slots[watched]].tolist():
                self._watched.pop(log_offset, None)
        np.add.at(columns["sent"], slots, np.uint32(1))
        queued = (event.ticks > 0) & (columns["queued"][slots] == event.ticks)
        columns["queued"][slots[queued]] = 0
        np.maximum.at(columns["through"], slots, event.ticks)
        np.maximum.at(columns["last_tick"], slots, event.ticks)
        for name, values in zip(
            ("last_at", "topic_id", "queue_id", "queue_offset", "log_offset"),
            (event.times, event.topic_ids, event.queue_ids, event.queue_offsets, event.log_offsets),
            strict=True,
        ):
            columns[name][slots] = values
        columns["retry_topic_id"][slots] = 0
        if watched.any():
            for slot in set(slots[watched].tolist()):
                self._watched[int(columns["log_offset"][slot])] = int(table.numbers[slot])
        return [("job", number) for number in event.numbers.tolist()]

    def place(self, record: PlacedRecord) -> list[Touch]:
        """Take in a record that may be another try of a run, or its end."""
        match record.kind:
            case RecordKind.DEAD:
                return self._died(record)
            case RecordKind.RETRY if record.origin in self._watched:
                slot = self._watched_at(record.origin)
                if slot is None or self.table.columns[slot]["retry_topic_id"] != record.topic_id:
                    return []
                row = self.table.columns[slot]
                row["topic_id"], row["queue_id"], row["queue_offset"] = record.topic_id, record.queue_id, record.queue_offset
            case RecordKind.PENDING if record.consume_count and record.origin in self._watched:
                slot = self._watched_at(record.origin)  # carried on
            case _:
                return []
        if slot is None:
            return []
        self._watched[record.log_offset] = self._watched.pop(record.origin)
        self.table.columns[slot]["log_offset"] = record.log_offset
        return [("job", int(self.table.numbers[slot]))]

    def _died(self, record: PlacedRecord) -> list[Touch]:
        job_id, at, _ = record.message_id.rpartition("@")
        slot = self.slot_of(job_id) if at else None
        if slot is None:
            return []
        group = self.definition(slot).group
        if group and group != record.properties.get("litemq-group"):
            return []
        _count(self.table.columns[slot], "failed", 1)
        return [("job", int(self.table.numbers[slot]))]

    # Rows ---------------------------------------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("job", int(number)):
                return next(self.rows_of([number]))
            case _:
                return None

    def rows_of(self, numbers: list[int]) -> Iterator[Row]:
        """The rows of some jobs, by their numbers."""
        slots = self.table.slots(np.array(numbers, np.int64))
        there = slots[slots >= 0]
        values = iter(self.table.columns[there].tolist())
        for number, slot in zip(numbers, slots.tolist(), strict=True):
            yield Row(job=JobRow(number=number, gone=True)) if slot < 0 else self._row(slot, number, next(values))

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        numbers = self.table.numbers
        return (self._row(slot, int(numbers[slot]), self.table.values(slot)) for slot in self.table.live())

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("job"):
            return False
        told = row.job
        definition = JobDefinition.FromString(told.definition)
        slot = self.table.put(told.number, definition.id, told.definition)
        self.table.set_values(slot, tuple(getattr(told, name) for name in _TOLD))
        self._watch(slot, definition)
        return True

    def copy(self) -> Jobs:
        """As it is now."""
        other = Jobs()
        other.table, other._watched = self.table.copy(), dict(self._watched)
        return other


def _is_watched(definition: JobDefinition) -> bool:
    return bool(definition.group) and definition.overlap != Overlap.ALLOW


def _count(row: npt.NDArray[np.void] | np.void, name: str, count: int) -> None:
    if count:
        row[name] = min(int(row[name]) + count, _MOST)
