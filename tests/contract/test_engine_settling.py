"""Settling: `nack`, `reject`, what is tried again and when, what goes to the dead letters, with leases and with queues."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from litemq import AckPolicy, AsyncClient, OutgoingMessage, RetryPolicy
from litemq.client.config import ConsumeMode
from litemq.client.consumer import Consumer
from litemq.errors import AlreadySettledError, InvalidArgumentError, UnsupportedFeatureError
from support.engines import Engine

capability = pytest.mark.capability
MODES: tuple[ConsumeMode, ...] = ("lease", "queue")
both_modes = pytest.mark.parametrize("mode", MODES)


async def send_numbers(mq: AsyncClient, topic: str, count: int) -> None:
    """Messages "0", "1", … in one queue."""
    await mq.send_batch(topic, [OutgoingMessage(b"%d" % n, keys=f"k{n}", ordering_key="k") for n in range(count)])


async def nothing_comes(consumer: Consumer, within: float = 0.5) -> bool:
    return await consumer.take(1, within) == []


@asynccontextmanager
async def consuming(
    mq: AsyncClient, topic: str, mode: ConsumeMode, *, ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR, retry: RetryPolicy | None = None
) -> AsyncIterator[Consumer]:
    async with mq.consumer(topic, group_id="g", mode=mode, ack_policy=ack_policy, retry=retry) as consumer:
        yield consumer


@capability("`nack()`: the message comes again at once; `nack(delay=…)`: not before; `attempt` says which try it is")
@both_modes
async def test_nack(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 1)
        loop = asyncio.get_running_loop()
        async with consuming(mq, topic, mode) as consumer:
            message = await anext(consumer)
            assert message.attempt == 1
            await message.nack()
            again = await anext(consumer)
            assert (again.message_id, again.body, again.attempt) == (message.message_id, b"0", 2)
            began = loop.time()
            await again.nack(delay=timedelta(seconds=0.7))
            with pytest.raises(AlreadySettledError):
                await again.ack()
            third = await anext(consumer)
            assert loop.time() - began >= 0.69
            assert (third.message_id, third.attempt) == (message.message_id, 3)
            await third.ack()
            assert await nothing_comes(consumer)
            with pytest.raises(InvalidArgumentError, match="delay="):
                await third.nack(delay=-1)


@capability("With queues: what failed is committed as done, and comes again through the group's retry queue, to any member")
async def test_queues_go_on(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 3)
        async with consuming(mq, topic, "queue") as consumer:
            await (await anext(consumer)).nack(delay=1)
            for _ in range(2):
                await (await anext(consumer)).ack()
    async with engine.client() as mq, consuming(mq, topic, "queue") as consumer:
        message = await anext(consumer)
        assert (message.body, message.attempt) == (b"0", 2)
        await message.ack()
        assert await nothing_comes(consumer)
        with pytest.raises(AlreadySettledError):
            await message.ack()


async def test_a_queue_has_no_leases_and_a_reader_nothing_to_settle(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 1)
        async with consuming(mq, topic, "queue") as consumer:
            message = await anext(consumer)
            with pytest.raises(UnsupportedFeatureError, match="no lease"):
                await message.extend(60)
            await message.ack()
        message = await anext(mq.reader(topic))
        for settle in (message.ack, message.nack, message.reject):
            with pytest.raises(UnsupportedFeatureError, match="without a group"):
                await settle()
