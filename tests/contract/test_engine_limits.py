"""Limits and unsupported features: both raise an error, and nothing is sent."""

from typing import Any

import pytest

from litemq import OutgoingMessage
from litemq.errors import InvalidArgumentError, LiteMQError, UnsupportedFeatureError
from support.engines import Engine, read_all
from support.waiting import HANG_S

capability = pytest.mark.capability


@capability("Empty bodies, one byte, every byte, Unicode")
async def test_bodies(engine: Engine, topic: str) -> None:
    bodies = [b"", b"\x00", b"LMQ\x02", bytes(range(256)), "日本語 🎉".encode(), b"\xff\xfe" * 1000]
    async with engine.client() as mq:
        for body in bodies:
            await mq.send(topic, body, ordering_key="k")
        await mq.send(topic, "", ordering_key="k")
        messages = await read_all(mq, topic)
        assert [message.body for message in messages] == [*bodies, b""]
        assert messages[-1].value == ""


async def _largest_body(engine: Engine, topic: str, **settings: Any) -> int:
    """Find the largest accepted body by bisection."""
    limit = settings["max_record_bytes"]
    least, most = 0, limit
    async with engine.client(**settings) as mq:
        await mq.send(topic, b"", ordering_key="k")
        while least < most:
            size = (least + most + 1) // 2
            try:
                await mq.send(topic, bytes(size), ordering_key="k")
                least = size
            except InvalidArgumentError as error:
                assert "max_record_bytes" in str(error) or str(limit) in str(error)  # noqa: PT017
                most = size - 1
    return least


@capability("A body at the limit (`max_record_bytes`) is accepted, a larger one rejected; later messages are sent")
async def test_the_largest_body(engine: Engine, topic: str) -> None:
    largest = await _largest_body(engine, topic, max_record_bytes=4096)
    assert 3500 < largest < 4096
    async with engine.client(max_record_bytes=4096) as mq:
        body = bytes(range(256)) * 16
        receipt = await mq.send(topic, body[:largest], ordering_key="k")
        with pytest.raises(InvalidArgumentError):
            await mq.send(topic, body[: largest + 1], ordering_key="k")
        after = await mq.send(topic, b"after", ordering_key="k")
        assert after.queue_offset == receipt.queue_offset + 1
        assert [message.body for message in (await read_all(mq, topic))[-2:]] == [body[:largest], b"after"]


@capability("Bodies of 4 MB")
async def test_large_bodies(engine: Engine, topic: str) -> None:
    body = bytes(range(256)) * (4 * 4096 - 8)
    async with engine.client() as mq:
        for _ in range(3):
            await mq.send(topic, body, ordering_key="k")
        assert [message.body == body for message in await read_all(mq, topic)] == [True] * 3
        messages = await mq.receive(topic, group_id="g", wait=HANG_S)
        assert messages[0].body == body
        with pytest.raises(LiteMQError):
            await mq.send(topic, bytes(4 << 20))
        assert len(await read_all(mq, topic)) == 3


@capability("A record above the broker's limit is rejected; other messages are not affected")
async def test_records_over_the_limit_of_the_broker(engine: Engine, topic: str) -> None:
    async with engine.client(max_record_bytes=8 << 20) as mq:
        await mq.send(topic, b"before", ordering_key="k")
        with pytest.raises(LiteMQError):
            await mq.send(topic, bytes(6 << 20), ordering_key="k")
        await mq.send(topic, b"after", ordering_key="k")
        assert [message.body for message in await read_all(mq, topic)] == [b"before", b"after"]


WRONG: list[dict[str, Any]] = [
    {"tags": ["t"] * 65},
    {"tags": "t" * 256},
    {"keys": ["k"] * 65},
    {"keys": "k" * 256},
    {"keys": ["k", 7]},
    {"properties": {"p": "v" * 40_000}},
    {"properties": {"p": 7}},
    {"ordering_key": "k" * 70_000},
    {"ordering_key": 7},
    {"tags": "\ud800"},
]


@capability("Tags, keys and properties above their limits are rejected; later messages are sent")
@pytest.mark.parametrize("options", WRONG, ids=lambda options: ascii(options)[:30])
async def test_options_over_the_limits(engine: Engine, topic: str, options: dict[str, Any]) -> None:
    async with engine.client() as mq:
        for _ in range(2):  # before the route is known, and after
            with pytest.raises(InvalidArgumentError):
                await mq.send(topic, b"wrong", **options)
            await mq.send(topic, b"right", ordering_key="k")
        assert [message.body for message in await read_all(mq, topic)] == [b"right", b"right"]


@capability("Durability `replicas`", missing={"litemq://": "only in a [replicated group](../howto/replicas.md)"})
async def test_replicas_need_a_replicated_group(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(UnsupportedFeatureError):
            await mq.send(topic, b"x", durability="replicas", ordering_key="k")
        with pytest.raises(UnsupportedFeatureError):
            await mq.send_batch(topic, [OutgoingMessage(b"x", ordering_key="k")], durability="replicas")
        await mq.send(topic, b"plain", ordering_key="k")
        assert [message.body for message in await read_all(mq, topic)] == [b"plain"]
