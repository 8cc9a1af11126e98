"""Imports of many jobs: the broker of each job, the number of requests, and refused jobs."""

from collections.abc import Sequence
from typing import Any

from litemq.client.engine.job import Job, RefusedJob
from litemq.client.engine.jobs import PutHow, PutOutcome
from litemq.client.jobs import bulk_import
from litemq.client.jobs.bulk_import import JobImport
from litemq.errors import InvalidArgumentError
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import JobFacts
from support.on_loop import on_loop


class _TwoBrokers:
    """Jobs on brokers ``a`` and ``b``; a new job lives on ``a``."""

    def __init__(self, **existing: Sequence[str]) -> None:
        self.existing = existing
        self.requests: list[tuple[str, list[str], PutHow, bool]] = []

    async def brokers(self) -> list[str]:
        return ["a", "b"]

    async def home_broker(self, _job: JobDefinition) -> str:
        return "a"

    async def get(self, broker: str, ids: Sequence[str]) -> list[Job]:
        there = self.existing.get(broker, ())
        return [Job(broker, JobFacts(definition=JobDefinition(id=job_id))) for job_id in ids if job_id in there]

    async def put(self, broker: str, jobs: Sequence[JobDefinition], how: PutHow, *, dry_run: bool) -> list[PutOutcome]:
        self.requests.append((broker, [job.id for job in jobs], how, dry_run))
        there = self.existing.get(broker, ())
        return [
            PutOutcome("", 2, "no schedule")
            if job.id == "bad"
            else PutOutcome("changed" if job.id in there else "created")
            for job in jobs
        ]


def _define(topic: str, _body: Any, job_id: str, _options: Any) -> JobDefinition:
    if not job_id:
        raise InvalidArgumentError("must not be empty")
    return JobDefinition(id=job_id, topic=topic)


def _import(engine: _TwoBrokers, *, dry_run: bool = False) -> JobImport:
    return JobImport(engine, _define, dry_run=dry_run)  # type: ignore[arg-type]


@on_loop
async def test_a_job_that_exists_elsewhere_is_changed_there() -> None:
    engine = _TwoBrokers(b=["old"])
    result = await _import(engine, dry_run=True).run([{"job_id": "new", "topic": "t"}, {"job_id": "old", "topic": "t"}])
    assert (result.created, result.changed, result.unchanged, result.refused) == (1, 1, 0, ())
    assert sorted(engine.requests) == [("a", ["new"], PutHow.EITHER, True), ("b", ["old"], PutHow.EITHER, True)]


@on_loop
async def test_refused_jobs_have_their_number_and_the_problem() -> None:
    wrong_time = {"job_id": "late", "topic": "t", "start_at": "tomorrow"}
    jobs: list[Any] = [
        {"job_id": "bad", "topic": "t"},
        "nothing",
        {"topic": "t"},
        wrong_time,
        {"job_id": "good", "topic": "t"},
    ]
    result = await _import(_TwoBrokers()).run(jobs)
    assert result.created == 1
    assert [(each.number, each.job_id) for each in result.refused] == [(1, "bad"), (2, ""), (3, ""), (4, "late")]
    assert result.refused[0] == RefusedJob(1, "bad", "no schedule")
    assert "'tomorrow' is not a time" in result.refused[3].problem


@on_loop
async def test_a_request_has_a_bounded_number_of_jobs() -> None:
    engine = _TwoBrokers()
    count = 2 * bulk_import._MAX_BATCH + 1
    result = await _import(engine).run({"job_id": f"job-{number}", "topic": "t"} for number in range(count))
    assert result.created == count
    assert sorted(len(ids) for _, ids, _, _ in engine.requests) == [1, bulk_import._MAX_BATCH, bulk_import._MAX_BATCH]
