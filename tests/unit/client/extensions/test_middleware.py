"""Middleware around sends and handlers: the first layer added is the outermost."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from litemq import AsyncClient, Client, Message, Middleware, OutgoingMessage, SendReceipt
from litemq.client.extensions.middleware import Consume, ConsumeBatch, Publish
from support.waiting import HANG_S, eventually


class RecordingLayer(Middleware):
    """Records its name before and after the call that it wraps."""

    def __init__(self, name: str, trail: list[str]) -> None:
        self.name = name
        self.trail = trail

    async def publish(self, topic: str, message: OutgoingMessage, call_next: Publish) -> SendReceipt:
        self.trail.append(f"{self.name}>")
        receipt = await call_next(topic, replace(message, properties={**message.properties, f"by-{self.name}": "1"}))
        self.trail.append(f"<{self.name}")
        return receipt

    async def consume(self, message: Message, call_next: Consume) -> None:
        self.trail.append(f"{self.name}>{message.body.decode()}")
        await call_next(message)
        self.trail.append(f"{message.body.decode()}<{self.name}")

    async def consume_batch(self, messages: Sequence[Message], call_next: ConsumeBatch) -> None:
        self.trail.append(f"{self.name}>{len(messages)}")
        await call_next(messages)
        self.trail.append(f"{len(messages)}<{self.name}")


def test_layers_around_sends() -> None:
    async def test() -> None:
        trail: list[str] = []
        async with AsyncClient("memory://") as mq:
            mq.add_middleware(Middleware())
            assert not mq._opened_publisher().is_observed  # a layer without overrides costs nothing
            mq.add_middleware(RecordingLayer("a", trail))
            mq.add_middleware(RecordingLayer("b", trail))
            await mq.send("orders", b"x", properties={"mine": "1"}, ordering_key="k")
            await mq.send_nowait("orders", b"y", ordering_key="k")
            await mq.send_batch("orders", [OutgoingMessage(b"z", ordering_key="k")])
            assert trail == ["a>", "b>", "<b", "<a"] * 3
            messages = await mq.receive("orders", group_id="g", wait=HANG_S)
            assert [dict(message.properties) for message in messages] == [
                {"mine": "1", "by-a": "1", "by-b": "1"},
                {"by-a": "1", "by-b": "1"},
                {"by-a": "1", "by-b": "1"},
            ]

    asyncio.run(test())


class RejectingLayer(Middleware):
    async def publish(self, topic: str, message: OutgoingMessage, call_next: Publish) -> SendReceipt:
        if message.body == b"bad":
            raise ValueError("bad")
        return await call_next(topic, message)


def test_a_layer_may_refuse_a_message() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            mq.add_middleware(RejectingLayer())
            with pytest.raises(ValueError, match="bad"):
                await mq.send("orders", b"bad")
            with pytest.raises(ValueError, match="bad") as caught:
                await mq.send_batch("orders", [b"good", b"bad"])
            assert "1 of 2 messages were stored" in caught.value.__notes__[0]
            assert [message.body for message in await mq.receive("orders", group_id="g", wait=HANG_S)] == [b"good"]

    asyncio.run(test())


def test_layers_around_handlers() -> None:
    async def test() -> None:
        trail: list[str] = []
        async with AsyncClient("memory://") as mq:
            for name in "ab":
                mq.add_middleware(RecordingLayer(name, trail))

            @mq.subscriber("orders", group_id="one")
            async def one(message: Message) -> None:
                trail.append("one")

            @mq.subscriber("batches", group_id="many", batch=2, batch_wait=HANG_S)
            def many(messages: list[Message]) -> None:
                trail.append("many")

            @mq.subscriber("ends", group_id="end")
            async def end(message: Message) -> None: ...

            running = asyncio.ensure_future(mq.run())
            for topic, bodies, last in (
                ("orders", [b"x"], "x<a"),
                ("batches", [b"1", b"2"], "2<a"),
                ("ends", [b"!"], "!<a"),
            ):
                trail.append(topic)
                await mq.send_batch(topic, [OutgoingMessage(body, ordering_key="k") for body in bodies])
                await eventually(partial(trail.__contains__, last))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        handled = [mark for mark in trail if mark not in {"a>", "b>", "<b", "<a"}]
        assert handled[: handled.index("ends")] == [
            *["orders", "a>x", "b>x", "one", "x<b", "x<a"],
            *["batches", "a>2", "b>2", "many", "2<b", "2<a"],
        ]

    asyncio.run(test())


def test_layers_in_the_synchronous_client() -> None:
    trail: list[str] = []
    with Client("memory://") as mq:
        mq.add_middleware(RecordingLayer("a", trail))
        mq.send("orders", b"x")
        assert trail == ["a>", "<a"]
