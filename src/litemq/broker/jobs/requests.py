"""The requests of clients about jobs: put, get, list, delete, pause, trigger, backfill, history."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from typing import Final

from google.protobuf.message import Message

from litemq.broker.jobs.changes import JobChanges, PutHow
from litemq.broker.jobs.manual_runs import ManualRuns
from litemq.broker.jobs.run_state import is_running
from litemq.broker.jobs.scheduler import JobScheduler
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe, wait_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError, JobNotFoundError
from litemq.net.frame import Frame
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import (
    BackfillJobRequest,
    JobFacts,
    JobHistoryRequest,
    JobOutcomes,
    JobsAnswer,
    JobsRequest,
    ListJobsRequest,
    Opcode,
    PauseJobsRequest,
    PutJobsAnswer,
    PutJobsRequest,
    TriggerJobRequest,
)
from litemq.schedules.cron import NEVER

__all__ = ["JobRequests"]

_MAX_JOBS: Final = 2_000  # of one request
_MAX_BYTES: Final = 4 << 20
_LOOKED_AT: Final = 5_000  # jobs for one answer; the client asks again for more
_MAX_RUNS: Final = 100
_TRIGGER: Final = re.compile(r"[a-z0-9]{1,14}", re.ASCII)


class JobRequests:
    """Changes, lists and runs jobs."""

    def __init__(self, context: BrokerContext, scheduler: JobScheduler) -> None:
        self._store = store = context.store
        self._jobs = store.state.parts.jobs
        self._scheduler = scheduler
        self._changes = JobChanges(context, scheduler)
        self._manual_runs = ManualRuns(context)
        self._answers = context.answers
        self.handlers = (
            Handler(Opcode.PUT_JOBS, Permission.TOPIC_PUB, self._put),
            Handler(Opcode.GET_JOBS, Permission.TOPIC_READ, self._get),
            Handler(Opcode.LIST_JOBS, Permission.LISTED, self._list),
            Handler(Opcode.DELETE_JOBS, Permission.TOPIC_UPDATE, self._delete),
            Handler(Opcode.PAUSE_JOBS, Permission.TOPIC_UPDATE, self._pause),
            Handler(Opcode.TRIGGER_JOB, Permission.TOPIC_PUB, self._trigger),
            Handler(Opcode.BACKFILL_JOB, Permission.TOPIC_PUB, self._backfill),
            Handler(Opcode.JOB_HISTORY, Permission.TOPIC_GET, self._history),
        )

    def _put(self, caller: Caller, frame: Frame) -> None:
        request = parse(PutJobsRequest, frame[3])
        _check_count(request.jobs)
        if len(frame[3]) > _MAX_BYTES:
            raise InvalidArgumentError(f"{len(frame[3])} bytes of jobs in one request: send at most {_MAX_BYTES}")
        try:
            how = PutHow(request.how)
        except ValueError:
            raise InvalidArgumentError(f"how={request.how}: choose 0 … {max(PutHow)}") from None

        async def put() -> Message:
            return PutJobsAnswer(outcomes=await self._changes.put(request.jobs, how, dry_run=request.dry_run))

        self._answer(caller, frame, put())

    def _get(self, caller: Caller, frame: Frame) -> None:
        request = parse(JobsRequest, frame[3])
        _check_count(request.ids)
        slots = [slot for slot in map(self._jobs.find_slot, request.ids) if slot is not None]
        answer = JobsAnswer(jobs=map(self._facts, slots), is_end=True, count=len(self._jobs))
        caller.answer(frame, answer.SerializeToString())

    def _list(self, caller: Caller, frame: Frame) -> None:
        request = parse(ListJobsRequest, frame[3])
        if not 1 <= request.most <= _MAX_JOBS:
            raise InvalidArgumentError(f"limit={request.most}: choose 1 … {_MAX_JOBS}")
        table = self._jobs.table
        begin = int(table.numbers.searchsorted(request.after, side="right"))
        answer = JobsAnswer(next_after=request.after, is_end=True, count=len(self._jobs))
        size = 0
        for slot in range(begin, len(table.definitions)):
            if slot - begin >= _LOOKED_AT or len(answer.jobs) >= request.most or size > _MAX_BYTES:
                answer.is_end = False
                break
            answer.next_after = int(table.numbers[slot])
            if table.definitions[slot] and _matches(self._jobs.definition(slot), request):
                answer.jobs.append(self._facts(slot))
                size += len(table.definitions[slot])
        caller.answer(frame, answer.SerializeToString())

    def _facts(self, slot: int) -> JobFacts:
        row, job = self._jobs.row_at(slot), self._jobs.definition(slot)
        next_tick = NEVER if job.paused else self._scheduler.next_tick(slot)
        return JobFacts(
            number=row.number,
            definition=job,
            next_tick=0 if next_tick == NEVER else next_tick,
            last_tick=row.last_tick,
            last_at=row.last_at,
            sent=row.sent,
            skipped=row.skipped,
            missed=row.missed,
            failed=row.failed,
            running=is_running(self._store.state, row, job.group),
            queued=row.queued,
        )

    def _delete(self, caller: Caller, frame: Frame) -> None:
        request = parse(JobsRequest, frame[3])
        _check_count(request.ids)
        outcomes = self._changes.delete(request.ids)
        answer_when_safe(
            self._store, caller, frame, self._store.log_end, JobOutcomes(outcomes=outcomes).SerializeToString()
        )

    def _pause(self, caller: Caller, frame: Frame) -> None:
        request = parse(PauseJobsRequest, frame[3])
        _check_count(request.ids)
        outcomes = self._changes.pause(request.ids, paused=request.paused)
        answer_when_safe(
            self._store, caller, frame, self._store.log_end, JobOutcomes(outcomes=outcomes).SerializeToString()
        )

    def _trigger(self, caller: Caller, frame: Frame) -> None:
        request = parse(TriggerJobRequest, frame[3])
        if not _TRIGGER.fullmatch(request.trigger_id):
            raise InvalidArgumentError(f"trigger_id={request.trigger_id!r}: use 1 … 14 characters of a-z and 0-9")
        self._answer(caller, frame, self._manual_runs.trigger(self._slot(request.id), request.trigger_id))

    def _backfill(self, caller: Caller, frame: Frame) -> None:
        request = parse(BackfillJobRequest, frame[3])
        if not 0 <= request.since < request.until:
            raise InvalidArgumentError(
                f"backfill from {request.since} to {request.until}: choose an end after the start"
            )
        self._answer(caller, frame, self._manual_runs.backfill(self._slot(request.id), request))

    def _history(self, caller: Caller, frame: Frame) -> None:
        request = parse(JobHistoryRequest, frame[3])
        if not 1 <= request.most <= _MAX_RUNS:
            raise InvalidArgumentError(f"limit={request.most}: choose 1 … {_MAX_RUNS}")
        self._answer(caller, frame, self._manual_runs.history(self._slot(request.id), request.most))

    def _slot(self, job_id: str) -> int:
        slot = self._jobs.find_slot(job_id)
        if slot is None:
            raise JobNotFoundError(f"job {job_id!r} does not exist: list all jobs with `litemq job list`")
        return slot

    def _answer(self, caller: Caller, frame: Frame, work: Coroutine[None, None, Message]) -> None:
        """Answer when ``work`` is done and durable."""

        async def safe() -> tuple[bytes, bytes]:
            answer = await work
            await wait_safe(self._store, self._store.log_end)
            return answer.SerializeToString(), b""

        self._answers.later(caller, frame, safe())


def _check_count(jobs: Sequence[object]) -> None:
    if not 1 <= len(jobs) <= _MAX_JOBS:
        raise InvalidArgumentError(f"{len(jobs)} jobs in one request: send 1 … {_MAX_JOBS}")


def _matches(job: JobDefinition, request: ListJobsRequest) -> bool:
    return (
        (not request.topic or job.topic == request.topic)
        and (not request.group or job.group == request.group)
        and job.id.startswith(request.prefix)
        and (not request.HasField("paused") or job.paused is request.paused)
    )
