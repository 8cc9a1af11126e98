"""Requests about jobs: bounds and error messages."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.message import Message

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, JobNotFoundError, LiteMQError
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import (
    BackfillJobAnswer,
    BackfillJobRequest,
    JobHistoryRequest,
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
from support.callers import Asking, running_broker
from support.on_loop import on_loop


def _job(job_id: str = "j", **fields: bytes) -> JobDefinition:
    return JobDefinition(id=job_id, topic="orders", expression="0 0 * * * *", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("opcode", "request_", "kind"),
    [
        (Opcode.PUT_JOBS, PutJobsRequest(), InvalidArgumentError),
        (Opcode.PUT_JOBS, PutJobsRequest(jobs=[_job()] * 2001), InvalidArgumentError),
        (Opcode.PUT_JOBS, PutJobsRequest(jobs=[_job()], how=3), InvalidArgumentError),
        (
            Opcode.PUT_JOBS,
            PutJobsRequest(jobs=[_job(str(n), body=bytes(250_000)) for n in range(20)]),
            InvalidArgumentError,
        ),
        (Opcode.GET_JOBS, JobsRequest(), InvalidArgumentError),
        (Opcode.GET_JOBS, JobsRequest(ids=["x"] * 2001), InvalidArgumentError),
        (Opcode.DELETE_JOBS, JobsRequest(), InvalidArgumentError),
        (Opcode.PAUSE_JOBS, PauseJobsRequest(), InvalidArgumentError),
        (Opcode.LIST_JOBS, ListJobsRequest(), InvalidArgumentError),
        (Opcode.LIST_JOBS, ListJobsRequest(most=100_000), InvalidArgumentError),
        (Opcode.TRIGGER_JOB, TriggerJobRequest(id="j", trigger_id="A B"), InvalidArgumentError),
        (Opcode.TRIGGER_JOB, TriggerJobRequest(id="j", trigger_id="x" * 15), InvalidArgumentError),
        (Opcode.TRIGGER_JOB, TriggerJobRequest(id="none", trigger_id="x"), JobNotFoundError),
        (Opcode.BACKFILL_JOB, BackfillJobRequest(id="j", since=5, until=5), InvalidArgumentError),
        (Opcode.BACKFILL_JOB, BackfillJobRequest(id="j", since=-5, until=5), InvalidArgumentError),
        (Opcode.JOB_HISTORY, JobHistoryRequest(id="j"), InvalidArgumentError),
        (Opcode.JOB_HISTORY, JobHistoryRequest(id="j", most=101), InvalidArgumentError),
    ],
)
@on_loop
async def test_invalid_requests_are_refused(
    tmp_path: Path, opcode: int, request_: Message, kind: type[LiteMQError]
) -> None:
    async with running_broker("memory", tmp_path) as broker:
        ann = Asking(broker)
        await ann.create()
        await ann.channel.ask(Opcode.PUT_JOBS, PutJobsRequest(jobs=[_job()]).SerializeToString())
        with pytest.raises(kind):
            await ann.channel.ask(opcode, request_.SerializeToString())


@on_loop
async def test_a_repeated_request_is_applied_once(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.step_wall(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() - clock.wall_ms() / 1000)
    async with running_broker("disk", tmp_path, clock=clock) as broker:
        ann = Asking(broker)
        await ann.create()

        async def ask(opcode: int, request: Message) -> bytes:
            return (await ann.channel.ask(opcode, request.SerializeToString())).header

        for done in ("created", "unchanged"):
            answer = PutJobsAnswer.FromString(await ask(Opcode.PUT_JOBS, PutJobsRequest(jobs=[_job()])))
            assert [outcome.done for outcome in answer.outcomes] == [done]
        trigger = TriggerJobRequest(id="j", trigger_id="t1")
        ids = [TriggerJobAnswer.FromString(await ask(Opcode.TRIGGER_JOB, trigger)).message_id for _ in range(2)]
        assert ids == ["j@t1", "j@t1"]
        (facts,) = JobsAnswer.FromString(await ask(Opcode.GET_JOBS, JobsRequest(ids=["j", "none"]))).jobs
        assert facts.sent == 1
        # Ten days of hours are more than one answer tells of.
        until = clock.wall_ms()
        request = BackfillJobRequest(id="j", since=until - 240 * 3_600_000, until=until + 3_600_000)
        sent = []
        while request.since:
            part = BackfillJobAnswer.FromString(await ask(Opcode.BACKFILL_JOB, request))
            sent.append((part.sent, part.there))
            request.since = part.next_since
        assert sent == [(200, 0), (41, 0)]  # to the tick that is just over; what is to come is the schedule's


@on_loop
async def test_pages_are_in_the_order_of_creation(tmp_path: Path) -> None:
    async with running_broker("memory", tmp_path) as broker:
        ann = Asking(broker)
        await ann.create()
        await ann.channel.ask(
            Opcode.PUT_JOBS, PutJobsRequest(jobs=[_job(f"j{n}") for n in (3, 1, 2)]).SerializeToString()
        )
        await ann.channel.ask(Opcode.DELETE_JOBS, JobsRequest(ids=["j1"]).SerializeToString())
        found, after, is_end = [], -1, False
        while not is_end:
            request = ListJobsRequest(after=after, most=1)
            answer = JobsAnswer.FromString(
                (await ann.channel.ask(Opcode.LIST_JOBS, request.SerializeToString())).header
            )
            found += [job.definition.id for job in answer.jobs]
            after, is_end = answer.next_after, answer.is_end
            assert answer.count == 2
        assert found == ["j3", "j2"]
