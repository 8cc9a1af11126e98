"""Groups of several consumers: queues are shared, and change owner without losing messages."""

import asyncio
from collections import Counter

import pytest

from litemq import AsyncClient, OutgoingMessage
from litemq.client.consuming.consumer import Consumer
from litemq.errors import InvalidArgumentError
from support.engines import Engine
from support.waiting import eventually

capability = pytest.mark.capability


class Taking:
    """A consumer that records its messages, and acknowledges all or none."""

    def __init__(self, mq: AsyncClient, topic: str, *, acks: bool = True) -> None:
        self.consumer: Consumer = mq.consumer(topic, group_id="g")
        self.seen: list[tuple[int, int]] = []
        self.acks = acks
        self._task = asyncio.ensure_future(self._take())

    async def _take(self) -> None:
        async for message in self.consumer:
            self.seen.append((message.queue_id, message.queue_offset))
            if self.acks:
                await message.ack()

    async def close(self) -> None:
        await self.consumer.close()
        await self._task


async def send(mq: AsyncClient, topic: str, count: int) -> None:
    """Send ``count`` messages to all queues."""
    await mq.send_batch(topic, [OutgoingMessage(b"%d" % number, ordering_key=str(number)) for number in range(count)])


async def positions(mq: AsyncClient, topic: str) -> set[tuple[int, int]]:
    """Return all messages of a topic by queue and offset."""
    fact = await mq.admin.describe_topic(topic)
    return {(queue.queue_id, offset) for queue in fact.queues for offset in range(queue.least, queue.next)}


@capability("The consumers of a group share its queues; each message is delivered once")
async def test_queues_are_shared(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=8)
        first, second, third = Taking(mq, topic), Taking(mq, topic), Taking(other, topic)  # two of them in one client
        await eventually(lambda: sorted(len(each.consumer.assignment) for each in (first, second, third)) == [2, 3, 3])
        await send(mq, topic, 400)
        await eventually(lambda: len(first.seen + second.seen + third.seen) >= 400)
        assert Counter(first.seen + second.seen + third.seen) == Counter(await positions(mq, topic))
        assert all(each.seen for each in (first, second, third))
        for taking in (first, second, third):
            await taking.close()


@capability(
    "A joining or leaving consumer moves queues without loss or duplicates if all fetched messages are acknowledged"
)
async def test_queues_change_hands_while_messages_come(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=6)
        takers = [Taking(mq, topic)]
        for _ in range(3):
            await send(mq, topic, 150)
            takers.append(Taking(other, topic))
            await eventually(lambda: sum(bool(each.consumer.assignment) for each in takers) == len(takers))
        await send(mq, topic, 150)
        await takers[1].close()
        await send(mq, topic, 150)
        await takers[0].close()
        await send(mq, topic, 150)
        await eventually(lambda: sum(len(each.seen) for each in takers) >= 900)
        for taking in takers:
            await taking.close()
        seen = Counter(position for taking in takers for position in taking.seen)
        assert set(seen) == await positions(mq, topic)
        assert max(seen.values()) == 1
        for taking in takers:  # each queue in order, as long as one had it
            for queue_id in range(6):
                offsets = [offset for queue, offset in taking.seen if queue == queue_id]
                assert offsets == sorted(offsets)


@capability("A queue moves to another consumer only after its fetched messages are acknowledged")
async def test_a_release_waits_for_taken_messages(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=2)
        await send(mq, topic, 40)
        consumer = mq.consumer(topic, group_id="g")
        taken = [await anext(consumer)]
        while taken[-1].queue_id == taken[0].queue_id:
            taken.append(await anext(consumer))
        second = Taking(other, topic)
        await asyncio.sleep(0.3)
        assert not second.consumer.assignment, "whichever queue is to move, something of it is being worked on"
        for message in taken:
            await message.ack()
        await eventually(lambda: bool(second.seen))
        assert {(message.queue_id, message.queue_offset) for message in taken}.isdisjoint(second.seen)
        await consumer.close()
        await second.close()


@capability("Unacknowledged messages of a lost consumer are redelivered to the others")
async def test_a_lost_consumer(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=4)
        lost = engine.client()
        await lost.open()
        taking, dying = Taking(mq, topic), Taking(lost, topic, acks=False)
        await eventually(lambda: len(dying.consumer.assignment) == 2)
        await send(mq, topic, 100)
        await eventually(lambda: len(taking.seen) + len(dying.seen) == 100)
        await lost.close()
        await eventually(lambda: len(taking.seen) == 100)
        assert Counter(taking.seen) == Counter(await positions(mq, topic))
        await taking.close()
        dying._task.cancel()


@capability("A consumer keeps its queues after a lost connection; acknowledged messages are not redelivered")
async def test_connections_that_come_back(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=6)
        takers = [Taking(mq, topic), Taking(other, topic)]
        await eventually(lambda: all(len(each.consumer.assignment) == 3 for each in takers))
        before = [each.consumer.assignment for each in takers]
        for number in range(3):
            await send(mq, topic, 100)
            await eventually(lambda number=number: sum(len(each.seen) for each in takers) >= 100 * (number + 1))  # type: ignore[misc]
            engine.drop_connections()
        await send(mq, topic, 100)
        await eventually(lambda: sum(len(each.seen) for each in takers) >= 400)
        seen = Counter(position for taking in takers for position in taking.seen)
        assert set(seen) == await positions(mq, topic)
        assert max(seen.values()) == 1
        assert [each.consumer.assignment for each in takers] == before
        for taking in takers:
            await taking.close()


@capability("All consumers of a group must use the same `assignment`")
async def test_all_members_use_one_strategy(engine: Engine, topic: str) -> None:
    async with engine.client(assignment="consistent_hash") as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=4)
        taking = Taking(mq, topic)
        await eventually(lambda: len(taking.consumer.assignment) == 4)
        with pytest.raises(InvalidArgumentError, match="consistent_hash"):
            await anext(other.consumer(topic, group_id="g"))
        await taking.close()
    with pytest.raises(InvalidArgumentError, match="assignment="):
        engine.client(assignment="mine")


@capability("A manual commit covers the acknowledged prefix of each queue")
async def test_commit_by_hand_and_hand_over(engine: Engine, topic: str) -> None:
    async with engine.client(enable_auto_commit=False) as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=1)
        await send(mq, topic, 10)
        consumer = mq.consumer(topic, group_id="g")
        messages = [await anext(consumer) for _ in range(10)]
        for number in (0, 1, 2, 4, 5):
            await messages[number].ack()
        await consumer.commit()
        for number in (3, 6):
            await messages[number].ack()  # not committed
        await consumer.close()
        taking = Taking(other, topic)
        await eventually(lambda: len(taking.seen) == 7)
        assert taking.seen == [(0, offset) for offset in range(3, 10)]
        await taking.close()
