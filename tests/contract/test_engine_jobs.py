"""Jobs: one message per tick; listed, changed, paused, triggered, backfilled, imported."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from litemq.errors import CronSyntaxError, InvalidArgumentError, JobExistsError, JobNotFoundError
from support.engines import Engine, read_all, read_until
from support.waiting import HANG_S

capability = pytest.mark.capability

NEVER_SOON = "0 0 0 1 1 *"


@capability("`jobs`: one message per tick, exactly once")
async def test_a_job_sends_at_its_times(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        before = datetime.now(UTC)
        job = await mq.jobs.create(
            topic, {"n": 1}, job_id=topic, cron="* * * * * *", tags="t", keys="k", properties={"p": "v"}
        )
        assert (job.job_id, job.topic, job.schedule, job.timezone, job.is_paused) == (
            topic,
            topic,
            "* * * * * *",
            "UTC",
            False,
        )
        assert job.next_run is not None
        assert before < job.next_run < datetime.now(UTC) + timedelta(seconds=2)
        first, second = (await read_until(mq, topic, 2))[:2]
        await mq.jobs.delete(topic)
        for message in (first, second):
            tick = datetime.fromisoformat(message.properties["litemq-tick"])
            assert message.message_id == f"{topic}@{int(tick.timestamp() * 1000)}"
            assert tick.microsecond == 0
            assert message.store_timestamp >= tick.timestamp() * 1000
            assert (message.value, message.tags, message.keys, message.properties["p"]) == (
                {"n": 1},
                ("t",),
                ("k", topic),
                "v",
            )
        assert second.properties["litemq-tick"] > first.properties["litemq-tick"]
        with pytest.raises(JobNotFoundError, match=topic):
            await mq.jobs.get(topic)


@capability("`jobs`: create, change, pause, list, delete")
async def test_job_administration(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=2)
        job = await mq.jobs.create(
            topic,
            b"x",
            job_id=f"{topic}-a",
            cron=NEVER_SOON,
            timezone="Asia/Shanghai",
            group_id="g",
            overlap="skip",
            catch_up="all",
        )
        assert (job.timezone, job.group_id, job.overlap, job.catch_up) == ("Asia/Shanghai", "g", "skip", "all")
        assert (job.is_running, job.sent) == (False, 0)
        with pytest.raises(JobExistsError, match="another id"):
            await mq.jobs.create(topic, b"other", job_id=f"{topic}-a", cron=NEVER_SOON)
        made = await mq.jobs.create(topic, every=3600)
        assert made.job_id.startswith("job-")
        changed = await mq.jobs.update(f"{topic}-a", cron="30 4 * * *", body="text")
        assert (changed.schedule, changed.body, changed.timezone, changed.properties["content-type"]) == (
            "30 4 * * *",
            b"text",
            "Asia/Shanghai",
            "text/plain",
        )
        await mq.jobs.pause(f"{topic}-a")
        assert [job.job_id for job in await mq.jobs.list(topic=topic, paused=True)] == [f"{topic}-a"]
        paused = await mq.jobs.get(f"{topic}-a")
        assert (paused.is_paused, paused.next_run) == (True, None)
        await mq.jobs.resume(f"{topic}-a")
        assert len(await mq.jobs.list(topic=topic)) == 2
        assert [job.job_id for job in await mq.jobs.list(prefix=f"{topic}-")] == [f"{topic}-a"]
        assert await mq.jobs.count() >= 2
        for job_id in (f"{topic}-a", made.job_id):
            await mq.jobs.delete(job_id)
        assert await mq.jobs.list(topic=topic) == []


async def test_invalid_jobs_are_refused(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic)
        with pytest.raises(CronSyntaxError, match="never matches"):
            await mq.jobs.create(topic, cron="0 0 30 2 *")
        with pytest.raises(CronSyntaxError, match="timezone"):
            await mq.jobs.create(topic, cron="* * * * *", timezone="Here/There")
        with pytest.raises(InvalidArgumentError, match="either an expression or"):
            await mq.jobs.create(topic)
        with pytest.raises(InvalidArgumentError, match="choose one"):
            await mq.jobs.create(topic, cron="* * * * *", every=5)
        with pytest.raises(InvalidArgumentError, match="group_id"):
            await mq.jobs.create(topic, every=5, overlap="skip")
        with pytest.raises(InvalidArgumentError, match="overlap='maybe'"):
            await mq.jobs.create(topic, every=5, overlap="maybe")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="no such option"):
            await mq.jobs.create(topic, evry=5)  # type: ignore[call-arg]
        with pytest.raises(InvalidArgumentError, match="no time zone"):
            await mq.jobs.create(topic, every=5, start_at=datetime(2030, 1, 1))  # noqa: DTZ001
        for call in (mq.jobs.get, mq.jobs.pause, mq.jobs.resume, mq.jobs.trigger, mq.jobs.delete, mq.jobs.history):
            with pytest.raises(JobNotFoundError):
                await call("nobody")


@capability("`jobs.trigger`, `backfill`, `history`")
async def test_trigger_backfill_and_history(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        since = until - timedelta(hours=3)
        hours = ",".join(
            str((since + timedelta(hours=hour)).hour) for hour in range(3)
        )  # and not again for most of a day
        await mq.jobs.create(topic, b"x", job_id=topic, cron=f"0 0 {hours} * * *", group_id="g")
        triggered = await mq.jobs.trigger(topic)
        assert await mq.jobs.backfill(topic, since, until, dry_run=True) == (3, 0)
        assert await mq.jobs.backfill(topic, since, until) == (3, 0)
        assert await mq.jobs.backfill(topic, since, until) == (0, 3)
        assert [message.message_id for message in await read_all(mq, topic)] == [
            triggered,
            *(f"{topic}@{int((since + timedelta(hours=hour)).timestamp() * 1000)}" for hour in range(3)),
        ]
        for message in await mq.receive(topic, group_id="g", max_messages=2, wait=HANG_S):
            await message.ack()
        runs = await mq.jobs.history(topic)
        assert [(run.tick, run.state) for run in runs] == [
            (since + timedelta(hours=2), "sent"),
            (since + timedelta(hours=1), "sent"),
            (since, "done"),
            (None, "done"),
        ]
        job = await mq.jobs.get(topic)
        assert (job.sent, job.is_running, job.last_run) == (4, True, None)
        (failing,) = await mq.receive(topic, group_id="g", max_messages=1, wait=HANG_S)
        await failing.reject(reason="no use")
        assert [run.state for run in await mq.jobs.history(topic)] == ["sent", "failed", "done", "done"]
        assert (await mq.jobs.get(topic)).failed == 1


@capability("`jobs.import_`: bulk import with a report of invalid jobs")
async def test_importing(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic)
        jobs: list[dict[str, object]] = [
            {
                "job_id": f"{topic}-{number}",
                "topic": topic,
                "cron": f"{number % 60} {number % 24} * * *",
                "body": {"n": number},
            }
            for number in range(1200)
        ]
        jobs[7] = {"job_id": "bad", "topic": topic, "cron": "x"}
        jobs[8] = {"job_id": "bad", "topic": topic, "every": 5, "start_at": "never"}
        assert (await mq.jobs.import_(jobs, dry_run=True))[:3] == (1198, 0, 0)
        assert await mq.jobs.list(topic=topic) == []
        result = await mq.jobs.import_(jobs)
        assert result[:3] == (1198, 0, 0)
        assert [(refused.number, refused.job_id) for refused in result.refused] == [(8, "bad"), (9, "bad")]
        jobs[3]["body"] = "other"
        assert (await mq.jobs.import_(jobs))[:3] == (0, 1, 1197)
        assert len(await mq.jobs.list(topic=topic, most=10_000)) == 1198
        assert (await mq.jobs.get(f"{topic}-3")).body == b"other"


@capability("`jobs(overlap=…)`: one run at a time")
async def test_a_run_ends_with_its_acknowledgement(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await mq.jobs.create(topic, b"x", job_id=topic, every=1, group_id="g", overlap="skip")
        (first,) = await mq.receive(topic, group_id="g", max_messages=1, wait=HANG_S, lease=600)
        async with asyncio.timeout(HANG_S):
            while not (await mq.jobs.get(topic)).skipped:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (await mq.jobs.get(topic)).is_running
        await first.ack()
        (second,) = await mq.receive(topic, group_id="g", max_messages=1, wait=HANG_S, lease=600)
        await mq.jobs.pause(topic)
        await second.ack()
        job = await mq.jobs.get(topic)
        assert (job.sent, job.is_running) == (2, False)
        await mq.jobs.delete(topic)


def test_jobs_of_the_synchronous_client(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        mq.admin.create_topic(topic)
        assert mq.jobs.create(topic, b"x", job_id=topic, every=3600).schedule == "@every 3600s"
        assert mq.jobs.trigger(topic).startswith(f"{topic}@t")
        assert [run.state for run in mq.jobs.history(topic)] == ["sent"]
        mq.jobs.delete(topic)
