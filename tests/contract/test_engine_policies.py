"""Ack policies: the outcome of a message when its handler ends, in lease mode and queue mode."""

import asyncio

import pytest

from litemq import AckPolicy, AsyncClient, Message, RetryPolicy
from litemq.client.config import ConsumeMode
from support.engines import Engine
from support.waiting import HANG_S

MODES: tuple[ConsumeMode, ...] = ("lease", "queue")
ENDS = ("returns", "raises", "is cancelled")

# done: never redelivered; again: retried; dead: a dead letter; left: redelivered when the consumer
# or the lease has ended.
POLICIES = {
    AckPolicy.NACK_ON_ERROR: ("done", "again", "left"),
    AckPolicy.REJECT_ON_ERROR: ("done", "dead", "left"),
    AckPolicy.ACK: ("done", "done", "left"),
    AckPolicy.MANUAL: ("left", "left", "left"),
    AckPolicy.ACK_FIRST: ("done", "done", "done"),
}
OUTCOMES = {
    "done": "is acknowledged",
    "again": "is retried",
    "dead": "becomes a dead letter",
    "left": "stays unsettled and is redelivered",
}
CASES = [
    pytest.param(
        *(policy, end, outcome),
        marks=pytest.mark.capability(
            f"`AckPolicy.{policy.name}`: when the handler {end}, the message {OUTCOMES[outcome]}"
        ),
        id=f"{policy.value}-{end}",
    )
    for policy, outcomes in POLICIES.items()
    for end, outcome in zip(ENDS, outcomes, strict=True)
]


async def handle(message: Message, end: str) -> None:
    """Run a handler that ends in this way."""

    async def process(begun: asyncio.Event) -> None:
        async with message.process():
            begun.set()
            if end == "raises":
                raise ValueError("bad")
            if end == "is cancelled":
                await asyncio.Event().wait()  # for ever

    begun = asyncio.Event()
    handling = asyncio.ensure_future(process(begun))
    await begun.wait()
    if end == "is cancelled":
        handling.cancel()
    await asyncio.wait([handling])
    if not handling.cancelled() and end == "raises":
        assert isinstance(handling.exception(), ValueError)


async def dead_of(mq: AsyncClient, topic: str) -> list[Message]:
    return [each async for each in mq.reader(f"%DLQ%{topic}", follow=False)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("policy", "end", "outcome"), CASES)
async def test_policy(engine: Engine, topic: str, mode: ConsumeMode, policy: AckPolicy, end: str, outcome: str) -> None:
    retry = RetryPolicy(delays=[0.05])
    async with engine.client() as mq:
        await mq.send(topic, b"x")
        released = outcome == "left" and mode == "lease" and end == "is cancelled" and policy is not AckPolicy.MANUAL
        comes_by_itself = outcome == "again" or released
        async with mq.consumer(topic, group_id="g", mode=mode, lease=3600, ack_policy=policy, retry=retry) as consumer:
            await handle(await anext(consumer), end)
            assert bool(await consumer.take(1, HANG_S if comes_by_itself else 0.3)) == comes_by_itself
        if outcome == "dead":
            assert len(await dead_of(mq, topic)) == 1
    async with engine.client() as mq, mq.consumer(topic, group_id="g", mode=mode) as consumer:
        comes = outcome in ("left", "again")
        assert bool(await consumer.take(1, HANG_S if comes else 0.3)) == comes
