"""Leases: shared by any number of consumers, extended, expired, returned."""

import asyncio
from collections import Counter

import pytest

from litemq import AsyncClient, Message, RetryPolicy
from litemq.errors import AlreadySettledError, InvalidArgumentError, LeaseLostError
from support.engines import Engine
from support.waiting import HANG_S, eventually

capability = pytest.mark.capability


async def send_numbers(mq: AsyncClient, topic: str, count: int) -> None:
    """Messages "0", "1", …"""
    await mq.send_batch(topic, [b"%d" % n for n in range(count)])


async def all_of(mq: AsyncClient, topic: str, count: int = 0) -> list[Message]:
    """Receive ``count`` messages of a group, and any that follow."""
    found: list[Message] = []
    while len(found) < count:
        found += await mq.receive(topic, group_id="g", max_messages=1000, wait=HANG_S, lease=600)
    return found + await mq.receive(topic, group_id="g", max_messages=1000, wait=0.3, lease=600)


@capability('`consumer(…, mode="lease")`: any number of consumers; each message goes to one of them')
async def test_consumers_share_the_messages(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await send_numbers(mq, topic, 300)
        seen: Counter[int] = Counter()

        async def consume(client: AsyncClient) -> None:
            async with client.consumer(topic, group_id="g", mode="lease", max_poll_records=10) as consumer:
                async for message in consumer:
                    async with message.process():
                        seen[int(message.body)] += 1
                    if seen.total() >= 300:
                        return

        consuming = [asyncio.ensure_future(consume(client)) for client in (mq, mq, other)]
        await asyncio.wait(consuming, return_when=asyncio.FIRST_COMPLETED)
        for task in consuming:
            task.cancel()
        await asyncio.gather(*consuming, return_exceptions=True)
        assert seen == Counter(range(300))
        assert await all_of(other, topic) == []


@capability("An expired lease makes its message available again, with `attempt` incremented; never early")
async def test_a_lease_ends(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await mq.send(topic, b"x")
        (held,) = await mq.receive(topic, group_id="g", wait=HANG_S, lease=600)
        assert await other.receive(topic, group_id="g", wait=0) == []
        await held.ack()
        await mq.send(topic, b"y")
        loop = asyncio.get_running_loop()
        began = loop.time()
        (late,) = await mq.receive(topic, group_id="g", wait=HANG_S, lease=0.6)
        assert late.attempt == 1
        (again,) = await other.receive(topic, group_id="g", wait=HANG_S)
        assert loop.time() - began > 0.55
        assert (again.message_id, again.attempt) == (late.message_id, 2)
        with pytest.raises(LeaseLostError):
            await late.ack()
        await again.ack()


@capability("`extend` renews a lease; `process` does so automatically")
async def test_leases_are_extended(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await send_numbers(mq, topic, 2)
        # Renewed when half of it has passed: a machine may be busy for seven seconds.
        by_hand, by_itself = await mq.receive(topic, group_id="g", wait=HANG_S, lease=14)
        await by_hand.extend(600)
        async with by_itself.process():
            assert await other.receive(topic, group_id="g", wait=18) == []
        await by_hand.ack()
        for wrong in (0, 0.01, 1e9):
            with pytest.raises(InvalidArgumentError, match="lease="):
                await mq.receive(topic, group_id="g", lease=wrong)


@capability("`ack` waits until it is stored; `ack_nowait` and `ack_batch` settle many messages at once")
async def test_many_acknowledgements(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 500)
        messages = await all_of(mq, topic, 500)
        assert sorted(int(message.body) for message in messages) == list(range(500))
        await messages[0].ack()
        await asyncio.gather(*(message.ack_nowait() for message in messages[1:10]))
        with pytest.raises(AlreadySettledError) as raised:
            await mq.ack_batch(messages[5:])
        assert "490 of 495" in raised.value.__notes__[0]
        assert all(message.is_settled for message in messages)
    async with engine.client() as mq:
        assert await all_of(mq, topic) == []


@capability("Closing a client or consumer returns its unsettled messages")
async def test_unprocessed_messages_are_returned(engine: Engine, topic: str) -> None:
    async with engine.client() as other:
        async with engine.client() as mq:
            await send_numbers(mq, topic, 20)
            received = await mq.receive(topic, group_id="g", max_messages=5, wait=HANG_S)
            await received[0].ack()
            async with mq.consumer(topic, group_id="g", mode="lease") as consumer:
                taken = [await anext(consumer) for _ in range(3)]
                await taken[0].ack()
            with pytest.raises(LeaseLostError, match="was returned"):
                await taken[1].ack()
        again = await all_of(other, topic, 18)
        done = {message.message_id for message in (received[0], taken[0])}
        assert len(again) == 18
        assert not done & {message.message_id for message in again}
        await other.ack_batch(again)


@capability("A new group starts at the oldest or the next message: `auto_offset_reset`")
async def test_where_a_group_begins(engine: Engine, topic: str) -> None:
    async with engine.client(auto_offset_reset="latest") as mq:
        await send_numbers(mq, topic, 3)
        assert await mq.receive(topic, group_id="g", wait=0) == []
        await mq.send(topic, b"new")
        (message,) = await mq.receive(topic, group_id="g", wait=HANG_S)
        assert message.body == b"new"
        with pytest.raises(InvalidArgumentError, match="auto_offset_reset"):
            mq.consumer(topic, group_id="g", mode="lease", auto_offset_reset="error")
        with pytest.raises(InvalidArgumentError, match="mode="):
            mq.consumer(topic, group_id="g", mode="both")  # type: ignore[arg-type]
    async with engine.client() as mq:
        assert len(await mq.receive(topic, group_id="h", wait=HANG_S, max_messages=100)) >= 1


@capability("Lost connections while messages are leased: every message is handled and settled")
async def test_connections_are_cut(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 200)
        seen: set[int] = set()

        async def consume() -> None:
            async with mq.consumer(topic, group_id=topic, mode="lease", lease=1, max_poll_records=16) as consumer:
                async for message in consumer:
                    try:
                        async with message.process():
                            seen.add(int(message.body))
                    except LeaseLostError:
                        continue
                    if len(seen) % 40 == 0:
                        engine.drop_connections()
                        await asyncio.sleep(0.05)

        consuming = asyncio.ensure_future(consume())
        await eventually(lambda: len(seen) == 200)
        await asyncio.sleep(0.3)
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)
    async with engine.client() as mq:
        async with asyncio.timeout(HANG_S):
            while (facts := await mq.admin.describe_group(topic)).lag + facts.waiting_tries:
                await mq.ack_batch(
                    await mq.receive(topic, group_id=topic, wait=0.3)
                )  # of some, the acknowledgement may have been cut off
        assert await mq.receive(topic, group_id=topic, wait=0.3) == []


async def test_a_message_that_is_never_settled_becomes_a_dead_letter(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send(topic, b"poison")
        retry = RetryPolicy(max_retries=1)
        for attempt in (1, 2):
            (message,) = await mq.receive(topic, group_id="g", wait=HANG_S, lease=0.3, retry=retry)
            assert message.attempt == attempt
        assert await mq.receive(topic, group_id="g", wait=1, lease=0.3, retry=retry) == []


@capability("Returned prefetched messages do not count as attempts")
async def test_returned_messages_were_not_tried(engine: Engine, topic: str) -> None:
    retry = RetryPolicy(max_retries=1)
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await mq.send_batch(topic, [str(number) for number in range(6)])
        for number in range(6):
            async with mq.consumer(topic, group_id="g", mode="lease", retry=retry) as consumer:
                message = await anext(consumer)
                assert (message.body, message.attempt) == (str(number).encode(), 1)
                await message.ack()
        assert await mq.dead_letters(topic).count() == 0


@capability("The lag includes messages that wait for a retry")
async def test_the_lag_counts_retries(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send(topic, b"again")
        (message,) = await mq.receive(topic, group_id=topic, wait=HANG_S)
        await message.nack(delay=0.01)
        left = 0
        while left == 0:  # it waits for its time, or is in the retry queue: never nowhere
            facts = await mq.admin.describe_group(topic)
            assert facts.lag + facts.waiting_tries == 1
            left = facts.lag
        assert [summary.lag for summary in await mq.admin.groups() if summary.group == topic] == [1]
        (message,) = await mq.receive(topic, group_id=topic, wait=HANG_S)
        assert message.attempt == 2
        await message.ack()
        assert (await mq.admin.describe_group(topic)).lag == 0


@capability("An invalid retry is rejected before anything is settled")
async def test_a_delay_that_is_too_long(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send(topic, b"x")
        (message,) = await mq.receive(topic, group_id="g", wait=HANG_S)
        with pytest.raises(InvalidArgumentError, match="365 days"):
            await message.nack(delay=1e9)
        assert not message.is_settled
        await message.ack()


@capability("A reader without `follow` ends immediately, even if a filter rejects the last messages")
async def test_a_filtered_reader_ends(engine: Engine, topic: str) -> None:
    async with engine.client(fetch_wait_ms=60_000) as mq:
        await mq.send(topic, b"wanted", tags="a")
        await mq.send(topic, b"other", tags="b")
        async with asyncio.timeout(HANG_S):  # for three times: a pull that waited for more would take a minute each
            for _ in range(3):
                assert [message.body async for message in mq.reader(topic, follow=False, tags="a")] == [b"wanted"]
