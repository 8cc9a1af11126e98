"""Sending: receipts, options and batches."""

import asyncio
from datetime import UTC, datetime

import pytest

from litemq import Message, OutgoingMessage, SendReceipt
from litemq.client.messages.serializers import Json, Model, MsgPack
from litemq.errors import BufferFullError, InvalidArgumentError, LiteMQError, SerializationError
from support.engines import Engine, read_all, read_until

capability = pytest.mark.capability


@capability("`send` returns a receipt: broker, queue, offset, time, message id")
async def test_a_receipt_says_where_the_message_is(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        before = datetime.now(UTC).timestamp() * 1000
        receipts = [await mq.send(topic, b"%d" % n, ordering_key="k") for n in range(3)]
        assert all(type(receipt) is SendReceipt for receipt in receipts)
        first = receipts[0]
        assert first.topic == topic
        assert {(receipt.broker, receipt.queue_id) for receipt in receipts} == {(first.broker, first.queue_id)}
        assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2]
        assert len({receipt.message_id for receipt in receipts}) == 3
        after = datetime.now(UTC).timestamp() * 1000
        assert before - 1000 <= first.store_timestamp <= after + 1000
        for receipt, message in zip(receipts, await read_all(mq, topic), strict=True):
            assert (message.topic, message.message_id, message.broker) == (topic, receipt.message_id, receipt.broker)
            assert (message.queue_id, message.queue_offset) == (receipt.queue_id, receipt.queue_offset)
            assert message.store_timestamp == receipt.store_timestamp
            assert message.stored_at.tzinfo is UTC
            assert message.born_timestamp <= after


@capability("`tags`, `keys`, `properties` and `ordering_key` arrive unchanged")
async def test_every_option_arrives(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send(
            topic, b"x", tags="one", keys="k", properties={"p": "v", "": "empty", "ключ": "值"}, ordering_key="заказ"
        )
        (message,) = await read_all(mq, topic)
        assert (message.tags, message.keys, message.ordering_key) == (("one",), ("k",), "заказ")
        assert dict(message.properties) == {"p": "v", "": "empty", "ключ": "值"}
        await mq.send(topic, b"x", tags=["a", "b"], keys=("k1", "k2"), ordering_key="заказ")
        message = (await read_all(mq, topic))[-1]
        assert (message.tags, message.keys, dict(message.properties)) == (("a", "b"), ("k1", "k2"), {})
        await mq.send(topic, b"plain", ordering_key="заказ")
        message = (await read_all(mq, topic))[-1]
        assert (message.tags, message.keys, dict(message.properties)) == ((), (), {})


@capability("`send_nowait` returns a future of the receipt; `flush` waits for all")
async def test_send_nowait_and_flush(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.flush()  # nothing to wait for
        futures = [mq.send_nowait(topic, b"%d" % n) for n in range(500)]
        assert not any(future.done() for future in futures)
        await mq.flush()
        assert all(future.done() for future in futures)
        positions = {(future.result().queue_id, future.result().queue_offset) for future in futures}
        assert len(positions) == 500
        assert sorted(int(message.body) for message in await read_all(mq, topic)) == list(range(500))


@capability("`send_batch` returns a receipt per message, in order")
async def test_send_batch(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        assert await mq.send_batch(topic, []) == []
        receipts = await mq.send_batch(
            topic, [b"bytes", "text", OutgoingMessage({"id": 1}, tags="t", keys="k", properties={"p": "v"})]
        )
        by_id = {message.message_id: message for message in await read_all(mq, topic)}
        messages = [by_id[receipt.message_id] for receipt in receipts]
        assert [message.value for message in messages] == [b"bytes", "text", {"id": 1}]
        assert (messages[2].tags, messages[2].keys, messages[2].properties["p"]) == (("t",), ("k",), "v")


@capability("`send_batch` of 10,000 messages")
async def test_a_big_batch(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        receipts = await mq.send_batch(topic, [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(10_000)])
        assert [receipt.queue_offset for receipt in receipts] == list(range(10_000))
        assert [int(message.body) for message in await read_all(mq, topic)] == list(range(10_000))


@capability("A partly failed batch reports which messages were not stored")
async def test_a_batch_that_fails_in_part(engine: Engine, topic: str) -> None:
    async with engine.client(max_record_bytes=4096) as mq:
        with pytest.raises(LiteMQError) as failure:
            await mq.send_batch(topic, [b"0", bytes(5000), b"2"])
        assert "2 of 3" in "".join(failure.value.__notes__)
        assert "[1]" in "".join(failure.value.__notes__)
        assert sorted(message.body for message in await read_all(mq, topic)) == [b"0", b"2"]
        with pytest.raises(LiteMQError) as failure:  # the route is known now, and the same holds
            await mq.send_batch(topic, [b"3", bytes(5000), b"5"])
        assert "2 of 3" in "".join(failure.value.__notes__)
        assert len(await read_all(mq, topic)) == 4


@capability("Durability `none`")
async def test_durability_none(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        receipt = await mq.send(topic, b"x", durability="none")
        assert receipt.queue_offset == -1
        assert [message.message_id for message in await read_until(mq, topic, 1)] == [receipt.message_id]


@pytest.mark.parametrize(
    "level", [pytest.param(name, marks=capability(f"Durability `{name}`")) for name in ("memory", "disk")]
)
async def test_durability(engine: Engine, topic: str, level: str) -> None:
    async with engine.client() as mq:
        receipts = await asyncio.gather(*(mq.send(topic, b"x", durability=level, ordering_key="k") for _ in range(20)))  # type: ignore[arg-type]
        assert sorted(receipt.queue_offset for receipt in receipts) == list(range(20))
    async with engine.client(durability=level) as mq:
        assert (await mq.send(topic, b"x", ordering_key="k")).queue_offset == 20
        assert len(await read_until(mq, topic, 21)) == 21


async def test_levels_in_turn_keep_each_its_promise(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        levels = ["disk", "none", "memory", "none", "disk", "memory"] * 5
        futures = [
            mq.send_nowait(topic, b"%d" % n, durability=level, ordering_key="k")  # type: ignore[arg-type]
            for n, level in enumerate(levels)
        ]
        receipts = await asyncio.gather(*futures)
        assert [receipt.queue_offset == -1 for receipt in receipts] == [level == "none" for level in levels]
        messages = await read_until(mq, topic, len(levels))
        assert sorted(int(message.body) for message in messages) == list(range(len(levels)))
        numbered = [receipt.queue_offset for receipt in receipts if receipt.queue_offset >= 0]
        assert numbered == sorted(numbered)


async def test_a_durability_that_does_not_exist(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(InvalidArgumentError, match="none, memory, disk, replicas"):
            await mq.send(topic, b"x", durability="paper")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "codec", [pytest.param(name, marks=capability(f"Compression with {name}")) for name in ("lz4", "zstd")]
)
async def test_compression(engine: Engine, topic: str, codec: str) -> None:
    bodies = [b"long " * 10_000, b"short", b""]
    async with engine.client(compression_type=codec) as mq:
        for body in bodies:
            await mq.send(topic, body, ordering_key="k")
    async with engine.client() as mq:
        assert [message.body for message in await read_all(mq, topic)] == bodies


@capability("Bytes, strings and JSON are distinguished by their type")
async def test_values(engine: Engine, topic: str) -> None:
    values = [b"raw", bytearray(b"raw"), "текст", {"id": 1, "名": [1.5, None, True]}, [1, 2], 7, None]
    async with engine.client() as mq:
        for value in values:
            await mq.send(topic, value, ordering_key="k")
        assert [message.value for message in await read_all(mq, topic)] == [b"raw", *values[1:]]


@capability("A serializer per topic: JSON, MessagePack, a pydantic model")
async def test_serializers(engine: Engine, topic: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    order_model = pydantic.create_model("Order", id=(int, ...))
    async with engine.client(serializers={topic: MsgPack()}) as mq:
        await mq.send(topic, {"id": 1, b"raw": b"\x00"}, ordering_key="k")
        mq.serializer(topic, Model(order_model))
        await mq.send(topic, order_model(id=2), ordering_key="k")
        first, second = await read_all(mq, topic)
        assert first.value == {"id": 1, b"raw": b"\x00"}
        assert second.value == order_model(id=2)
        with pytest.raises(SerializationError, match="expected Order"):
            await mq.send(topic, {"id": 3})
    async with engine.client(serializers={topic: Json()}) as mq:
        assert [message.value for message in await read_all(mq, topic)][1] == {"id": 2}


async def test_values_that_cannot_be_serialized(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(SerializationError, match="Send bytes, a string or a JSON value"):
            await mq.send(topic, object())
        await mq.send(topic, b"x", properties={"content-type": "image/png"})
        (message,) = await read_all(mq, topic)
        assert message.body == b"x"
        with pytest.raises(SerializationError, match="image/png"):
            _ = message.value


@pytest.mark.parametrize("choice", ["round_robin", "random", "key_hash", "least_latency"])
async def test_every_way_to_choose_a_queue(engine: Engine, topic: str, choice: str) -> None:
    async with engine.client(queue_choice=choice, max_batch_messages=1) as mq:
        await mq.admin.create_topic(topic, queues=4)
        receipts = [await mq.send(topic, b"x", keys=f"k{n}") for n in range(40)]
        again = [await mq.send(topic, b"x", keys=f"k{n}") for n in range(40)]
        if choice == "round_robin":
            assert {sum(receipt.queue_id == queue for receipt in receipts) for queue in range(4)} == {10}
        else:
            assert len({receipt.queue_id for receipt in receipts}) > 1
        if choice == "key_hash":
            assert [receipt.queue_id for receipt in again] == [receipt.queue_id for receipt in receipts]
        assert len(await read_all(mq, topic)) == 80


@capability("Automatic batching with `linger_ms`, or one message per request")
@pytest.mark.parametrize(
    "settings", [{"linger_ms": 20}, {"max_batch_messages": 1}, {"max_batch_bytes": 1024}, {"max_in_flight_requests": 1}]
)
async def test_batching_changes_nothing_but_the_speed(engine: Engine, topic: str, settings: dict[str, int]) -> None:
    async with engine.client(**settings) as mq:
        receipts = await asyncio.gather(*(mq.send(topic, b"%d" % n, ordering_key="k") for n in range(200)))
        assert [receipt.queue_offset for receipt in receipts] == list(range(200))
        assert [int(message.body) for message in await read_all(mq, topic)] == list(range(200))


@capability("100 concurrent senders")
async def test_many_tasks_send(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:

        async def produce(task: int) -> list[SendReceipt]:
            return [await mq.send(topic, b"%d:%d" % (task, n), ordering_key=str(task)) for n in range(20)]

        receipts = [receipt for done in await asyncio.gather(*map(produce, range(100))) for receipt in done]
        assert len({(receipt.queue_id, receipt.queue_offset) for receipt in receipts}) == 2000
        seen: dict[bytes, list[int]] = {}
        for message in await read_all(mq, topic):
            task, _, number = message.body.partition(b":")
            seen.setdefault(task, []).append(int(number))
        assert len(seen) == 100
        assert all(numbers == list(range(20)) for numbers in seen.values())


@capability("A full buffer: `send` waits, `send_nowait` raises `BufferFullError`")
async def test_a_full_buffer(engine: Engine, topic: str) -> None:
    async with engine.client(buffer_bytes=64 * 1024, max_batch_bytes=16 * 1024) as mq:
        taken: list[asyncio.Future[SendReceipt]] = []
        with pytest.raises(BufferFullError, match="buffer_bytes"):
            taken.extend(mq.send_nowait(topic, bytes(1000)) for _ in range(1000))
        assert 40 < len(taken) < 80
        patient = [asyncio.ensure_future(mq.send(topic, b"patient", ordering_key="k")) for _ in range(5)]
        await asyncio.gather(*taken)
        await asyncio.gather(*patient)
        assert len(await read_all(mq, topic)) == len(taken) + 5
        assert len(await mq.send_batch(topic, [bytes(1000)] * 500)) == 500  # waits for buffer space


def _offsets(messages: list[Message]) -> list[int]:
    return [message.queue_offset for message in messages]


@capability("Order by `ordering_key` and within each queue")
async def test_order(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        futures = [mq.send_nowait(topic, b"%d" % n, ordering_key=f"key-{n % 7}") for n in range(700)]
        await mq.flush()
        positions: dict[int, set[int]] = {}
        for n, future in enumerate(futures):
            positions.setdefault(n % 7, set()).add(future.result().queue_id)
        assert all(len(queues) == 1 for queues in positions.values())  # a key stays in its queue
        messages = await read_all(mq, topic)
        for key in range(7):
            of_key = [int(message.body) for message in messages if message.ordering_key == f"key-{key}"]
            assert of_key == list(range(key, 700, 7))
        for queue in {message.queue_id for message in messages}:
            of_queue = [message for message in messages if message.queue_id == queue]
            assert _offsets(of_queue) == list(range(len(of_queue)))
