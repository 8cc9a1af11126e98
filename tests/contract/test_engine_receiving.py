"""Receiving: groups, acknowledgements, redelivery, handlers, and readers without a group."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from litemq import AsyncClient, Message, OutgoingMessage
from litemq.errors import (
    AlreadySettledError,
    InvalidArgumentError,
    LiteMQError,
    OffsetOutOfRangeError,
    UnsupportedFeatureError,
)
from support.engines import Engine, read_all
from support.waiting import HANG_S, eventually

capability = pytest.mark.capability


async def send_numbers(mq: AsyncClient, topic: str, count: int, first: int = 0) -> None:
    """Messages "0", "1", … in one queue."""
    await mq.send_batch(topic, [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(first, first + count)])


async def numbers_of(mq: AsyncClient, topic: str, group: str, count: int, *, ack: bool = True) -> list[int]:
    """Receive the next ``count`` messages of a group."""
    seen: list[int] = []
    async with mq.consumer(topic, group_id=group) as consumer:
        async for message in consumer:
            seen.append(int(message.body))
            if ack:
                await message.ack()
            if len(seen) == count:
                break
    return seen


@capability("`async for` over `consumer(…)`; each group receives all messages")
async def test_every_group_sees_everything(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await send_numbers(mq, topic, 50)
        seen = await asyncio.gather(
            *(numbers_of(client, topic, f"group-{n}", 50) for n, client in enumerate([mq, mq, other]))
        )
        assert seen == [list(range(50))] * 3


@capability("A waiting consumer receives new messages")
async def test_later_messages_arrive(engine: Engine, topic: str) -> None:
    async with engine.client(fetch_wait_ms=60_000) as mq, mq.consumer(topic, group_id="g") as consumer:
        async with asyncio.timeout(HANG_S):  # for all of them: no pull, of a minute, runs out of its time first
            for n in range(30):
                waiting = asyncio.ensure_future(anext(consumer))
                await asyncio.sleep(0.01)
                await mq.send(topic, b"%d" % n, ordering_key="k")
                message = await waiting
                assert message.body == b"%d" % n
                await message.ack()


@capability("After a client is reopened, acknowledged messages are not redelivered")
async def test_reading_continues_at_the_committed_offset(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 10)
        assert await numbers_of(mq, topic, "g", 6) == list(range(6))
        assert await numbers_of(mq, topic, "g", 1) == [6]  # a second consumer of the same client
    async with engine.client() as mq:
        assert await numbers_of(mq, topic, "g", 3) == [7, 8, 9]
        await send_numbers(mq, topic, 2, first=10)
    async with engine.client() as mq:
        assert await numbers_of(mq, topic, "g", 2) == [10, 11]


@capability("After a client is reopened, unacknowledged messages are redelivered")
async def test_unacknowledged_messages_are_redelivered(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 10)
        async with mq.consumer(topic, group_id="g") as consumer:
            messages = [await anext(consumer) for _ in range(10)]
            for number in (0, 1, 2, 4, 5, 9):  # 3 is missing: all from there on come again
                await messages[number].ack()
    async with engine.client() as mq:
        assert await numbers_of(mq, topic, "g", 7, ack=False) == [3, 4, 5, 6, 7, 8, 9]


@capability("Manual `commit` with `enable_auto_commit=False`")
async def test_commit_by_hand(engine: Engine, topic: str) -> None:
    async with engine.client(enable_auto_commit=False) as mq:
        await send_numbers(mq, topic, 4)
        async with mq.consumer(topic, group_id="g") as consumer:
            for _ in range(2):
                await (await anext(consumer)).ack()
            await consumer.commit()
            await consumer.commit()  # nothing new
            await (await anext(consumer)).ack()  # not committed
    async with engine.client() as mq:
        assert await numbers_of(mq, topic, "g", 2) == [2, 3]


@capability("Automatic commits of acknowledged offsets")
async def test_automatic_commits(engine: Engine, topic: str) -> None:
    async with engine.client(auto_commit_interval_ms=10) as mq:
        await send_numbers(mq, topic, 3)
        consumer = mq.consumer(topic, group_id=topic)
        for _ in range(2):
            await (await anext(consumer)).ack()
        async with asyncio.timeout(HANG_S):
            while not any(queue.committed == 2 for queue in (await mq.admin.describe_group(topic)).queues):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        engine.drop_connections()  # nothing can be said at the end
        await consumer.close()
    async with engine.client() as mq:
        (message,) = await mq.receive(topic, group_id=topic, wait=HANG_S)
        assert message.body == b"2"


@capability("Settling twice raises `AlreadySettledError`")
async def test_settle_once(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 2)
        first, second = await mq.receive(topic, group_id="g", wait=HANG_S)
        await first.ack()
        assert [message.is_settled for message in (first, second)] == [True, False]
        with pytest.raises(AlreadySettledError, match="once"):
            await first.ack()
        async with second.process():
            await second.ack()  # by hand in the block: fine
        with pytest.raises(AlreadySettledError):
            await second.ack()


@capability("`process()` acknowledges after its block; an error schedules a retry, a cancellation returns the message")
async def test_process(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 3)
        messages = await mq.receive(topic, group_id="g", wait=HANG_S)
        async with messages[0].process() as message:
            assert message is messages[0]
        assert messages[0].is_settled
        with pytest.raises(ValueError, match="bad"):
            async with messages[1].process():
                raise ValueError("bad")
        assert messages[1].is_settled
        begun = asyncio.Event()

        async def handle() -> None:
            async with messages[2].process():
                begun.set()
                await asyncio.Event().wait()  # for ever

        handling = asyncio.ensure_future(handle())
        await begun.wait()
        handling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handling
        assert messages[2].is_settled
    async with engine.client() as mq:
        again: list[Message] = []
        while len(again) < 2:  # which of them comes first depends on how soon the other try is due
            again += await mq.receive(topic, group_id="g", wait=HANG_S)
        assert sorted((message.body, message.attempt) for message in again) == [(b"1", 2), (b"2", 1)]


@capability("`receive(…)` returns up to `max_messages`, and waits up to `wait` seconds")
async def test_receive(engine: Engine, topic: str) -> None:
    async with engine.client(fetch_wait_ms=60_000) as mq:
        assert await mq.receive(topic, group_id="g", wait=0) == []
        assert await mq.receive(topic, group_id="g", wait=timedelta(milliseconds=10)) == []
        async with asyncio.timeout(
            HANG_S
        ):  # for three times: requests that were not answered at once would take a minute each
            for _ in range(3):
                waiting = asyncio.ensure_future(mq.receive(topic, group_id="g", wait=600))
                await asyncio.sleep(0.05)
                await mq.send(topic, b"0", ordering_key="k")
                (message,) = await waiting
                assert message.body == b"0"
                await message.ack()
        await send_numbers(mq, topic, 9, first=1)
        seen: list[int] = []
        while len(seen) < 9:
            messages = await mq.receive(topic, group_id="g", max_messages=4, wait=HANG_S)
            assert 1 <= len(messages) <= 4
            seen += [int(message.body) for message in messages]
            for message in messages:
                await message.ack()
        assert seen == list(range(1, 10))
        for wrong in (-1, "soon"):
            with pytest.raises(InvalidArgumentError, match="wait="):
                await mq.receive(topic, group_id="g", wait=wrong)  # type: ignore[arg-type]


async def test_receive_waits_for_one_message_at_least(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 5)
        for number in range(5):
            (message,) = await mq.receive(topic, group_id="g", max_messages=1, wait=HANG_S)
            assert message.body == b"%d" % number
        for wrong in (0, -1):
            with pytest.raises(InvalidArgumentError, match="max_messages="):
                await mq.receive(topic, group_id="g", max_messages=wrong)


@capability("A cancelled `receive` loses no message")
async def test_a_cancelled_receive_loses_nothing(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        for number in range(20):
            waiting = asyncio.ensure_future(mq.receive(topic, group_id="g", max_messages=1, wait=HANG_S))
            await asyncio.sleep(0.01)
            sending = asyncio.ensure_future(mq.send(topic, b"%d" % number, ordering_key="k"))
            await asyncio.sleep(0.002 * (number % 5))  # before, while and after it arrives
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await sending
            if waiting.cancelled():
                (message,) = await mq.receive(topic, group_id="g", max_messages=1, wait=HANG_S)
            else:
                (message,) = waiting.result()
            assert message.body == b"%d" % number
            await message.ack()


@capability("A new group starts at the oldest or the next message, or raises: `auto_offset_reset`")
async def test_where_a_new_group_begins(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await send_numbers(mq, topic, 3)
        async with mq.consumer(topic, group_id="late", auto_offset_reset="latest") as late:
            waiting = asyncio.ensure_future(anext(late))
            await eventually(lambda: late.assignment)
            await send_numbers(mq, topic, 1, first=3)
            assert (await waiting).body == b"3"
        with pytest.raises(OffsetOutOfRangeError, match="auto_offset_reset"):
            await anext(mq.consumer(topic, group_id="strict", auto_offset_reset="error"))
        with pytest.raises(InvalidArgumentError, match="auto_offset_reset"):
            mq.consumer(topic, group_id="g", auto_offset_reset="middle")  # type: ignore[arg-type]
    async with engine.client(auto_offset_reset="earliest") as mq:
        assert await numbers_of(mq, topic, "early", 4) == [0, 1, 2, 3]


async def test_a_small_prefetch_delivers_all_messages(engine: Engine, topic: str) -> None:
    async with engine.client(prefetch_bytes=64 * 1024, max_poll_records=7) as mq:
        await mq.send_batch(
            topic, [OutgoingMessage(b"%d" % n + bytes(2000), ordering_key=str(n % 5)) for n in range(300)]
        )
        seen = []
        async for message in mq.consumer(topic, group_id="g"):
            seen.append(int(message.body.rstrip(b"\0")))
            await message.ack()
            if len(seen) == 300:
                break
        assert sorted(seen) == list(range(300))


async def _first(reader: AsyncIterator[Message], count: int) -> list[int]:
    async with asyncio.timeout(HANG_S):
        return [int((await anext(reader)).body) for _ in range(count)]


@capability("`reader(…)` without a group: from the oldest or next message, a time, or an offset per queue")
async def test_reader(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 5)
        await asyncio.sleep(0.01)
        between = datetime.now(UTC)
        await asyncio.sleep(0.01)
        await send_numbers(mq, topic, 5, first=5)
        assert [int(message.body) for message in await read_all(mq, topic)] == list(range(10))
        assert [int(message.body) async for message in mq.reader(topic, start=between, follow=False)] == [5, 6, 7, 8, 9]
        queues = (await mq.admin.describe_topic(topic)).queues
        queue_key = next((queue.broker, queue.queue_id) for queue in queues if queue.next)
        assert [int(message.body) async for message in mq.reader(topic, start={queue_key: 7}, follow=False)] == [
            7,
            8,
            9,
        ]
        assert [message async for message in mq.reader(topic, start="latest", follow=False)] == []
        async with mq.reader(topic, start="latest") as reader:
            waiting = asyncio.ensure_future(_first(reader, 2))
            await eventually(lambda: len(reader._queues) == len(queues))  # it knows where it begins
            await send_numbers(mq, topic, 2, first=10)
            assert await waiting == [10, 11]
        async with mq.reader(topic) as reader:
            assert await _first(reader, 12) == list(range(12))
        for wrong in ("middle", 7, datetime(2030, 1, 1)):  # noqa: DTZ001
            with pytest.raises(InvalidArgumentError, match="start="):
                mq.reader(topic, start=wrong)  # type: ignore[arg-type]


async def test_a_reader_that_has_reached_the_end_fetches_no_more(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 3)
        reader = mq.reader(topic, follow=False)
        assert len([message async for message in reader]) == 3
        assert reader.is_closed
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("litemq reads")]
        assert [message async for message in reader] == []


async def test_a_reader_leaves_no_trace(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 3)
        for _ in range(2):
            message = (await read_all(mq, topic))[0]
            with pytest.raises(UnsupportedFeatureError, match="group"):
                await message.ack()
        assert await numbers_of(mq, topic, "g", 3) == [0, 1, 2]


async def test_an_empty_topic_has_an_end(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=3)
        assert await read_all(mq, topic) == []


async def test_an_offset_that_is_not_there_yet(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 2)
        queue_key = next(
            (queue.broker, queue.queue_id) for queue in (await mq.admin.describe_topic(topic)).queues if queue.next
        )
        with pytest.raises(LiteMQError):
            await anext(mq.reader(topic, start={queue_key: 99}))


async def test_a_closed_consumer_ends(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 1)
        consumer = mq.consumer(topic, group_id="g")
        seen: list[bytes] = []

        async def consume() -> None:
            async for message in consumer:
                seen.append(message.body)
                await message.ack()

        consuming = asyncio.ensure_future(consume())
        await eventually(lambda: bool(seen))
        await consumer.close()
        await consumer.close()
        async with asyncio.timeout(HANG_S):
            await consuming
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)


async def test_a_generator_over_a_consumer_may_be_left_early(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 3)

        async def bodies() -> AsyncIterator[bytes]:
            async with mq.consumer(topic, group_id="g") as consumer:
                async for message in consumer:
                    await message.ack()
                    yield message.body

        async with aclosing(bodies()) as first:  # type: ignore[type-var]
            async for body in first:
                assert body == b"0"
                break
        assert await numbers_of(mq, topic, "g", 2) == [1, 2]
