"""Topics: created, described and deleted; messages found by key."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from litemq import OutgoingMessage
from litemq.client.engine.archives import ArchivedQueue
from litemq.client.engine.topics import TopicSettings
from litemq.errors import InvalidArgumentError, LiteMQError, NoRouteError, TopicNotFoundError
from litemq.types import is_system_name
from support.engines import Engine, read_all
from support.waiting import HANG_S

capability = pytest.mark.capability


@capability("Create, describe and list topics; list brokers")
async def test_topics(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        created = await mq.admin.create_topic(topic, queues=3)
        assert created.topic == topic
        assert [(queue.queue_id, queue.least, queue.next) for queue in created.queues] == [
            (0, 0, 0),
            (1, 0, 0),
            (2, 0, 0),
        ]
        assert await mq.admin.create_topic(topic, queues=3) == created  # the same again changes nothing
        with pytest.raises(InvalidArgumentError, match="3 queues"):
            await mq.admin.create_topic(topic, queues=5)
        for wrong in (0, -1, 100_001, "4"):
            with pytest.raises(InvalidArgumentError, match="queues="):
                await mq.admin.create_topic(f"{topic}-wrong", queues=wrong)  # type: ignore[arg-type]
        await mq.send_batch(topic, [OutgoingMessage(b"x", ordering_key=str(n)) for n in range(50)])
        described = await mq.admin.describe_topic(topic)
        assert sum(queue.next for queue in described.queues) == 50
        assert (await mq.admin.topics())[topic] == 3
        (broker,) = await mq.admin.brokers()
        assert broker.alive
        assert {queue.broker for queue in described.queues} == {broker.name}
        named = await mq.admin.create_topic(f"{topic}-named", brokers=[broker.name])
        assert len(named.queues) == 4
        with pytest.raises(NoRouteError, match="nobody"):
            await mq.admin.create_topic(f"{topic}-nowhere", brokers=["nobody"])


@capability("Topic settings: priorities, TTL, backlog")
async def test_settings_of_a_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        made = await mq.admin.create_topic(topic, queues=2, priorities=True, ttl=1.5)
        assert len(made.queues) == 16
        assert made.settings == TopicSettings("strict", ttl_ms=1500)
        altered = await mq.admin.alter_topic(
            topic, priorities="weighted", ttl=0, max_backlog=7, when_full="dead_letter"
        )
        assert altered.settings == TopicSettings("weighted", 0, 7, "dead_letter")
        assert await mq.admin.describe_topic(topic) == altered
        assert await mq.admin.create_topic(topic, queues=2, priorities="weighted") == altered
        for wrong in ({"queues": 2}, {"queues": 2, "priorities": "weighted", "ttl": 9}):
            with pytest.raises(InvalidArgumentError, match="already exists with 16 queues"):
                await mq.admin.create_topic(topic, **wrong)
        for nonsense in ({"priorities": "high"}, {"when_full": "drop"}, {"max_backlog": -1}, {"ttl": -1}):
            with pytest.raises(InvalidArgumentError):
                await mq.admin.create_topic(f"{topic}-2", **nonsense)
        await mq.admin.create_topic(f"{topic}-plain")
        with pytest.raises(InvalidArgumentError, match="has no priorities"):
            await mq.admin.alter_topic(f"{topic}-plain", priorities="weighted")
        with pytest.raises(InvalidArgumentError, match="nothing to change"):
            await mq.admin.alter_topic(topic)


@capability("A topic's maximum age of messages")
async def test_retention_of_a_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        made = await mq.admin.create_topic(topic, queues=1, retention=timedelta(days=7))
        assert made.settings == TopicSettings(retention_ms=7 * 86_400_000)
        await mq.send_batch(topic, [OutgoingMessage(b"x")] * 3)
        await mq.admin.alter_topic(topic, retention=0.001)  # takes effect at once
        async with asyncio.timeout(HANG_S):
            while (queue := (await mq.admin.describe_topic(topic)).queues[0]).least < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert queue.next == 3
        assert await read_all(mq, topic) == []
        altered = await mq.admin.alter_topic(topic, retention=0)
        assert altered.settings == TopicSettings()
        await mq.send(topic, b"y")
        assert [message.body for message in await read_all(mq, topic)] == [b"y"]
        for nonsense in (-1, "7d", timedelta(days=4000)):
            with pytest.raises(InvalidArgumentError, match="retention"):
                await mq.admin.alter_topic(topic, retention=nonsense)  # type: ignore[arg-type]


@capability("A topic's visibility: consumers in both modes get received messages")
async def test_visibility_of_a_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        made = await mq.admin.create_topic(topic, queues=1, visibility="received")
        assert made.settings == TopicSettings(visibility="received")
        for mode in ("queue", "lease"):
            async with mq.consumer(topic, group_id=mode, mode=mode, auto_offset_reset="earliest") as consumer:
                await mq.send(topic, mode, durability="memory")
                async with asyncio.timeout(HANG_S):
                    async for message in consumer:
                        await message.ack()
                        if message.body == mode.encode():
                            break
        altered = await mq.admin.alter_topic(topic, visibility="confirmed")
        assert altered.settings == TopicSettings()
        with pytest.raises(InvalidArgumentError, match="choose one of confirmed, received"):
            await mq.admin.alter_topic(topic, visibility="seen")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="choose one of confirmed, received"):
            await mq.admin.create_topic(f"{topic}-2", visibility="")  # type: ignore[arg-type]


@capability("A topic's archive: report, describe, move; retention waits for it")
async def test_an_archive(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        made = await mq.admin.create_topic(topic, queues=1, archived="drop-with-record", archive_wait=3600)
        assert made.settings == TopicSettings(archived="drop-with-record", archive_wait_ms=3_600_000)
        altered = await mq.admin.alter_topic(topic, archived="block", archive_wait=0)
        assert altered.settings == TopicSettings(archived="block")
        with pytest.raises(InvalidArgumentError, match="choose one of no, block, drop-with-record"):
            await mq.admin.alter_topic(topic, archived="drop")  # type: ignore[arg-type]
        await mq.send_batch(topic, [b"x"] * 5)
        assert (await mq.admin.describe_archive(topic)).location == ""
        with pytest.raises(InvalidArgumentError, match="no archive"):
            await mq.admin.move_archive(topic, "/elsewhere")
        broker = made.queues[0].broker
        await mq.admin.archived_through(topic, "/table", {(broker, 0): 3})
        fact = await mq.admin.describe_archive(topic)
        assert (fact.location, fact.queues) == ("/table", (ArchivedQueue(broker, 0, 0, 3),))
        with pytest.raises(InvalidArgumentError, match="already archived in /table"):
            await mq.admin.archived_through(topic, "/other", {(broker, 0): 4})
        with pytest.raises(InvalidArgumentError, match="not on broker nobody"):
            await mq.admin.archived_through(topic, "/table", {("nobody", 0): 4})
        moved = await mq.admin.move_archive(topic, "/other")
        assert (moved.location, moved.queues) == ("/other", fact.queues)
        await mq.admin.archived_through(topic, "/new", {(broker, 0): 1}, replace=True)
        assert (await mq.admin.describe_archive(topic)).queues == (ArchivedQueue(broker, 0, 0, 1),)


@capability("Delete a topic and recreate it empty")
async def test_a_topic_that_is_deleted(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await mq.admin.create_topic(topic, queues=1)
        await mq.send_batch(topic, [b"old"] * 5)
        await other.send(topic, b"old")
        await mq.admin.delete_topic(topic)
        assert topic not in await mq.admin.topics()
        with pytest.raises(TopicNotFoundError):
            await mq.admin.describe_topic(topic)
        with pytest.raises(TopicNotFoundError):
            await mq.admin.delete_topic(topic)
        await mq.admin.create_topic(topic, queues=2)
        await mq.send(topic, b"new")
        await _send_with_retry(other.send, topic)
        assert {message.body for message in await read_all(mq, topic)} == {b"new"}


async def _send_with_retry(send, topic: str) -> None:  # type: ignore[no-untyped-def]
    """Send, and retry once: a client that did not delete the topic may have one send refused."""
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                await send(topic, b"new")
                return
            except TopicNotFoundError:
                await asyncio.sleep(0.05)


@capability("Automatic topic creation, if the broker allows it")
async def test_use_creates_a_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        await asyncio.gather(mq.send(topic, b"x"), other.send(topic, b"y"))
        queues = (await mq.admin.topics())[topic]
        assert queues >= 1
        assert len(await read_all(other, topic)) == 2
        assert await mq.receive(f"{topic}-read", group_id="g", wait=0.2) == []
        assert (await mq.admin.topics())[f"{topic}-read"] == queues


@capability("`TopicNotFoundError` for a missing topic, if the broker does not create topics")
@pytest.mark.no_auto_create
async def test_use_does_not_create_a_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(TopicNotFoundError, match="litemq topic create"):
            await mq.send(topic, b"x")
        with pytest.raises(TopicNotFoundError):
            await mq.send_batch(topic, [b"x", b"y"])
        with pytest.raises(TopicNotFoundError):
            await anext(mq.consumer(topic, group_id="g"))
        with pytest.raises(TopicNotFoundError):
            await mq.receive(topic, group_id="g2", wait=HANG_S)
        with pytest.raises(TopicNotFoundError):
            await anext(mq.reader(topic))
        for question in (
            mq.admin.describe_topic(topic),
            mq.admin.find(topic, "k"),
            mq.admin.offset_at_time(topic, datetime.now(UTC)),
        ):
            with pytest.raises(TopicNotFoundError):
                await question
        await mq.admin.create_topic(topic, queues=1)
        assert (await mq.send(topic, b"x")).queue_offset == 0
        (message,) = await mq.receive(topic, group_id="g2", wait=HANG_S)  # what failed before is tried again
        assert message.body == b"x"


async def test_look_ups_create_no_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        for question in (
            mq.admin.describe_topic(topic),
            mq.admin.find(topic, "k"),
            mq.admin.get(topic, "id"),
            mq.admin.delete_topic(topic),
        ):
            with pytest.raises(TopicNotFoundError):
                await question
        assert topic not in await mq.admin.topics()


@capability("Find messages by key and id; first offset at a time")
async def test_find(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        before = datetime.now(UTC) - timedelta(seconds=5)
        receipts = [await mq.send(topic, b"%d" % n, keys=["all", f"k{n}"], ordering_key="k") for n in range(5)]
        found = await mq.admin.find(topic, "all")
        assert [message.body for message in found] == [b"0", b"1", b"2", b"3", b"4"]
        assert [message.message_id for message in await mq.admin.find(topic, "k3")] == [receipts[3].message_id]
        assert [message.body for message in await mq.admin.find(topic, "all", most=2)] == [b"3", b"4"]
        assert await mq.admin.find(topic, "none") == []
        for wrong in ({"key": "\ud800"}, {"key": 7}, {"key": "k", "most": 0}, {"key": "k", "most": -1}):
            with pytest.raises(InvalidArgumentError):
                await mq.admin.find(topic, **wrong)
        message = await mq.admin.get(topic, receipts[2].message_id)
        assert message is not None
        assert (message.body, message.queue_id, message.queue_offset) == (b"2", receipts[2].queue_id, 2)
        assert await mq.admin.get(topic, "nothing") is None
        queue_key = (receipts[0].broker, receipts[0].queue_id)
        assert (await mq.admin.offset_at_time(topic, before))[queue_key] == 0
        assert (await mq.admin.offset_at_time(topic, datetime.now(UTC) + timedelta(hours=1)))[queue_key] == 5
        at = datetime.fromtimestamp(receipts[4].store_timestamp / 1000, UTC)
        assert (await mq.admin.offset_at_time(topic, at))[queue_key] <= 4
        with pytest.raises(InvalidArgumentError, match="time zone"):
            await mq.admin.offset_at_time(topic, datetime(2030, 1, 1))  # noqa: DTZ001


HOSTILE = [
    "", " ", ".", "..", "a/b", "../../etc/passwd", "a b", "a\x00b", "a\nb", "naïve", "订单",
    "%RETRY%g", "LITEMQ_SYS_CONTROL", "RMQ_SYS_X", "x" * 128, "a" * 10_000, "\ud800",
]  # fmt: skip


@capability("Invalid names are rejected")
@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:20]))
async def test_hostile_names(engine: Engine, topic: str, name: str) -> None:
    async with engine.client() as mq:
        for attempt in (
            mq.send(name, b"x"),
            mq.send_batch(name, [b"x"]),
            mq.admin.create_topic(name),
            mq.admin.delete_topic(name),
        ):
            with pytest.raises(InvalidArgumentError):
                await attempt
        with pytest.raises(InvalidArgumentError):
            mq.send_nowait(name, b"x")
        if not is_system_name(name):  # those may be looked at
            with pytest.raises(InvalidArgumentError):
                mq.reader(name)
        for topic_name, group in ((name, "g"), (topic, name)):
            with pytest.raises(InvalidArgumentError):
                mq.consumer(topic_name, group_id=group)
            with pytest.raises(InvalidArgumentError):
                await mq.receive(topic_name, group_id=group, wait=0)
            with pytest.raises(InvalidArgumentError):
                mq.subscriber(topic_name, group_id=group)
        if not is_system_name(name):
            for question in (
                mq.admin.describe_topic(name),
                mq.admin.find(name, "k"),
                mq.admin.offset_at_time(name, datetime.now(UTC)),
            ):
                with pytest.raises(LiteMQError):
                    await question


async def test_the_longest_names(engine: Engine, topic: str) -> None:
    name = (topic + "-_.Aa0" * 30)[:127]
    async with engine.client() as mq:
        receipt = await mq.send(name, b"x")
        (message,) = await mq.receive(name, group_id="g" * 127, wait=HANG_S)
        assert message.message_id == receipt.message_id
        await message.ack()
