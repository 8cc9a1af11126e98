"""Catching up after a broker was down for two days: by each job's rule, in small appends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from litemq.clock import FakeClock
from litemq.types import CatchUp, Overlap
from support.jobs import JobBench
from support.on_loop import on_loop

MINUTE, HOUR, DAY = 60, 3600, 86_400
START = 1_800_000_000_000 // 60_000 * 60_000  # a whole minute
DOWN_MINUTES = 2 * DAY // MINUTE


async def _down_for_two_days(directory: Path, **jobs: dict[str, Any]) -> JobBench:
    """Create jobs, stop the broker for two days and half a minute, and return the next one."""
    clock = FakeClock(START)
    bench = JobBench(clock, directory)
    for job_id, fields in jobs.items():
        assert (await bench.put(job_id, **fields)).done == "created"
    bench.close()
    clock.advance(2 * DAY + 30)
    return JobBench(clock, directory)


def _ticks(bench: JobBench, job_id: str) -> list[int]:
    """Return the ticks that a job has sent, in the order of the log, in minutes since the start."""
    ids = [each.split("@") for each in bench.ids()]
    return [(int(tick) - START) // 60_000 for name, tick in ids if name == job_id]


@on_loop
async def test_each_rule_after_two_days(tmp_path: Path) -> None:
    everything = 3 * DAY * 1000
    bench = await _down_for_two_days(
        tmp_path,
        one={"catch_up": CatchUp.ONE},
        skip={"catch_up": CatchUp.SKIP},
        day={"catch_up": CatchUp.ALL},  # the default window
        hour={"catch_up": CatchUp.ALL, "catch_up_window_ms": HOUR * 1000},
        whole={"catch_up": CatchUp.ALL, "catch_up_window_ms": everything},
        late={"catch_up": CatchUp.ONE, "catch_up_window_ms": 10_000},
    )
    await bench.fire()
    assert _ticks(bench, "one") == [DOWN_MINUTES]
    assert _ticks(bench, "skip") == _ticks(bench, "late") == []
    assert _ticks(bench, "day") == list(range(DOWN_MINUTES - DAY // MINUTE + 1, DOWN_MINUTES + 1))
    assert _ticks(bench, "hour") == list(range(DOWN_MINUTES - 59, DOWN_MINUTES + 1))
    assert _ticks(bench, "whole") == list(range(1, DOWN_MINUTES + 1))
    # Of a cron expression, at most 1,000 missed ticks are counted.
    missed = {name: bench.row(name).missed for name in ("one", "skip", "day", "hour", "whole", "late")}
    assert missed == {"one": 1000, "skip": 1000, "day": 1000, "hour": 1000, "whole": 0, "late": 1000}
    assert {bench.row(name).through for name in missed} == {START + DOWN_MINUTES * 60_000}

    clock = bench.clock
    sent = bench.ids()
    bench.close()
    bench = JobBench(clock, tmp_path)
    await bench.fire()
    assert bench.ids() == sent, "the next broker has nothing to catch up"
    assert isinstance(clock, FakeClock)
    clock.advance(30)
    await bench.fire()
    assert bench.ids()[: len(sent)] == sent
    assert len(bench.ids()) == len(sent) + 6
    bench.close()


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE])
@on_loop
async def test_a_job_that_must_not_overlap_catches_up_once(tmp_path: Path, overlap: Overlap) -> None:
    window = 3 * DAY * 1000
    bench = await _down_for_two_days(
        tmp_path, j={"catch_up": CatchUp.ALL, "catch_up_window_ms": window, "group": "g", "overlap": overlap}
    )
    await bench.fire()
    row = bench.row()
    waits = overlap is Overlap.QUEUE_ONE
    assert (row.sent, row.skipped, row.missed, bool(row.queued)) == (1, DOWN_MINUTES - 1 - waits, 0, waits)
    bench.ack()
    await bench.fire()
    assert bench.row().sent == 1 + waits
    bench.close()


@on_loop
async def test_a_crash_while_catching_up_repeats_and_loses_nothing(tmp_path: Path) -> None:
    bench = await _down_for_two_days(
        tmp_path, j={"catch_up": CatchUp.ALL, "catch_up_window_ms": 3 * DAY * 1000}, k={"catch_up": CatchUp.ONE}
    )
    crashes = 0
    while True:
        done = bench.row().sent
        catching_up = asyncio.create_task(bench.fire())
        while bench.row().sent < done + 700 and not catching_up.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        if catching_up.done():
            break
        bench.stop()
        await catching_up
        assert bench.row().sent < DOWN_MINUTES, "other work runs in between"
        if crashes % 2:
            bench.store.wait_confirmed(bench.store.log_end)
        bench.store.abandon()  # type: ignore[union-attr]
        bench = JobBench(bench.clock, tmp_path)
        crashes += 1
    assert crashes >= 2
    assert _ticks(bench, "j") == list(range(1, DOWN_MINUTES + 1))
    assert _ticks(bench, "k") == [DOWN_MINUTES]
    bench.close()


@pytest.mark.parametrize(("body", "window_s", "max_ticks"), [(10, 200, 256 + 20), (3000, 60, 349 + 20)])
@on_loop
async def test_other_work_runs_while_many_jobs_catch_up(
    tmp_path: Path, body: int, window_s: int, max_ticks: int
) -> None:
    """Every append is small in ticks and in bytes, however many jobs have however much to send."""
    fields = {
        "expression": "* * * * * *",
        "catch_up": CatchUp.ALL,
        "catch_up_window_ms": window_s * 1000,
        "body": bytes(body),
    }
    bench = await _down_for_two_days(tmp_path, **{f"j{number}": fields for number in range(20)})
    appends: list[tuple[int, int, int]] = []
    turns = 0
    append_placed = bench.store.append_placed

    def counting(placed: Any) -> Any:
        appends.append((len(placed), sum(len(each.record) for each in placed), turns))
        return append_placed(placed)

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    bench.store.append_placed = counting  # type: ignore[method-assign]
    working = asyncio.create_task(other_work())
    await bench.fire()
    working.cancel()
    for number in range(20):
        last = (2 * DAY + 30) * 1000 + START
        of_job = [int(each.split("@")[1]) for each in bench.ids() if each.split("@")[0] == f"j{number}"]
        assert of_job == list(range(last - window_s * 1000, last + 1, 1000))
    assert max(ticks for ticks, _, _ in appends) <= max_ticks
    assert max(size for _, size, _ in appends) <= (1 << 20) + 20 * (body + 500)
    assert len({turn for _, _, turn in appends}) == len(appends), "two appends without other work in between"
    bench.close()
