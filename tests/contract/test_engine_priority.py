"""Priority: classes of messages, each in its own queues."""

import pytest

from litemq import OutgoingMessage
from litemq.errors import InvalidArgumentError
from support.engines import Engine, read_all

capability = pytest.mark.capability


@capability("`priority` for topics with priorities")
async def test_a_message_is_in_a_queue_of_its_class(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=3, priorities=True)
        for priority in (None, 0, 31, 32, 128, 255):
            receipt = await mq.send(topic, b"x", priority=priority)
            assert receipt.queue_id % 8 == (128 if priority is None else priority) // 32
        batch = [OutgoingMessage(str(n).encode(), priority=n % 256) for n in range(600)]
        receipts = await mq.send_batch(topic, batch)
        assert [receipt.queue_id % 8 for receipt in receipts] == [n % 256 // 32 for n in range(600)]
        assert {receipt.queue_id // 8 for receipt in await mq.send_batch(topic, [b"x"] * 3000)} <= {0, 1, 2}
        assert len(await read_all(mq, topic)) == 3606


@capability("`priority` with `ordering_key`: one queue per key, in every class")
async def test_a_key_keeps_its_queue(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=5, priorities=True)
        for key in "abcdef":
            queues = {
                (await mq.send(topic, b"x", ordering_key=key, priority=priority)).queue_id // 8
                for priority in (0, 100, 255)
            }
            assert len(queues) == 1


@capability("A priority for a topic without priorities is rejected")
async def test_a_topic_without_priorities(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        for _ in range(2):  # before the route is known, and after
            for send in (mq.send, mq.send_nowait):
                with pytest.raises(InvalidArgumentError, match="has no priorities"):
                    await send(topic, b"x", priority=9)
            await mq.send(topic, b"plain", priority=128)
        assert [message.body for message in await read_all(mq, topic)] == [b"plain", b"plain"]
