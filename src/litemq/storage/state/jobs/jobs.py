"""Jobs, a part of the state: definitions, progress through their ticks, and the latest run.

A job has an id, and a number that never changes. The message of a tick has the job's number as its
origin and the tick's time as its delay time. The record that delivers a tick therefore also marks
it as sent: no tick is sent twice. Log offsets are multiples of 8 and job numbers are not, so an
origin is never ambiguous.
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

__all__ = ["JOB_NUMBER_BITS", "Jobs", "TicksPlaced", "is_job_number", "new_job_numbers"]

Longs = npt.NDArray[np.int64]

JOB_NUMBER_BITS: Final = 4  # the lowest three bits of a job number
_STEP: Final = 8
_STORED_COLUMNS: Final = JOB_COLUMNS[:-1]  # the last one follows from the definition
_MAX_COUNT: Final = 0xFFFFFFFF


def new_job_numbers(log_end: int, count: int = 1) -> range:
    """Return ``count`` unused numbers for the jobs that a record at ``log_end`` creates.

    They are unique: the record is longer than the range of its numbers.
    """
    return range(log_end + JOB_NUMBER_BITS, log_end + JOB_NUMBER_BITS + _STEP * count, _STEP)


def is_job_number(origin: int) -> bool:
    """Return whether ``origin`` is a job number, not a log offset."""
    return origin >= 0 and origin & 7 == JOB_NUMBER_BITS


class TicksPlaced(NamedTuple):
    """Consecutive job messages of the log, by column. Tick 0 is a manual run."""

    numbers: Longs
    ticks: Longs
    topic_ids: Longs
    queue_ids: Longs
    queue_offsets: Longs
    log_offsets: Longs
    times: Longs


class Jobs:
    """All jobs."""

    def __init__(self) -> None:
        self.table = JobTable()
        # Job numbers by the log offset of the latest message, for jobs that do not allow
        # overlapping runs. A retry or a carried copy of the message changes its offset.
        self._watched: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.table)

    # Queries --------------------------------------------------------------------------------------

    def find_slot(self, job_id: str) -> int | None:
        """Return the slot of a job in the table, or ``None``."""
        return self.table.ids.get(job_id)

    def definition(self, slot: int) -> JobDefinition:
        """Return the definition of the job in ``slot``."""
        return JobDefinition.FromString(self.table.definitions[slot])

    def may_send(self, numbers: Longs, ticks: Longs) -> npt.NDArray[np.bool_]:
        """Return for each tick whether its job exists and the tick was neither sent nor skipped."""
        slots = self.table.slots(numbers)
        if not self.table.definitions:
            return slots >= 0
        rows = self.table.columns[slots]
        may: npt.NDArray[np.bool_] = (slots >= 0) & (
            (ticks == 0) | (ticks > rows["through"]) | (ticks == rows["queued"])
        )
        return may

    def row_at(self, slot: int) -> JobRow:
        """Return the row of the job in ``slot``."""
        return self._row(slot, int(self.table.numbers[slot]), self.table.values(slot)).job

    def _row(self, slot: int, number: int, values: tuple[int, ...]) -> Row:
        row = Row()
        job = row.job
        job.number, job.definition = number, self.table.definitions[slot]
        for name, value in zip(_STORED_COLUMNS, values, strict=False):
            if value:  # most are 0, the default
                setattr(job, name, value)
        return row

    # Changes --------------------------------------------------------------------------------------

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "jobs_put":
                return self._put_all(control.jobs_put.jobs)
            case "jobs_deleted":
                return [touch for number in control.jobs_deleted.numbers for touch in self._delete(number)]
            case "ticks_passed":
                return [touch for passed in control.ticks_passed.jobs for touch in self._pass(passed)]
            case "lease_tick" if self._watched:
                tick = control.lease_tick
                return [touch for failed in tick.failed for touch in self._retry(tick.group, failed)]
            case "try_failed" if self._watched:
                return self._retry(control.try_failed.group, control.try_failed)
            case _:
                return []

    def _put_all(self, jobs: Sequence[JobPut]) -> list[Touch]:
        """Put jobs, with consecutive new ones (the common case) in bulk."""
        last = int(self.table.numbers[-1]) if self.table.definitions else 0
        new: list[JobPut] = []
        for job in jobs:
            if job.number > last and not job.skipped:
                new.append(job)
            else:
                self._add(new)
                new = []
                self._put(job)
            last = max(last, job.number)
        self._add(new)
        return [("job", job.number) for job in jobs]

    def _add(self, new: list[JobPut]) -> None:
        if not new:
            return
        serialized = [job.definition for job in new]
        definitions = list(map(JobDefinition.FromString, serialized))
        slots = self.table.add([job.number for job in new], [each.id for each in definitions], serialized)
        columns = self.table.columns[slots.start : slots.stop]
        columns["through"] = [job.through for job in new]
        columns["is_watched"] = [_is_watched(each) for each in definitions]

    def _put(self, job: JobPut) -> None:
        definition = JobDefinition.FromString(job.definition)
        slot = self.table.put(job.number, definition.id, job.definition)
        row = self.table.columns[slot]
        if job.through:
            row["through"], row["queued"] = max(job.through, int(row["through"])), 0
        _count(row, "skipped", job.skipped)
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

    def _pass(self, passed: TickPassed) -> list[Touch]:
        slot = self.table.slot(passed.number)
        if slot is None:
            return []
        row = self.table.columns[slot]
        row["through"] = max(passed.through, int(row["through"]))
        _count(row, "skipped", passed.skipped)
        _count(row, "missed", passed.missed)
        if passed.queued:
            row["queued"] = max(passed.queued, 0)
        return [("job", passed.number)]

    def _retry(self, group: str, failed: TryFailed) -> list[Touch]:
        slot = self._watched_at(failed.predecessor)
        if slot is None or self.definition(slot).group != group:
            return []
        self.table.columns[slot]["retry_topic_id"] = failed.retry_topic_id
        return [("job", int(self.table.numbers[slot]))]

    def _watched_at(self, log_offset: int) -> int | None:
        number = self._watched.get(log_offset)
        return None if number is None else self.table.slot(number)

    def apply_ticks(self, event: TicksPlaced) -> list[Touch]:
        """Apply messages of jobs and return the rows they touch."""
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
        """Apply a retry of a run, a carried copy of it, or its dead letter; ignore all others."""
        match record.kind:
            case RecordKind.DEAD:
                return self._died(record)
            case RecordKind.RETRY if record.origin in self._watched:
                slot = self._watched_at(record.origin)
                if slot is None or self.table.columns[slot]["retry_topic_id"] != record.topic_id:
                    return []
                row = self.table.columns[slot]
                row["topic_id"], row["queue_id"], row["queue_offset"] = (
                    record.topic_id,
                    record.queue_id,
                    record.queue_offset,
                )
            case RecordKind.PENDING if record.consume_count and record.origin in self._watched:
                slot = self._watched_at(record.origin)  # carried forward
            case _:
                return []
        if slot is None:
            return []
        self._watched[record.log_offset] = self._watched.pop(record.origin)
        self.table.columns[slot]["log_offset"] = record.log_offset
        return [("job", int(self.table.numbers[slot]))]

    def _died(self, record: PlacedRecord) -> list[Touch]:
        job_id, at, _ = record.message_id.rpartition("@")
        slot = self.find_slot(job_id) if at else None
        if slot is None:
            return []
        group = self.definition(slot).group
        if group and group != record.properties.get("litemq-group"):
            return []
        _count(self.table.columns[slot], "failed", 1)
        return [("job", int(self.table.numbers[slot]))]

    # Rows -----------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("job", int(number)):
                return next(self.rows_of([number]))
            case _:
                return None

    def rows_of(self, numbers: list[int]) -> Iterator[Row]:
        """Yield the rows of jobs ``numbers``."""
        slots = self.table.slots(np.array(numbers, np.int64))
        there = slots[slots >= 0]
        values = iter(self.table.columns[there].tolist())
        for number, slot in zip(numbers, slots.tolist(), strict=True):
            yield Row(job=JobRow(number=number, gone=True)) if slot < 0 else self._row(slot, number, next(values))

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        numbers = self.table.numbers
        return (self._row(slot, int(numbers[slot]), self.table.values(slot)) for slot in self.table.live())

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("job"):
            return False
        job = row.job
        definition = JobDefinition.FromString(job.definition)
        slot = self.table.put(job.number, definition.id, job.definition)
        self.table.set_values(slot, tuple(getattr(job, name) for name in _STORED_COLUMNS))
        self._watch(slot, definition)
        return True

    def copy(self) -> Jobs:
        """Return an independent copy."""
        other = Jobs()
        other.table, other._watched = self.table.copy(), dict(self._watched)
        return other


def _is_watched(definition: JobDefinition) -> bool:
    return bool(definition.group) and definition.overlap != Overlap.ALLOW


def _count(row: npt.NDArray[np.void] | np.void, name: str, count: int) -> None:
    if count:
        row[name] = min(int(row[name]) + count, _MAX_COUNT)
