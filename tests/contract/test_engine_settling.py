"""Settling: `nack`, `reject`, retries and dead letters, in lease mode and queue mode."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from litemq import AckPolicy, AsyncClient, Message, OutgoingMessage, Retry, RetryPolicy
from litemq.client.config import ConsumeMode
from litemq.client.consuming.consumer import Consumer
from litemq.errors import (
    AlreadySettledError,
    ClientClosedError,
    InvalidArgumentError,
    LeaseLostError,
    SerializationError,
    UnsupportedFeatureError,
)
from support.engines import Engine
from support.waiting import HANG_S

capability = pytest.mark.capability
MODES: tuple[ConsumeMode, ...] = ("lease", "queue")
both_modes = pytest.mark.parametrize("mode", MODES)


async def send_numbers(mq: AsyncClient, topic: str, count: int) -> None:
    """Messages "0", "1", … in one queue."""
    await mq.send_batch(topic, [OutgoingMessage(b"%d" % n, keys=f"k{n}", ordering_key="k") for n in range(count)])


async def dead_letters(mq: AsyncClient, topic: str, count: int) -> list[Message]:
    """Wait for ``count`` dead letters, and return them."""
    async with asyncio.timeout(HANG_S):
        while len(found := [each async for each in mq.reader(f"%DLQ%{topic}", follow=False)]) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert len(found) == count
    return found


async def nothing_comes(consumer: Consumer, within: float = 0.5) -> bool:
    return await consumer.take(1, within) == []


@asynccontextmanager
async def consuming(
    mq: AsyncClient,
    topic: str,
    mode: ConsumeMode,
    *,
    ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
    retry: RetryPolicy | None = None,
) -> AsyncIterator[Consumer]:
    async with mq.consumer(topic, group_id="g", mode=mode, ack_policy=ack_policy, retry=retry) as consumer:
        yield consumer


@capability("After a consumer is closed, `ack` raises an error: the message is delivered again")
@both_modes
async def test_an_ack_after_close(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 3)
        async with consuming(mq, topic, mode) as consumer:
            messages = [await anext(consumer) for _ in range(3)]
            await messages[0].ack()
        with pytest.raises((ClientClosedError, LeaseLostError), match="consumer"):
            await messages[1].ack()
        with pytest.raises((ClientClosedError, LeaseLostError)):
            await mq.ack_batch(messages[1:])
        async with consuming(mq, topic, mode) as consumer:
            assert [(await anext(consumer)).body for _ in range(2)] == [b"1", b"2"]


@capability("`nack()` redelivers immediately, `nack(delay=…)` after the delay; `attempt` counts the deliveries")
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


@capability("`reject(reason=…)` dead-letters a message with its history")
@both_modes
async def test_reject(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 2)
        async with consuming(mq, topic, mode) as consumer:
            await (await anext(consumer)).reject(reason="of no use\nto anybody")
            await (await anext(consumer)).ack()
            assert await nothing_comes(consumer)
        (dead_letter,) = await dead_letters(mq, topic, 1)
        properties = dead_letter.properties
        assert (properties["litemq-reason"], properties["litemq-group"], properties["litemq-count"]) == ("4", "g", "1")
        assert properties["litemq-error"] == "of no use to anybody"
        assert properties["litemq-consumer"] == mq.config.client_id
        assert dead_letter.keys == ("k0",)


@capability("A message becomes a dead letter after `RetryPolicy(max_retries=…)`")
@both_modes
async def test_too_many_tries(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 1)
        async with consuming(mq, topic, mode, retry=RetryPolicy(max_retries=2, delays=[0, 0.1])) as consumer:
            for attempt in (1, 2, 3):
                message = await anext(consumer)
                assert message.attempt == attempt
                with pytest.raises(ValueError, match="bad"):
                    async with message.process():
                        raise ValueError("bad")
            assert await nothing_comes(consumer)
        (dead_letter,) = await dead_letters(mq, topic, 1)
        assert (dead_letter.properties["litemq-reason"], dead_letter.properties["litemq-count"]) == ("1", "3")
        assert dead_letter.properties["litemq-error"] == "ValueError: bad"
        assert "raise ValueError" in dead_letter.properties["litemq-stack"]


async def ask_for_another_try(message: Message) -> None:
    async with message.process():
        raise Retry(delay=0.2)


@capability("`Retry(delay=…)` requests a retry without an error; errors in `throws` dead-letter the message")
@both_modes
async def test_retry_and_throws(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        await send_numbers(mq, topic, 1)
        async with consuming(mq, topic, mode, retry=RetryPolicy(throws=(LookupError,))) as consumer:
            await ask_for_another_try(await anext(consumer))
            again = await anext(consumer)
            assert again.attempt == 2
            with pytest.raises(KeyError):
                async with again.process():
                    raise KeyError("nobody")
            assert await nothing_comes(consumer)
        (dead_letter,) = await dead_letters(mq, topic, 1)
        assert dead_letter.properties["litemq-reason"] == "4"
        assert dead_letter.properties["litemq-count"] == "2"


@capability("A body that cannot be decoded becomes a dead letter with its bytes when a handler reads its value")
@both_modes
async def test_undecodable(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        await mq.send(topic, b"{no json", properties={"content-type": "application/json"})
        async with consuming(mq, topic, mode) as consumer:
            message = await anext(consumer)
            with pytest.raises(SerializationError):
                async with message.process():
                    assert message.value
            assert await nothing_comes(consumer)
        (dead_letter,) = await dead_letters(mq, topic, 1)
        assert (dead_letter.properties["litemq-reason"], dead_letter.properties["litemq-detail"]) == (
            "4",
            "undecodable",
        )
        assert b"{no json" in dead_letter.body


@capability("Queue mode: failed messages are committed and redelivered through the group's retry queue, to any member")
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
