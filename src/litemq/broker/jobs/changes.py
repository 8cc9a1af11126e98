"""Changes of jobs: create, change, pause, delete. The changes of one request are one record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from litemq.broker.jobs.job import checked_definition, ticks_between
from litemq.broker.jobs.scheduler import JobScheduler
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.topic_directory import check_queue
from litemq.errors import InvalidArgumentError, JobExistsError, JobNotFoundError, LiteMQError, OverloadedError
from litemq.errors.detached import detached
from litemq.proto.control_pb2 import Control, JobPut, JobsDeleted, JobsPut
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import JobOutcome
from litemq.storage.state.jobs.jobs import new_job_numbers

__all__ = ["JobChanges", "PutHow"]

_AT_ONCE: Final = 32  # jobs that are checked before other work runs
_MAX_COUNTED: Final = 1_000
_RETRY_AFTER_MS: Final = 1_000
_WHEN: Final = ("expression", "timezone", "every_ms", "anchor", "start_at", "end_at")


class PutHow(IntEnum):
    """Whether PUT_JOBS may create a job, change one, or both."""

    CREATE = 0
    CHANGE = 1
    EITHER = 2


class JobChanges:
    """Changes jobs on the event loop, and reschedules them."""

    def __init__(self, context: BrokerContext, scheduler: JobScheduler) -> None:
        self._store = context.store
        self._clock = context.clock
        self._topics = context.topics
        self._scheduler = scheduler
        self._max_jobs = context.limits.max_jobs
        self._max_bytes = context.limits.max_job_bytes
        self._jobs = context.store.state.parts.jobs

    async def put(self, definitions: Sequence[JobDefinition], how: PutHow, *, dry_run: bool) -> list[JobOutcome]:
        """Create or change jobs; return the outcome of each.

        An invalid job does not affect the others.
        """
        now = self._clock.wall_ms()
        kept: list[JobDefinition | LiteMQError] = []
        for number, each in enumerate(definitions):
            kept.append(self._checked(each, now))
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        # From here on, no other request changes a job.
        outcomes: list[JobOutcome] = []
        changes: list[JobPut] = []
        ids: set[str] = set()
        new = 0
        for job in kept:
            if isinstance(job, LiteMQError):
                outcomes.append(_outcome(job))
                continue
            try:
                if job.id in ids:
                    raise InvalidArgumentError(f"job {job.id!r} is in the request twice: name it once")
                ids.add(job.id)
                change = self._change(job, how, now, new=new)
                outcomes.append(
                    JobOutcome(done="unchanged" if change is None else "changed" if change.number else "created")
                )
                if change is not None:
                    changes.append(change)
                    new += not change.number
            except LiteMQError as error:
                outcomes.append(_outcome(error))
        if changes and not dry_run:
            self._append(changes)
        return outcomes

    def _checked(self, definition: JobDefinition, now: int) -> JobDefinition | LiteMQError:
        slot = self._jobs.find_slot(definition.id)
        try:
            job = checked_definition(definition, now, None if slot is None else self._jobs.definition(slot))
            topic = self._topics.find(job.topic)
            if job.HasField("queue_id"):
                check_queue(topic, job.queue_id)
            if job.HasField("priority") and not topic.has_priorities:
                raise InvalidArgumentError(
                    f"priority={job.priority}: topic {topic.name!r} has no priorities. Leave the priority out"
                )
        except LiteMQError as error:
            return detached(error)
        return job

    def _change(self, job: JobDefinition, how: PutHow, now: int, *, new: int) -> JobPut | None:
        """Return the change of a job for the record; ``None`` if the job is unchanged."""
        slot = self._jobs.find_slot(job.id)
        if slot is None:
            if how is PutHow.CHANGE:
                raise _not_found(job.id)
            if len(self._jobs) + new >= self._max_jobs:
                raise OverloadedError(
                    f"the broker has {self._max_jobs} jobs, the maximum: delete some", _RETRY_AFTER_MS
                )
            if self._jobs.table.bytes > self._max_bytes:
                raise OverloadedError(
                    f"the jobs use {self._max_bytes} bytes, the maximum: delete some, or make their bodies smaller",
                    _RETRY_AFTER_MS,
                )
            return JobPut(definition=job.SerializeToString(deterministic=True), through=now)
        before = self._jobs.definition(slot)
        if how is not PutHow.CHANGE:
            job.paused = before.paused  # creating a job again keeps it paused
        definition = job.SerializeToString(deterministic=True)
        if definition == self._jobs.table.definitions[slot]:
            return None
        if how is PutHow.CREATE:
            raise JobExistsError(
                f"job {job.id!r} already exists with another definition: choose another id, or change the job with "
                "`mq.jobs.update` or `litemq job create --replace`"
            )
        change = JobPut(number=int(self._jobs.table.numbers[slot]), definition=definition)
        is_another_time = any(getattr(before, name) != getattr(job, name) for name in _WHEN)
        if is_another_time or (before.paused and not job.paused):
            self._restart_schedule(change, slot, before, now)
        return change

    def _restart_schedule(self, change: JobPut, slot: int, before: JobDefinition, now: int) -> None:
        """Skip the ticks that were due until now, and count up to ``_MAX_COUNTED`` of them."""
        row = self._jobs.table.columns[slot]
        change.through = max(now, int(row["through"]))
        change.skipped = bool(row["queued"]) + sum(
            1 for _ in ticks_between(before, int(row["through"]), now, _MAX_COUNTED)
        )

    def _append(self, changes: list[JobPut]) -> None:
        new = [change for change in changes if not change.number]

        def make(log_end: int) -> Control:
            for change, number in zip(new, new_job_numbers(log_end, len(new)), strict=True):
                change.number = number
            return Control(jobs_put=JobsPut(jobs=changes))

        self._store.append_numbered(make)
        self._reschedule(change.number for change in changes)

    def _reschedule(self, numbers: Iterable[int]) -> None:
        slots = self._jobs.table.slots(np.fromiter(numbers, np.int64))
        self._scheduler.reschedule(slots[slots >= 0].tolist())

    def pause(self, ids: Sequence[str], *, paused: bool) -> list[JobOutcome]:
        """Pause or resume jobs. Ticks that were due meanwhile are not sent, but counted."""
        changes, outcomes, now = [], [], self._clock.wall_ms()
        for job_id in dict.fromkeys(ids):
            slot = self._jobs.find_slot(job_id)
            if slot is None:
                outcomes.append(_outcome(_not_found(job_id)))
                continue
            job = self._jobs.definition(slot)
            outcomes.append(JobOutcome(done="unchanged" if job.paused is paused else "changed"))
            if job.paused is not paused:
                before = self._jobs.definition(slot)
                job.paused = paused
                change = JobPut(
                    number=int(self._jobs.table.numbers[slot]), definition=job.SerializeToString(deterministic=True)
                )
                if not paused:
                    self._restart_schedule(change, slot, before, now)
                changes.append(change)
        if changes:
            self._append(changes)
        return outcomes

    def delete(self, ids: Sequence[str]) -> list[JobOutcome]:
        """Delete jobs; their messages stay."""
        numbers, outcomes = [], []
        for job_id in dict.fromkeys(ids):
            slot = self._jobs.find_slot(job_id)
            if slot is None:
                outcomes.append(_outcome(_not_found(job_id)))
            else:
                numbers.append(int(self._jobs.table.numbers[slot]))
                outcomes.append(JobOutcome(done="deleted"))
        if numbers:
            slots = self._jobs.table.slots(np.array(numbers, np.int64))
            self._store.append_control(Control(jobs_deleted=JobsDeleted(numbers=numbers)))
            self._scheduler.reschedule(slots[slots >= 0].tolist())
        return outcomes


def _not_found(job_id: str) -> JobNotFoundError:
    return JobNotFoundError(f"job {job_id!r} does not exist: list all jobs with `litemq job list`")


def _outcome(error: LiteMQError) -> JobOutcome:
    return JobOutcome(code=error.code, problem=str(error))
