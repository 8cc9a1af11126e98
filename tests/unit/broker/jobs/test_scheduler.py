"""The job scheduler: each tick once; rules for missed ticks and for overlapping runs."""

import logging
from pathlib import Path
from typing import Any

import pytest

from litemq.broker.jobs.changes import PutHow
from litemq.broker.jobs.job import tick_id, tick_record
from litemq.clock import FakeClock
from litemq.errors import (
    DiskFullError,
    InvalidArgumentError,
    JobExistsError,
    JobNotFoundError,
    OverloadedError,
    TopicNotFoundError,
)
from litemq.proto.control_pb2 import Control, TryFailed
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.types import CatchUp, Overlap, RecordKind
from support.jobs import JobBench
from support.on_loop import on_loop
from support.waiting import eventually

MINUTE, HOUR, DAY = 60, 3600, 86_400
START = 1_800_000_000_000 // 60_000 * 60_000  # a whole minute


def _clock(ms: int = START) -> FakeClock:
    clock = FakeClock()
    clock.step_wall((ms - clock.wall_ms()) / 1000)
    return clock


@pytest.fixture(params=["memory", "disk"])
def directory(request: Any, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "disk" else None


@on_loop
async def test_a_tick_is_a_message_with_its_job_as_origin(directory: Path | None) -> None:
    clock = _clock()
    bench = JobBench(clock, directory)
    assert (await bench.put(tags=["t"], keys=["k"], ordering_key="o", max_retries=3, timeout_ms=5000)).done == "created"
    clock.advance(59.999)
    assert await bench.fire() == 0
    clock.advance(0.001)
    assert await bench.fire() == 1
    assert await bench.fire() == 0
    (stored,) = bench.messages()
    record, stamp, row = stored.record, stored.stamp, bench.row()
    assert stamp is not None
    assert (record.message_id, record.body, record.tags, record.keys, record.sharding_key) == (
        f"j@{START + 60_000}",
        b"x",
        ("t",),
        ("k", "j"),
        "o",
    )
    assert (record.delay_time, stamp.origin, stamp.kind) == (START + 60_000, row.number, RecordKind.MESSAGE)
    assert dict(record.properties) == {
        "litemq-job": "j",
        "litemq-tick": "2027-01-15T08:01:00.000+00:00",
        "litemq-max-retries": "3",
        "litemq-timeout-ms": "5000",
    }
    assert (row.sent, row.through, row.last_tick, row.last_at) == (
        1,
        START + 60_000,
        START + 60_000,
        stamp.store_timestamp,
    )
    assert (row.queue_id, row.queue_offset, row.log_offset) == (stamp.queue_id, 0, stamp.commitlog_offset)
    assert bench.grown == [QueueKey(bench.topic_id, stamp.queue_id)]
    bench.close()


@on_loop
async def test_a_second_message_for_a_tick_is_refused() -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put()
    clock.advance(60)
    await bench.fire()
    job, number = bench.jobs.definition(0), bench.row().number

    def placed(tick: int, number: int = number) -> Placed:
        return Placed(tick_record(job, tick, tick_id(job, tick), 0), bench.topic_id, 0, RecordKind.MESSAGE, number)

    for again in (
        [placed(START + 60_000)],
        [placed(START)],
        [placed(START + 120_000)] * 2,
        [placed(START + 120_000, number + 8)],
    ):
        with pytest.raises(InvalidArgumentError, match="was already sent or skipped"):
            bench.store.append_placed(again)
    bench.store.append_placed([placed(0), placed(0), placed(START + 120_000)])  # triggered ones are no ticks
    assert bench.row().sent == 4
    bench.close()


@on_loop
async def test_many_due_ticks_are_few_appends_and_other_work_runs_in_between() -> None:
    clock = _clock()
    bench = JobBench(clock)
    for number in range(300):
        await bench.put(f"j{number}")
    appends: list[int] = []
    append_placed = bench.store.append_placed

    def counting(placed: Any) -> Any:
        appends.append(len(placed))
        return append_placed(placed)

    bench.store.append_placed = counting  # type: ignore[method-assign]
    clock.advance(60)
    assert await bench.fire() == 300
    assert appends == [64, 64, 64, 64, 44]
    assert len(set(bench.ids())) == 300
    bench.close()


@pytest.mark.parametrize(
    ("rule", "late", "sent", "missed"),
    [
        (CatchUp.ONE, 3.5 * MINUTE, [3], 2),
        (CatchUp.ALL, 3.5 * MINUTE, [1, 2, 3], 0),
        (CatchUp.SKIP, 3.5 * MINUTE, [], 3),
        (CatchUp.SKIP, 3 * MINUTE + 5, [3], 2),  # hardly late
        (CatchUp.ONE, 2 * DAY + 30 * MINUTE + 5, [2 * 1440 + 30], 1000),  # at least 1000
        (CatchUp.ALL, 3 * HOUR, list(range(120, 181)), 119),  # the window is an hour
        (CatchUp.ONE, MINUTE, [1], 0),
    ],
)
@on_loop
async def test_missed_ticks_follow_the_catch_up_rule(rule: CatchUp, late: float, sent: list[int], missed: int) -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put(catch_up=rule, catch_up_window_ms=HOUR * 1000)
    clock.advance(late)
    await bench.fire()
    assert bench.ids() == [f"j@{START + number * 60_000}" for number in sent]
    row = bench.row()
    assert (row.sent, row.missed, row.through) == (len(sent), missed, START + int(late // 60) * 60_000)
    clock.advance(60 - late % 60)
    assert await bench.fire() == 1
    bench.close()


@on_loop
async def test_ticks_before_the_catch_up_window_are_missed() -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put(expression="0 0 0 * * *", catch_up_window_ms=60_000)
    clock.advance(2 * DAY)
    assert (await bench.fire(), bench.row().missed) == (0, 2)
    bench.close()


@on_loop
async def test_a_running_job_skips_the_next_tick(directory: Path | None) -> None:
    clock = _clock()
    bench = JobBench(clock, directory)
    await bench.put(group="g", overlap=Overlap.SKIP)
    for _ in range(3):
        clock.advance(60)
        await bench.fire()
    assert (bench.row().sent, bench.row().skipped) == (1, 2)
    bench.ack("other")
    clock.advance(60)
    await bench.fire()
    assert (bench.row().sent, bench.row().skipped) == (1, 3)
    bench.ack()
    clock.advance(60)
    await bench.fire()
    assert (bench.row().sent, bench.row().skipped) == (2, 3)
    bench.close()


@on_loop
async def test_a_run_with_a_waiting_retry_is_not_over() -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put(group="g", overlap=Overlap.SKIP, ordering_key="o")
    clock.advance(60)
    await bench.fire()
    row = bench.row()
    retries = bench.store.system_topic("%RETRY%g")
    failed = TryFailed(
        group="g",
        topic_id=row.topic_id,
        queue_id=row.queue_id,
        queue_offset=row.queue_offset,
        predecessor=row.log_offset,
        due=1,
        count=1,
        retry_topic_id=retries.topic_id,
    )
    bench.store.append_control(Control(try_failed=failed))
    clock.advance(60)
    await bench.fire()
    assert bench.row().skipped == 1  # it waits for its next try
    bench.store.append_placed(
        [Placed(bench.store.read_raw(row.log_offset), retries.topic_id, 16, RecordKind.RETRY, row.log_offset, 1)]
    )
    row = bench.row()
    assert (row.topic_id, row.queue_id, row.queue_offset) == (retries.topic_id, 16, 0)
    clock.advance(60)
    await bench.fire()
    assert bench.row().skipped == 2  # it is tried
    bench.store.commit_offsets("g", [(QueueKey(retries.topic_id, 16), 1)])
    clock.advance(60)
    await bench.fire()
    assert (bench.row().skipped, bench.row().sent) == (2, 2)
    bench.close()


@on_loop
async def test_one_tick_waits_for_the_run_before(directory: Path | None) -> None:
    clock = _clock()
    bench = JobBench(clock, directory)
    await bench.put(group="g", overlap=Overlap.QUEUE_ONE)
    for _ in range(4):
        clock.advance(60)
        await bench.fire()
    row = bench.row()
    assert (row.sent, row.skipped, row.queued) == (1, 2, START + 120_000)
    bench.ack()
    clock.advance(1)
    assert await bench.fire() == 1
    assert bench.ids()[-1] == f"j@{START + 120_000}"
    assert bench.row().queued == 0
    clock.advance(60)
    await bench.fire()
    assert bench.row().queued == START + 300_000
    bench.close()


@on_loop
async def test_jitter_depends_on_the_job_id() -> None:
    clock = _clock()
    bench = JobBench(clock)
    ids = [f"job-{number}" for number in range(40)]
    for job_id in ids:
        await bench.put(job_id, jitter_ms=30_000)
    at: dict[str, list[int]] = {}
    seen = 0
    for second in range(1, 151):
        clock.advance(1)
        await bench.fire()
        found = bench.ids()
        for message_id in found[seen:]:
            at.setdefault(message_id.split("@")[0], []).append(second)
        seen = len(found)
    assert set(at) == set(ids)
    assert all(
        len(seconds) == 2 and seconds[1] - seconds[0] == 60 and 60 <= seconds[0] <= 91 for seconds in at.values()
    )
    assert len({seconds[0] for seconds in at.values()}) > 10
    bench.close()


@on_loop
async def test_start_at_and_end_at_bound_the_ticks() -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put(start_at=START + 120_000, end_at=START + 240_000)
    for _ in range(8):
        clock.advance(60)
        await bench.fire()
    assert bench.ids() == [f"j@{START + minutes * 60_000}" for minutes in (2, 3, 4)]
    bench.close()


@on_loop
async def test_paused_ticks_are_counted_and_not_sent() -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put()
    assert bench.changes.pause(["j", "none"], paused=True)[0].done == "changed"
    clock.advance(300)
    assert await bench.fire() == 0
    assert bench.changes.pause(["j"], paused=True)[0].done == "unchanged"
    bench.changes.pause(["j"], paused=False)
    assert await bench.fire() == 0
    clock.advance(60)
    assert await bench.fire() == 1
    assert (bench.row().skipped, bench.row().missed) == (5, 0)
    bench.close()


@on_loop
async def test_creating_changing_and_deleting() -> None:
    clock = _clock()
    bench = JobBench(clock, max_jobs=2)
    assert (await bench.put()).done == "created"
    number = bench.row().number
    assert (await bench.put()).done == "unchanged"  # asked for again
    assert (await bench.put(body=b"y")).code == JobExistsError.code
    assert (await bench.put(body=b"y", how=PutHow.CHANGE)).done == "changed"
    assert (await bench.put("k", how=PutHow.CHANGE)).code == JobNotFoundError.code
    assert (await bench.put("k", how=PutHow.EITHER)).done == "created"
    assert (await bench.put("l")).code == OverloadedError.code
    assert (await bench.put("m", topic="nope")).code == TopicNotFoundError.code
    assert (await bench.put("m", queue_id=2)).code == InvalidArgumentError.code
    assert (await bench.put("m", priority=3)).code == InvalidArgumentError.code
    bench.changes.pause(["j"], paused=True)
    assert (await bench.put(body=b"z", how=PutHow.EITHER)).done == "changed"
    assert bench.jobs.definition(0).paused  # putting a job again does not resume it
    bench.changes.pause(["j"], paused=False)
    clock.advance(90)
    before = bench.row().through
    await bench.put(expression="30 * * * * *", how=PutHow.CHANGE)
    row = bench.row()
    assert (row.number, row.through > before, row.skipped) == (number, True, 1)  # the tick of the old schedule
    clock.advance(60)
    await bench.fire()
    assert [each for each in bench.ids() if each.startswith("j@")] == [f"j@{START + 150_000}"]
    assert [outcome.done or outcome.code for outcome in bench.changes.delete(["j", "j", "q"])] == [
        "deleted",
        JobNotFoundError.code,
    ]
    clock.advance(600)
    assert await bench.fire() == 1  # the other one
    assert (await bench.put()).done == "created"
    assert bench.row().number > number
    bench.close()


@on_loop
async def test_the_total_size_of_jobs_is_bounded() -> None:
    bench = JobBench(_clock(), max_bytes=500)
    assert (await bench.put(body=bytes(600))).done == "created"
    assert (await bench.put("k")).code == OverloadedError.code
    bench.changes.delete(["j"])
    assert (await bench.put("k")).done == "created"
    bench.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"expression": ""},
        {"every_ms": 999},
        {"expression": "0 0 0 30 2 *"},
        {"expression": "@every 5m", "every_ms": 9000},
        {"timezone": "Mars/Olympus"},
        {"overlap": 1},
        {"overlap": 7, "group": "g"},
        {"catch_up": 9},
        {"jitter_ms": -1},
        {"catch_up_window_ms": 1 << 50},
        {"max_retries": 1 << 20},
        {"start_at": 2000, "end_at": 1000},
        {"start_at": 1 << 60},
        {"group": "%x"},
        {"topic": "a/b"},
        {"body": bytes(300_000)},
        {"keys": ["k"] * 64},
        {"tags": ["t" * 300]},
        {"properties": [{"name": "litemq-x", "value": "y"}]},
        {"properties": [{"name": "a", "value": "y" * 40_000}]},
    ],
)
@on_loop
async def test_invalid_jobs_are_refused(fields: dict[str, Any]) -> None:
    bench = JobBench(_clock())
    outcome = await bench.put(**fields)
    assert (outcome.done, bool(outcome.problem)) == ("", True)
    assert len(bench.jobs) == 0
    for job_id in ("", "a b", "j" * 49, "%x"):
        assert (await bench.put(job_id)).code == InvalidArgumentError.code
    bench.close()


@on_loop
async def test_ticks_for_a_deleted_topic_are_missed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put(every_ms=60_000)
    bench.store.delete_topic("reports")
    clock.advance(60)
    with caplog.at_level(logging.WARNING):
        assert await bench.fire() == 0
    assert "topic 'reports' does not exist" in caplog.text
    assert bench.row().missed == 1
    bench.store.create_topic("reports", 2)
    clock.advance(60)
    assert await bench.fire() == 1
    bench.close()


@on_loop
async def test_the_scheduler_rests_until_the_next_tick() -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put(expression="0 0 * * *")
    for _ in range(3):
        bench.alarms.ring_due()
        await eventually(lambda: bench.scheduler._task.task is None)
        assert bench.alarms.ring_due() == 0  # nothing is left to do at this moment
        clock.advance(60)
    bench.close()


@on_loop
async def test_a_failed_run_of_the_scheduler_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    clock = _clock()
    bench = JobBench(clock)
    await bench.put()
    append_placed, full = bench.store.append_placed, True

    def refusing(placed: Any) -> Any:
        if full:
            raise DiskFullError("no space")
        return append_placed(placed)

    bench.store.append_placed = refusing  # type: ignore[method-assign]
    clock.advance(60)
    with pytest.raises(DiskFullError):
        await bench.fire()
    full = False
    assert await bench.fire() == 1
    bench.close()


@on_loop
async def test_the_scheduler_continues_after_a_restart(tmp_path: Path) -> None:
    clock = _clock()
    bench = JobBench(clock, tmp_path)
    await bench.put(catch_up=CatchUp.ALL)
    await bench.put("paused", paused=True)
    await bench.put("gone")
    bench.changes.delete(["gone"])
    clock.advance(60)
    await bench.fire()
    rows = [row.SerializeToString(deterministic=True) for row in bench.jobs.rows()]
    bench.close()
    for stop in ("clean", "crash", "without state.db"):
        bench = JobBench(clock, tmp_path)
        assert [row.SerializeToString(deterministic=True) for row in bench.jobs.rows()] == rows
        clock.advance(120)
        assert await bench.fire() == 2
        bench.store.wait_confirmed(bench.store.log_end)
        rows = [row.SerializeToString(deterministic=True) for row in bench.jobs.rows()]
        bench.stop()
        if stop == "clean":
            bench.store.close()
        else:
            bench.store.abandon()  # type: ignore[union-attr]
        if stop == "crash":
            (tmp_path / "state.db").unlink()
    bench = JobBench(clock, tmp_path)
    assert bench.ids() == [f"j@{START + minutes * 60_000}" for minutes in range(1, 8)]
    bench.close()
