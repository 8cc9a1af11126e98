"""Delays: never early, complete, in their queue, and named in the receipt."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from litemq import OutgoingMessage
from litemq.errors import InvalidArgumentError
from support.engines import Engine, read_all, read_until

capability = pytest.mark.capability
HOUR = timedelta(hours=1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@capability("`delay`: delivered when due, never early")
async def test_a_delayed_message_comes_when_it_is_due(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        much_later = await mq.send(topic, b"much later", delay=HOUR, ordering_key="o")
        assert (much_later.topic, much_later.queue_offset) == (topic, -1)
        now = await mq.send(topic, b"now", ordering_key="o")
        assert now.queue_offset == 0
        assert [message.body for message in await read_all(mq, topic)] == [b"now"]
        before = _now_ms()
        receipt = await mq.send(topic, b"later", delay=2, keys="k", properties={"p": "v"}, ordering_key="o")
        first, second = await read_until(mq, topic, 2)
        assert (first.body, second.body, second.message_id) == (b"now", b"later", receipt.message_id)
        assert (second.queue_id, second.queue_offset) == (receipt.queue_id, 1)
        assert (second.keys, second.properties["p"], second.ordering_key) == (("k",), "v", "o")
        assert second.store_timestamp >= before + 2000
        assert [found.message_id for found in await mq.admin.find(topic, "k")] == [receipt.message_id]


@capability("`deliver_at`: a past time delivers immediately")
async def test_a_message_is_delivered_at_a_time(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send(topic, b"much later", deliver_at=datetime.now(UTC) + HOUR)
        past = await mq.send(topic, b"past", deliver_at=datetime(2020, 1, 1, tzinfo=UTC))
        assert past.queue_offset == 0
        assert [message.body for message in await read_all(mq, topic)] == [b"past"]
        due = datetime.now(UTC) + timedelta(seconds=2)
        await mq.send(topic, b"later", deliver_at=due)
        later = [message for message in await read_until(mq, topic, 2) if message.body == b"later"]
        assert later[0].store_timestamp >= int(due.timestamp() * 1000)


@capability("Delays in `send_nowait` and `send_batch`, mixed with undelayed messages")
async def test_delays_travel_with_others(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:

        async def send_all(delay: timedelta) -> list[int]:
            futures = [
                mq.send_nowait(topic, b"%d" % n, delay=delay if n % 3 == 1 else None, ordering_key="k")
                for n in range(9)
            ]
            batch = [OutgoingMessage(b"a", delay=delay, ordering_key="k"), OutgoingMessage(b"b", ordering_key="k")]
            receipts = [*await asyncio.gather(*futures), *await mq.send_batch(topic, batch)]
            return [receipt.queue_offset for receipt in receipts]

        at_once, delayed = [b"0", b"2", b"3", b"5", b"6", b"8", b"b"], [b"1", b"4", b"7"]
        assert await send_all(HOUR) == [0, -1, 1, 2, -1, 3, 4, -1, 5, -1, 6]
        assert [message.body for message in await read_all(mq, topic)] == at_once
        # The same with a short delay: how the two kinds interleave depends on the machine.
        await send_all(timedelta(seconds=0.5))
        bodies = [message.body for message in await read_until(mq, topic, 18)][7:]
        assert [body for body in bodies if body in at_once] == at_once
        assert [body for body in bodies if body in delayed] == delayed
        assert bodies.count(b"a") == 1


async def test_in_the_order_of_their_times(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        soon = datetime.now(UTC) + timedelta(seconds=1)
        due = [soon + timedelta(seconds=later) for later in (0.3, 0.1, 0.2, 0.1)]
        # In one request, so that all wait before the first is due. On a very slow machine, some are
        # due on arrival and are delivered before the others.
        receipts = await mq.send_batch(
            topic, [OutgoingMessage(b"%d" % number, deliver_at=each) for number, each in enumerate(due)]
        )
        late = [number for number, receipt in enumerate(receipts) if receipt.queue_offset >= 0]
        in_time = [number for number in (1, 3, 2, 0) if number not in late]
        assert [int(message.body) for message in await read_until(mq, topic, 4)] == late + in_time


async def test_a_consumer_that_waits_gets_it(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        consumer = mq.consumer(topic, group_id="billing")
        waiting = asyncio.ensure_future(anext(consumer))
        await mq.send(topic, b"x", delay=0.2)
        message = await waiting
        assert message.body == b"x"
        await message.ack()


@capability("Delays from 10 ms to 365 days")
async def test_how_long_a_message_may_wait(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        wrong: list[dict[str, Any]] = [
            {"delay": 0.001},
            {"delay": -1},
            {"delay": timedelta(days=366)},
            {"deliver_at": datetime.now(UTC) + timedelta(days=366)},
            {"deliver_at": datetime(2030, 1, 1)},  # noqa: DTZ001
            {"delay": 1, "deliver_at": datetime.now(UTC)},
            {"ttl": 0},
        ]
        for options in wrong:
            with pytest.raises(InvalidArgumentError):
                await mq.send(topic, b"x", **options)
        assert (await mq.send(topic, b"year", delay=timedelta(days=365), ordering_key="k")).queue_offset == -1
        assert (await mq.send(topic, b"at once", delay=0, ordering_key="k")).queue_offset == 0
        await mq.send(topic, b"soon", delay=0.01, ordering_key="k")
        assert [message.body for message in await read_until(mq, topic, 2)] == [b"at once", b"soon"]


@capability("`Client`: delays")
def test_the_synchronous_client_delays(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        before = _now_ms()
        mq.send(topic, b"x", delay=timedelta(seconds=0.2))
        message = next(iter(mq.reader(topic)))
        assert message.body == b"x"
        assert message.store_timestamp >= before + 200
