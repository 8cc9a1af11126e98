"""The client against real brokers: sending, receiving, and broker restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from litemq.broker.limits import BrokerLimits
from litemq.client.async_client import AsyncClient
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.messages.serializers import Json
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.errors import (
    AlreadySettledError,
    BufferFullError,
    ClientClosedError,
    InvalidArgumentError,
    TopicNotFoundError,
)
from support.clusters import LocalCluster, local_cluster
from support.waiting import HANG_S, eventually


def run(test: Callable[[LocalCluster], Awaitable[None]], *names: str, limits: BrokerLimits | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG_S), local_cluster(*names, limits=limits) as cluster:
            await test(cluster)

    asyncio.run(main())


async def read_all(client: AsyncClient, topic: str) -> list[Message]:
    return [message async for message in client.reader(topic, follow=False)]


def test_send_and_receive() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            receipt = await mq.send(
                "orders", b"hello", tags="new", keys=["k1", "k2"], properties={"p": "v"}, ordering_key="customer"
            )
            assert (receipt.topic, receipt.broker, receipt.queue_offset) == ("orders", "a", 0)
            async for message in mq.consumer("orders", group_id="g"):
                assert (message.body, message.value, message.message_id) == (b"hello", b"hello", receipt.message_id)
                assert (message.tags, message.keys, dict(message.properties)) == (("new",), ("k1", "k2"), {"p": "v"})
                assert (message.ordering_key, message.broker, message.queue_id) == ("customer", "a", receipt.queue_id)
                assert message.stored_at.tzinfo is UTC
                await message.ack()
                with pytest.raises(AlreadySettledError):
                    await message.ack()
                break

    run(test)


def test_what_was_acknowledged_does_not_come_again() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            await mq.send_batch("orders", [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(10)])
            seen = []
            async with mq.consumer("orders", group_id="g") as consumer:
                async for message in consumer:
                    seen.append(message.body)
                    if len(seen) <= 6:
                        async with message.process():
                            pass
                    if len(seen) == 10:
                        break
            assert seen == [b"%d" % n for n in range(10)]
        async with cluster.client() as mq:
            again = await mq.receive("orders", group_id="g", wait=HANG_S)
            assert [message.body for message in again] == [b"6", b"7", b"8", b"9"]

    run(test)


def test_an_error_in_process_means_another_try() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            await mq.send("orders", b"x")
            (message,) = await mq.receive("orders", group_id="g", wait=HANG_S)
            with pytest.raises(ValueError, match="bad"):
                async with message.process(retry=RetryPolicy(delays=[0])):
                    raise ValueError("bad")
            assert message.is_settled
            (again,) = await mq.receive("orders", group_id="g", wait=HANG_S)
            assert again.attempt == 2

    run(test)


def test_send_nowait_travels_together() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            futures = [mq.send_nowait("orders", b"%d" % n) for n in range(2000)]
            await mq.flush()
            assert all(future.done() for future in futures)
            assert len({(future.result().queue_id, future.result().queue_offset) for future in futures}) == 2000
            assert len({future.result().message_id for future in futures}) == 2000
            assert sorted(int(message.body) for message in await read_all(mq, "orders")) == list(range(2000))

    run(test)


def test_every_durability_and_one_message_a_request() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client(max_batch_messages=1) as mq:
            receipts = await asyncio.gather(*(mq.send("orders", b"x", durability="none") for _ in range(5)))
            assert {receipt.queue_offset for receipt in receipts} == {-1}
            receipts = await asyncio.gather(*(mq.send("orders", b"y", durability="memory") for _ in range(50)))
            assert len({(receipt.queue_id, receipt.queue_offset) for receipt in receipts}) == 50
            assert len(await read_all(mq, "orders")) == 55

    run(test)


def test_lost_connections_lose_and_repeat_nothing() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client(max_batch_messages=3) as mq:
            sent: list[bytes] = []

            async def produce(key: str) -> None:
                for n in range(100):
                    body = f"{key}:{n}".encode()
                    await mq.send("orders", body, ordering_key=key)
                    sent.append(body)

            async def disturb() -> None:
                for turn in range(20):
                    await asyncio.sleep(0.01)
                    cluster.cut("ab"[turn % 2])

            async with asyncio.TaskGroup() as tasks:
                for key in range(8):
                    tasks.create_task(produce(str(key)))
                tasks.create_task(disturb())
            bodies = [message.body for message in await read_all(mq, "orders")]
            assert sorted(bodies) == sorted(sent)
            for key in range(8):
                of_key = [int(body.split(b":")[1]) for body in bodies if body.startswith(b"%d:" % key)]
                assert of_key == list(range(100))

    run(test, "a", "b")


def test_a_consumer_survives_lost_connections_in_order() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            await mq.send_batch("orders", [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(500)])
            seen: list[int] = []
            async with mq.consumer("orders", group_id="g") as consumer:
                async for message in consumer:
                    seen.append(int(message.body))
                    await message.ack()
                    if len(seen) % 100 == 0:
                        cluster.cut("a")
                        await mq.send("orders", b"%d" % (500 + len(seen) // 100 - 1), ordering_key="k")
                    if message.body == b"504":
                        break
            assert seen == list(range(505))

    run(test)


def test_messages_without_key_do_not_wait_for_a_broker_that_is_down() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            await mq.admin.create_topic("orders", queues=2)
            await asyncio.gather(*(mq.send("orders", b"warm") for _ in range(8)))
            cluster.take_down("a")
            receipts = await asyncio.gather(*(mq.send("orders", b"x") for _ in range(20)))
            assert {receipt.broker for receipt in receipts} == {"b"}
            cluster.bring_back("a")

    run(test, "a", "b")


def test_a_key_waits_for_its_broker() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            await mq.admin.create_topic("orders", queues=2)
            brokers = {key: (await mq.send("orders", b"x", ordering_key=key)).broker for key in map(str, range(20))}
            key = next(key for key, broker in brokers.items() if broker == "a")
            cluster.take_down("a")
            engine: Any = mq._opened()
            await eventually(lambda: not engine._nameservers.cached("orders").broker("a").alive)
            waiting = asyncio.ensure_future(mq.send("orders", b"y", ordering_key=key))
            before = cluster.refused["a"]
            await eventually(lambda: cluster.refused["a"] > before + 1)  # it is waited for, and tried again and again
            assert not waiting.done()
            cluster.bring_back("a")
            assert (await waiting).broker == "a"

    run(test, "a", "b")


def test_sends_go_on_without_a_nameserver() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            await mq.send("orders", b"x")
            cluster.take_down("names")
            await eventually(lambda: cluster.refused["names"])
            await mq.send("orders", b"y")
            cluster.bring_back("names")

    run(test)


def test_a_batch_may_be_larger_than_the_buffer() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client(buffer_bytes=64 * 1024, max_batch_bytes=16 * 1024) as mq:
            receipts = await mq.send_batch("orders", [bytes(10_000)] * 100)  # its topic's route is not known yet
            assert len(receipts) == 100

    run(test)


def test_a_full_buffer_waits_or_raises() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client(buffer_bytes=64 * 1024, max_batch_bytes=16 * 1024, shutdown_timeout_ms=50) as mq:
            await mq.send("orders", b"x")
            cluster.take_down("a")
            futures = [mq.send_nowait("orders", bytes(1000)) for _ in range(56)]
            with pytest.raises(BufferFullError):
                mq.send_nowait("orders", bytes(1000))
            waiting = asyncio.ensure_future(mq.send("orders", b"patient"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            cluster.bring_back("a")
            await waiting
            await asyncio.gather(*futures)

    run(test)


def test_serializers_and_compression() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client(compression_type="zstd", serializers={"typed": Json()}) as mq:
            for body in ({"id": 1}, "text", b"raw", "long " * 1000):
                await mq.send("orders", body, ordering_key="k")
            messages = await read_all(mq, "orders")
            assert [message.value for message in messages] == [{"id": 1}, "text", b"raw", "long " * 1000]
            assert messages[0].body == b'{"id":1}'
            assert dict(messages[0].properties) == {"content-type": "application/json"}
            assert messages[3].body == b"long " * 1000
            assert len(messages[3]._fields.body) < 1000
            await mq.send("typed", "a string as JSON")
            assert [(message.body, message.value) for message in await read_all(mq, "typed")] == [
                (b'"a string as JSON"', "a string as JSON")
            ]

    run(test)


def test_admin() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            before = datetime.now(UTC) - timedelta(seconds=5)
            assert len((await mq.admin.create_topic("orders", queues=3)).queues) == 6
            assert [broker.name for broker in await mq.admin.brokers()] == ["a", "b"]
            receipt = await mq.send("orders", b"x", keys="k")
            found = await mq.admin.find("orders", "k")
            assert [message.message_id for message in found] == [receipt.message_id]
            message = await mq.admin.get("orders", receipt.message_id)
            assert message is not None
            assert message.body == b"x"
            assert await mq.admin.get("orders", "nothing") is None
            assert set((await mq.admin.offset_at_time("orders", before)).values()) == {0}
            assert await mq.admin.topics() == {"orders": 6}
            await mq.admin.delete_topic("orders")
            assert await mq.admin.topics() == {}
            with pytest.raises(TopicNotFoundError):
                await mq.admin.describe_topic("orders")

    run(test, "a", "b")


def test_a_topic_that_no_broker_creates() -> None:
    async def test(cluster: LocalCluster) -> None:
        async with cluster.client() as mq:
            with pytest.raises(TopicNotFoundError, match="litemq topic create"):
                await mq.send("orders", b"x")
            with pytest.raises(TopicNotFoundError):
                await anext(mq.consumer("orders", group_id="g"))

    run(test, limits=BrokerLimits(auto_create_topics=False))


def test_a_client_is_used_open() -> None:
    mq = AsyncClient("litemq://127.0.0.1:1")
    with pytest.raises(ClientClosedError, match="async with"):
        asyncio.run(mq.send("orders", b"x"))
    with pytest.raises(InvalidArgumentError, match="linger_ms"):
        AsyncClient("litemq://127.0.0.1:1", linger_ms=-1)
    with pytest.raises(InvalidArgumentError, match="memory://"):
        AsyncClient("lightmq://127.0.0.1:1")
