"""Order and broadcast: one message of a key at a time, and all messages for every consumer."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from litemq import AsyncClient, Message, OutgoingMessage
from litemq.client.settling.retry_policy import RetryPolicy
from litemq.errors import InvalidArgumentError, StoreLockedError
from support.engines import Engine
from support.waiting import HANG_S

capability = pytest.mark.capability
QUICK = RetryPolicy(max_retries=5, min_backoff=0.02, max_backoff=0.02, jitter=0)


@capability("`consumer(ordered=True)`: a failing message blocks only its key")
async def test_a_failing_message_holds_its_key(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await mq.send_batch(
            topic, [OutgoingMessage(f"{key}{n}".encode(), ordering_key=key) for n in range(3) for key in "ab"]
        )
        seen: list[tuple[str, int]] = []
        async with mq.consumer(topic, group_id="g", ordered=True) as consumer, asyncio.timeout(HANG_S):
            async for message in consumer:
                seen.append((message.body.decode(), message.attempt))
                # It fails until the other key is done. If it held that key, neither would finish.
                if message.body == b"a0" and (message.attempt < 3 or ("b2", 1) not in seen):
                    await message.nack(delay=0.2)
                else:
                    await message.ack()
                if message.body == b"a2":
                    break
        of_a, of_b = ([each for each in seen if each[0].startswith(key)] for key in "ab")
        assert of_b == [("b0", 1), ("b1", 1), ("b2", 1)]
        tries = len(of_a) - 2
        assert tries >= 3
        assert of_a == [*(("a0", attempt) for attempt in range(1, tries + 1)), ("a1", 1), ("a2", 1)]
        assert seen[0] == ("a0", 1)


@capability("Global order: a topic with one queue, even if a handler fails")
async def test_global_order(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        await mq.send_batch(topic, [str(n) for n in range(30)])
        done: list[int] = []
        async with mq.consumer(topic, group_id="g", ordered=True, retry=QUICK) as consumer, asyncio.timeout(HANG_S):
            async for message in consumer:
                number = int(message.body)
                with contextlib.suppress(ValueError):
                    async with message.process():
                        if number % 7 == 3 and message.attempt < 3:
                            raise ValueError(number)
                        done.append(number)
                if len(done) == 30:
                    break
        assert done == list(range(30))


@capability("`consumer` with `tags=` or `where=`: rejected messages count as consumed")
async def test_consumers_with_filters(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=1)
        batch = [
            OutgoingMessage(str(n).encode(), tags="even" if n % 2 == 0 else "odd", properties={"n": str(n)})
            for n in range(40)
        ]
        await mq.send_batch(topic, batch)
        for group, options in (("tags", {"tags": "odd"}), ("where", {"where": "tags = 'odd' AND n >= 0"})):
            async with mq.consumer(topic, group_id=group, **options) as consumer, asyncio.timeout(HANG_S):  # type: ignore[arg-type]
                numbers = []
                async for message in consumer:
                    numbers.append(int(message.body))
                    await message.ack()
                    if len(numbers) == 20:
                        break
                assert numbers == list(range(1, 40, 2))
                await consumer.commit()
        got: list[Message] = []
        while len(got) < 2:  # a filter's time for one request is short, so an answer may have one message
            more = await mq.receive(topic, group_id="leased", where="n > 37", wait=HANG_S)
            assert more
            got += more
        assert [int(message.body) for message in got] == [38, 39]
        await mq.ack_batch(got)


@capability("`consumer(mode='broadcast')`: every consumer receives all messages and continues where it was")
async def test_broadcast(engine: Engine, topic: str, tmp_path: Path) -> None:
    async def read(mq: AsyncClient, count: int) -> list[int]:
        numbers = []
        async with (
            mq.consumer(topic, group_id="prices", mode="broadcast", retry=QUICK) as consumer,
            asyncio.timeout(HANG_S),
        ):
            async for message in consumer:
                if message.body == b"3" and message.attempt == 1:
                    await message.nack()  # it is tried again here
                    continue
                numbers.append(int(message.body))
                await message.ack()
                if len(numbers) == count:
                    break
        return sorted(numbers)

    async with (
        engine.client(client_id="shop-1", offsets_directory=str(tmp_path)) as one,
        engine.client(client_id="shop-2", offsets_directory=str(tmp_path)) as two,
        engine.client(offsets_directory=str(tmp_path)) as nameless,
    ):
        await one.send_batch(topic, [str(n) for n in range(10)])
        assert list(await asyncio.gather(read(one, 10), read(two, 10))) == [list(range(10))] * 2
        await one.send_batch(topic, [str(n) for n in range(10, 15)])
        assert await read(one, 5) == list(range(10, 15))
        with pytest.raises(InvalidArgumentError, match="client_id"):
            nameless.consumer(topic, group_id="prices", mode="broadcast")
        consumer = one.consumer(topic, group_id="prices", mode="broadcast")
        with pytest.raises(StoreLockedError):
            one.consumer(topic, group_id="prices", mode="broadcast")
        await consumer.close()
    assert (tmp_path / "prices" / "shop-1" / f"{topic}.json").exists()
