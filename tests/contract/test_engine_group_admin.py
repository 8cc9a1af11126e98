"""Group administration: exact lag, offset resets with plan and undo, pause, delete."""

import asyncio
from datetime import UTC, datetime

import pytest

from litemq import AsyncClient, OutgoingMessage
from litemq.errors import GroupBusyError, GroupNotFoundError, InvalidArgumentError, OffsetOutOfRangeError
from support.engines import Engine
from support.waiting import HANG_S, eventually

capability = pytest.mark.capability


async def send(mq: AsyncClient, topic: str, count: int, first: int = 0) -> None:
    """Messages "0", "1", … in one queue."""
    await mq.send_batch(
        topic, [OutgoingMessage(b"%d" % number, ordering_key="k") for number in range(first, first + count)]
    )


async def take(mq: AsyncClient, topic: str, count: int) -> list[int]:
    """Receive and acknowledge the next ``count`` messages of the group."""
    seen: list[int] = []
    async with asyncio.timeout(HANG_S), mq.consumer(topic, group_id=topic) as consumer:
        async for message in consumer:
            seen.append(int(message.body))
            await message.ack()
            if len(seen) == count:
                break
    return seen


@capability("`admin.groups` and `describe_group`: exact lag, assignments, age of the oldest message")
async def test_describe(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=2)
        with pytest.raises(GroupNotFoundError, match="does not exist"):
            await mq.admin.describe_group(topic)
        began = datetime.now(UTC)
        await send(mq, topic, 10)
        assert await take(mq, topic, 4) == [0, 1, 2, 3]
        before = await mq.admin.describe_group(topic)
        assert (before.lag, before.members, before.paused) == (6, (), False)
        (busy,) = [queue for queue in before.queues if queue.next]
        assert (busy.committed, busy.lag, busy.in_flight, busy.ready, busy.member) == (4, 6, 0, 6, "")
        assert began.timestamp() - 1 < busy.oldest / 1000 < datetime.now(UTC).timestamp() + 1
        async with mq.consumer(topic, group_id=topic) as consumer:
            await anext(consumer)
            fact = await mq.admin.describe_group(topic)
            assert sum(member.queues for member in fact.members) == len(
                {queue.key for queue in consumer._queues.values()}
            )
            assert {queue.member for queue in fact.queues} == {fact.members[0].member}
            (summary,) = [group for group in await mq.admin.groups() if group.group == topic]
            assert (summary.members, summary.lag, summary.topics, summary.paused) == (1, 6, (topic,), False)


@capability("Offset reset with a plan: earliest, latest, a time, an offset or a shift; each reset can be undone")
async def test_reset_and_undo(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await send(mq, topic, 5)
        await asyncio.sleep(0.02)
        between = datetime.now(UTC)
        await asyncio.sleep(0.02)
        await send(mq, topic, 5, first=5)
        assert await take(mq, topic, 8) == list(range(8))

        async def planned(**target: object) -> int:
            (step,) = (await mq.admin.plan_reset(topic, topic, **target)).steps  # type: ignore[arg-type]
            assert step.before == 8
            return step.after

        assert await planned(to="earliest") == 0
        assert await planned(to="latest") == 10
        assert await planned(time=between) == 5
        assert await planned(offset=3) == 3
        assert await planned(offset=99) == 10
        assert await planned(shift=-2) == 6
        for wrong in ({}, {"to": "earliest", "offset": 1}, {"to": "middle"}, {"offset": "1"}):
            with pytest.raises(InvalidArgumentError):
                await planned(**wrong)
        plan = await mq.admin.plan_reset(topic, topic, time=between)
        assert plan.messages == 3
        done = await mq.admin.reset(plan)
        assert done.reset_id
        assert await take(mq, topic, 5) == [5, 6, 7, 8, 9]
        undone = await mq.admin.plan_undo(topic, topic)
        assert [(step.before, step.after) for step in undone.steps] == [(10, 8)]
        undone = await mq.admin.undo_reset(topic, topic)
        assert await take(mq, topic, 2) == [8, 9]
        with pytest.raises(InvalidArgumentError, match="no reset"):
            await mq.admin.undo_reset(topic, topic)
        with pytest.raises(InvalidArgumentError, match="has already been undone: to redo it, undo reset"):
            await mq.admin.undo_reset(topic, topic, reset_id=done.reset_id)
        await mq.admin.undo_reset(topic, topic, reset_id=undone.reset_id)  # the undoing, too
        fact = await mq.admin.describe_group(topic)
        assert [(reset.reset_id, reset.undoes) for reset in fact.resets][:2] == [
            (done.reset_id, ""),
            (undone.reset_id, done.reset_id),
        ]


@capability("Undoing the reset of a group without offsets removes its offsets")
async def test_undo_to_nothing(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await send(mq, topic, 3)
        await mq.admin.reset(await mq.admin.plan_reset(topic, topic, offset=2))
        assert (await mq.admin.describe_group(topic)).lag == 1
        await mq.admin.undo_reset(topic, topic)
        with pytest.raises(OffsetOutOfRangeError):
            await anext(mq.consumer(topic, group_id=topic, auto_offset_reset="error"))


@capability(
    "A reset with connected consumers raises `GroupBusyError`; forced, consumers restart from the new offsets, and "
    "late commits are ignored"
)
async def test_a_reset_of_an_active_group(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as operator:
        await mq.admin.create_topic(topic, queues=1)
        await send(mq, topic, 6)
        seen: list[int] = []
        consumer = mq.consumer(topic, group_id=topic)

        async def consume() -> None:
            async for message in consumer:
                seen.append(int(message.body))
                await message.ack()

        consuming = asyncio.ensure_future(consume())
        await eventually(lambda: len(seen) == 6)
        plan = await operator.admin.plan_reset(topic, topic, offset=2)
        assert plan.members == 1
        with pytest.raises(GroupBusyError, match="force"):
            await operator.admin.reset(plan)
        assert len(seen) == 6
        await operator.admin.reset(plan, force=True)
        await eventually(lambda: len(seen) == 10)
        assert seen[6:] == [2, 3, 4, 5]
        await send(mq, topic, 2, first=6)
        await eventually(lambda: seen[10:] == [6, 7])
        with pytest.raises(GroupBusyError):
            await operator.admin.undo_reset(topic, topic)
        with pytest.raises(GroupBusyError):
            await operator.admin.delete_group(topic)
        await consumer.close()
        await consuming
        assert (await operator.admin.describe_group(topic)).lag == 0


@capability("A paused group receives nothing; a resumed group continues immediately")
async def test_pause(engine: Engine, topic: str) -> None:
    async with engine.client(fetch_wait_ms=60_000) as mq, engine.client() as operator:
        await mq.admin.create_topic(topic, queues=1)
        await send(mq, topic, 2)
        with pytest.raises(GroupNotFoundError, match="does not exist"):
            await operator.admin.pause_group(topic)
        seen: list[int] = []
        consumer = mq.consumer(topic, group_id=topic)

        async def consume() -> None:
            async for message in consumer:
                seen.append(int(message.body))
                await message.ack()

        consuming = asyncio.ensure_future(consume())
        await eventually(lambda: len(seen) == 2)
        async with asyncio.timeout(
            HANG_S
        ):  # for three times: pulls that were not answered at once would take a minute each
            for first in (2, 4, 6):
                await operator.admin.pause_group(topic)
                await operator.admin.pause_group(topic)
                assert (await operator.admin.describe_group(topic)).paused
                await send(mq, topic, 2, first=first)
                await asyncio.sleep(0.1)
                assert seen == list(range(first))
                await operator.admin.resume_group(topic)
                await eventually(lambda first=first: seen == list(range(first + 2)))  # type: ignore[misc]
        await consumer.close()
        await consuming


@capability("A deleted group leaves no state")
async def test_delete(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await send(mq, topic, 3)
        assert await take(mq, topic, 3) == [0, 1, 2]
        await mq.admin.delete_group(topic)
        assert topic not in {group.group for group in await mq.admin.groups()}
        with pytest.raises(GroupNotFoundError, match="does not exist"):
            await mq.admin.delete_group(topic)
        assert await take(mq, topic, 3) == [0, 1, 2]
