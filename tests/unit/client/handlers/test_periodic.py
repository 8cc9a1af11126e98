"""``@mq.periodic``: a task whose calls a job sends, and the run limits of a job."""

import asyncio
from typing import Any

import pytest

import litemq
from litemq.client.handlers.periodic import default_job_id
from litemq.errors import InvalidArgumentError
from support.on_loop import on_loop


@on_loop
async def test_a_worker_creates_the_job_and_calls_the_function() -> None:
    async with litemq.AsyncClient("memory://periodic") as mq:
        called = asyncio.Event()

        @mq.periodic(every=1, job_id="tidy", overlap="skip", max_retries=2)
        async def tidy_up() -> None:
            called.set()

        assert tidy_up.topic.endswith("test_periodic.tidy_up")
        running = asyncio.create_task(mq.run())
        await called.wait()
        job = await mq.jobs.get("tidy")
        assert (job.schedule, job.topic, job.group_id, job.overlap) == ("@every 1s", tidy_up.topic, "workers", "skip")
        await mq.jobs.pause("tidy")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        again = asyncio.create_task(mq.run())
        called.clear()
        await tidy_up.send()  # it is a task like others
        await called.wait()
        assert (await mq.jobs.get("tidy")).is_paused  # a manual pause outlives a restart
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)


def test_what_cannot_be_periodic() -> None:
    mq = litemq.Client("memory://")
    with pytest.raises(InvalidArgumentError, match="either cron= or every="):

        @mq.periodic()
        def never() -> None: ...

    with pytest.raises(InvalidArgumentError, match="without arguments"):

        @mq.periodic(every=5)  # type: ignore[arg-type]
        def wants(_more: int) -> None: ...

    with pytest.raises(InvalidArgumentError, match="is a coroutine"):

        @mq.periodic(every=5)
        async def later() -> None: ...

    @mq.periodic(cron="0 0 * * * *", timezone="Asia/Shanghai")
    def hourly() -> str:
        return "here"

    assert hourly() == "here"
    assert [subscription.topic for subscription in mq.subscriptions] == [hourly.topic]


def test_ids_of_long_names_are_short_and_differ() -> None:
    assert default_job_id("tasks-shop.tidy") == "shop.tidy"
    first, second = (default_job_id(f"tasks-{name * 30}.function_of_a_very_long_name") for name in ("a.b", "a.c"))
    assert (len(first), len(second), first == second) == (48, 48, False)


@on_loop
async def test_runs_are_bounded_as_their_job_says() -> None:
    async with litemq.AsyncClient("memory://limits") as mq:
        tries: list[int] = []

        @mq.subscriber("slow", group_id="g", mode="lease", min_backoff=0, jitter=0)
        async def slow(message: litemq.Message) -> None:
            tries.append(message.attempt)
            await asyncio.sleep(3600)

        await mq.jobs.create("slow", b"x", job_id="j", cron="0 0 0 1 1 *", group_id="g", timeout=0.05, max_retries=1)
        running = asyncio.create_task(mq.run())
        await mq.jobs.trigger("j")
        dead_letters: list[Any] = []
        while not dead_letters:
            await asyncio.sleep(0.02)
            dead_letters = await mq.dead_letters("slow").select()
        assert (tries, dead_letters[0].tries, dead_letters[0].detail) == ([1, 2], 2, "timeout")
        assert "0.05 s" in dead_letters[0].error
        assert [run.state for run in await mq.jobs.history("j")] == ["failed"]
        assert (await mq.jobs.get("j")).failed == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
