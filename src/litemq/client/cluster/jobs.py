"""The ``JobEngine`` of a cluster: requests to its brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b

from google.protobuf.message import Message

from litemq.client.engine.job import Job, JobRun, moment
from litemq.client.engine.jobs import JobPage, PutHow, PutOutcome
from litemq.client.engine.routes import Route, queue_for_key
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import (
    BackfillJobAnswer,
    BackfillJobRequest,
    JobHistoryAnswer,
    JobHistoryRequest,
    JobOutcome,
    JobOutcomes,
    JobsAnswer,
    JobsRequest,
    ListJobsRequest,
    Opcode,
    PauseJobsRequest,
    PutJobsAnswer,
    PutJobsRequest,
    TriggerJobAnswer,
    TriggerJobRequest,
)
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, priority_class

__all__ = ["ClusterJobs"]

Ask = Callable[[str, int, Message], Awaitable[bytes]]


class ClusterJobs:
    """A ``JobEngine``."""

    def __init__(
        self, ask: Ask, brokers: Callable[[], Awaitable[list[str]]], route: Callable[[str], Awaitable[Route]]
    ) -> None:
        self._ask = ask
        self._brokers = brokers  # returns the brokers that are alive
        self._route = route  # returns the route of a topic, and may create the topic

    async def brokers(self) -> list[str]:
        return await self._brokers()

    async def home_broker(self, job: JobDefinition) -> str:
        route = await self._route(job.topic)
        if job.ordering_key:
            # The queue that producers choose for this key: all its messages are in one queue.
            queues = route.queues
            if any(each.has_priorities for each in route.brokers):
                wanted = priority_class(job.priority if job.HasField("priority") else DEFAULT_PRIORITY)
                queues = [queue for queue in queues if queue[1] % PRIORITY_CLASSES == wanted]
            broker, job.queue_id = queues[queue_for_key(job.ordering_key, len(queues))]
            return broker
        return max((each.name for each in route.brokers), key=lambda name: _weight(name, job.id))

    async def put(self, broker: str, jobs: Sequence[JobDefinition], how: PutHow, *, dry_run: bool) -> list[PutOutcome]:
        answer = await self._ask(broker, Opcode.PUT_JOBS, PutJobsRequest(jobs=jobs, how=how, dry_run=dry_run))
        return _outcomes(PutJobsAnswer.FromString(answer).outcomes)

    async def get(self, broker: str, ids: Sequence[str]) -> list[Job]:
        answer = JobsAnswer.FromString(await self._ask(broker, Opcode.GET_JOBS, JobsRequest(ids=ids)))
        return [Job(broker, facts) for facts in answer.jobs]

    async def page(
        self,
        broker: str,
        *,
        after: int,
        limit: int,
        topic: str = "",
        group: str = "",
        prefix: str = "",
        paused: bool | None = None,
    ) -> JobPage:
        request = ListJobsRequest(after=after, most=limit, topic=topic, group=group, prefix=prefix)
        if paused is not None:
            request.paused = paused
        answer = JobsAnswer.FromString(await self._ask(broker, Opcode.LIST_JOBS, request))
        return JobPage(
            tuple(Job(broker, facts) for facts in answer.jobs), answer.next_after, answer.is_end, answer.count
        )

    async def delete(self, broker: str, ids: Sequence[str]) -> list[PutOutcome]:
        return _outcomes(
            JobOutcomes.FromString(await self._ask(broker, Opcode.DELETE_JOBS, JobsRequest(ids=ids))).outcomes
        )

    async def pause(self, broker: str, ids: Sequence[str], *, paused: bool) -> list[PutOutcome]:
        request = PauseJobsRequest(ids=ids, paused=paused)
        return _outcomes(JobOutcomes.FromString(await self._ask(broker, Opcode.PAUSE_JOBS, request)).outcomes)

    async def trigger(self, broker: str, job_id: str, trigger_id: str) -> str:
        answer = await self._ask(broker, Opcode.TRIGGER_JOB, TriggerJobRequest(id=job_id, trigger_id=trigger_id))
        return TriggerJobAnswer.FromString(answer).message_id

    async def backfill(
        self, broker: str, job_id: str, since: int, until: int, *, dry_run: bool
    ) -> tuple[int, int, int]:
        request = BackfillJobRequest(id=job_id, since=since, until=until, dry_run=dry_run)
        answer = BackfillJobAnswer.FromString(await self._ask(broker, Opcode.BACKFILL_JOB, request))
        return answer.sent, answer.there, answer.next_since

    async def history(self, broker: str, job_id: str, limit: int) -> list[JobRun]:
        answer = await self._ask(broker, Opcode.JOB_HISTORY, JobHistoryRequest(id=job_id, most=limit))
        return [
            JobRun(
                run.message_id,
                moment(run.tick),
                datetime.fromtimestamp(run.sent_at / 1000, UTC),
                run.queue_id,
                run.queue_offset,
                run.state,
            )
            for run in JobHistoryAnswer.FromString(answer).runs
        ]


def _weight(broker: str, job_id: str) -> bytes:
    """Return the rendezvous weight of ``broker`` for a job: the greatest one has the job."""
    return blake2b(f"{broker}\0{job_id}".encode(), digest_size=8).digest()


def _outcomes(outcomes: Iterable[JobOutcome]) -> list[PutOutcome]:
    return [PutOutcome(each.done, each.code, each.problem) for each in outcomes]
