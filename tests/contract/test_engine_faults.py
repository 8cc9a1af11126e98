"""Faults: opening, closing and cancelling at any time, and lost connections."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import pytest

from litemq import AsyncClient, OutgoingMessage, SendReceipt
from litemq.errors import ClientClosedError, LiteMQError, SendOutcomeUnknownError
from support.engines import Engine, read_all, read_until
from support.waiting import HANG_S, eventually

capability = pytest.mark.capability


@capability("`close` sends buffered messages")
async def test_closing_sends_what_waits(engine: Engine, topic: str) -> None:
    async with engine.client(linger_ms=5000) as mq:
        futures = [mq.send_nowait(topic, b"%d" % n) for n in range(300)]
    assert all(future.done() for future in futures)
    assert len([future.result() for future in futures]) == 300
    async with engine.client() as mq:
        assert sorted(int(message.body) for message in await read_all(mq, topic)) == list(range(300))


async def test_every_send_ends_where_the_client_is_closed(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic)  # it is there, however little time the other client has
    mq = await engine.client(shutdown_timeout_ms=500).open()
    sends = [asyncio.ensure_future(mq.send(topic, b"%d" % n)) for n in range(200)]
    await asyncio.sleep(0)
    await mq.close()
    async with asyncio.timeout(HANG_S):
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    stored = [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]
    assert all(isinstance(outcome, (SendReceipt, ClientClosedError, SendOutcomeUnknownError)) for outcome in outcomes)
    async with engine.client() as mq:
        ids = [message.message_id for message in await read_all(mq, topic)]
        assert {receipt.message_id for receipt in stored} <= set(ids)
        assert len(set(ids)) == len(ids)


@capability("A closed client raises `ClientClosedError` and can be reopened")
async def test_a_client_is_used_open(engine: Engine, topic: str) -> None:
    mq = engine.client()
    for _ in range(2):
        assert not mq.is_open
        await mq.close()  # nothing to close
        for use in (
            lambda: mq.send_nowait(topic, b"x"),
            lambda: mq.consumer(topic, group_id="g"),
            lambda: mq.reader(topic),
            lambda: mq.admin,
        ):
            with pytest.raises(ClientClosedError, match="async with"):
                use()
        for work in (mq.send(topic, b"x"), mq.send_batch(topic, [b"x"]), mq.flush(), mq.receive(topic, group_id="g")):
            with pytest.raises(ClientClosedError, match="async with"):
                await work
        async with mq:
            assert await mq.open() is mq  # again changes nothing
            await mq.send(topic, b"x", ordering_key="k")
            consumer, reader, admin = mq.consumer(topic, group_id="g"), mq.reader(topic), mq.admin
            await (await anext(consumer)).ack()
        for feed in (consumer, reader):
            with pytest.raises(StopAsyncIteration):
                await anext(feed)
        with pytest.raises(LiteMQError):
            await admin.describe_topic(topic)
    async with engine.client() as mq:
        assert len(await read_all(mq, topic)) == 2


@capability("A cancelled `send` leaves the client usable; the message is stored at most once")
async def test_cancelled_sends(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        kept: list[SendReceipt] = []
        for number in range(60):
            sends = [asyncio.ensure_future(mq.send(topic, b"%d:%d" % (number, n), ordering_key="k")) for n in range(3)]
            await asyncio.sleep(0.001 * (number % 4))
            sends[1].cancel()
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            kept += [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]
        assert len(kept) >= 120
        messages = await read_all(mq, topic)
        bodies = [message.body for message in messages]
        assert len(set(bodies)) == len(bodies)
        assert {receipt.message_id for receipt in kept} <= {message.message_id for message in messages}
        positions = [tuple(map(int, body.split(b":"))) for body in bodies]
        assert positions == sorted(positions)


async def test_a_cancelled_send_that_waits_for_buffer_space(engine: Engine, topic: str) -> None:
    async with engine.client(buffer_bytes=64 * 1024, max_batch_bytes=16 * 1024) as mq:
        sends = [asyncio.ensure_future(mq.send(topic, bytes(4000))) for _ in range(100)]
        await asyncio.sleep(0)
        for send in sends[1::2]:
            send.cancel()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(outcome, SendReceipt) for outcome in outcomes[::2])
        await mq.send(topic, b"after")


async def test_a_cancelled_open_may_be_repeated(engine: Engine, topic: str) -> None:
    mq = engine.client()
    opening = asyncio.ensure_future(mq.open())
    await asyncio.sleep(0)
    opening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await opening
    async with mq:
        await mq.send(topic, b"x")


async def _disturb(engine: Engine, done: Callable[[], int], marks: Iterable[int]) -> None:
    """Cut all connections at each mark of progress, so that slow machines are also cut at work."""
    for mark in marks:
        await eventually(lambda mark=mark: done() >= mark)  # type: ignore[misc]
        engine.drop_connections()


async def _produce(mq: AsyncClient, topic: str, key: int, numbers: range, sent: list[SendReceipt]) -> None:
    for number in numbers:
        receipt = await mq.send(topic, b"%d:%d" % (key, number), ordering_key=str(key))
        sent.append(receipt)


def _check_keys(bodies: list[bytes], keys: int, count: int) -> None:
    for key in range(keys):
        of_key = [int(body.partition(b":")[2]) for body in bodies if body.startswith(b"%d:" % key)]
        assert of_key == list(range(count)), f"key {key}"


@capability("Lost connections while sending: no loss, no duplicates, order by key")
@pytest.mark.parametrize(
    "settings", [{}, {"max_batch_messages": 3}, {"connections_per_broker": 3}, {"durability": "memory"}], ids=str
)
async def test_cut_while_sending(engine: Engine, topic: str, settings: dict[str, int]) -> None:
    async with engine.client(**settings) as mq:
        await mq.admin.create_topic(topic, queues=4)
        sent: list[SendReceipt] = []
        async with asyncio.TaskGroup() as tasks:
            for key in range(8):
                tasks.create_task(_produce(mq, topic, key, range(100), sent))
            tasks.create_task(_disturb(engine, lambda: len(sent), range(20, 800, 50)))
    async with engine.client() as mq:
        bodies = [message.body for message in await read_until(mq, topic, 800)]
        assert len(bodies) == 800
        _check_keys(bodies, 8, 100)


@capability("Lost connections with `send_nowait`: every receipt is correct")
async def test_cut_under_send_nowait(engine: Engine, topic: str) -> None:
    async with engine.client(max_batch_messages=4) as mq:  # small requests, of which many are on their way
        await mq.admin.create_topic(topic, queues=4)
        futures = [mq.send_nowait(topic, b"%d" % number) for number in range(1000)]
        await mq.flush()
        received = 0

        def count(_receipt: object) -> None:
            nonlocal received
            received += 1

        disturbing = asyncio.ensure_future(_disturb(engine, lambda: received, range(10, 2000, 200)))
        for number in range(1000, 3000):
            futures.append(mq.send_nowait(topic, b"%d" % number))
            futures[-1].add_done_callback(count)
            if number % 50 == 0:
                await asyncio.sleep(0.005)
        receipts = await asyncio.gather(*futures)
        await disturbing
        messages = {message.message_id: message for message in await read_all(mq, topic)}
        assert len(messages) == 3000
        for receipt in receipts:
            message = messages[receipt.message_id]
            assert (message.queue_id, message.queue_offset) == (receipt.queue_id, receipt.queue_offset)
            assert message.store_timestamp == receipt.store_timestamp


@capability("Lost connections while a group reads: no loss, order by key, reading continues")
async def test_cut_while_consuming(engine: Engine, topic: str) -> None:
    async with engine.client() as producer, engine.client(auto_commit_interval_ms=10) as mq:
        await producer.admin.create_topic(topic, queues=4)
        seen: list[bytes] = []

        async def consume() -> None:
            async with mq.consumer(topic, group_id="g") as consumer:
                async for message in consumer:
                    seen.append(message.body)
                    await message.ack()
                    if len(seen) == 800:
                        break

        sent: list[SendReceipt] = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consume())
            async with asyncio.TaskGroup() as work:
                for key in range(8):
                    work.create_task(_produce(producer, topic, key, range(99), sent))
                work.create_task(_disturb(engine, lambda: len(seen), range(20, 790, 50)))
            # Messages after the last cut reach a member of the group, which commits when it closes.
            for key in range(8):
                await _produce(producer, topic, key, range(99, 100), sent)
        assert len(set(seen)) == 800  # one client: what it has seen it does not see again
        _check_keys(seen, 8, 100)
    async with engine.client() as mq:
        assert await mq.receive(topic, group_id="g", wait=0.2) == []


@capability("Lost connections between acknowledgement and commit: redelivery possible, no loss")
async def test_cut_and_reopened(engine: Engine, topic: str) -> None:
    done: list[int] = []
    async with engine.client() as mq:
        await mq.send_batch(topic, [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(300)])
    while 299 not in done:
        async with engine.client(auto_commit_interval_ms=5) as mq:
            for message in await mq.receive(topic, group_id="g", max_messages=20, wait=HANG_S):
                done.append(int(message.body))
                await message.ack()
            await asyncio.sleep(0.01)
            engine.drop_connections()
    assert sorted(set(done)) == list(range(300))


async def test_a_reader_goes_on_where_it_was_cut(engine: Engine, topic: str) -> None:
    async with engine.client(prefetch_bytes=64 * 1024, max_poll_records=10) as mq:
        await mq.send_batch(topic, [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(500)])
        seen = []
        async for message in mq.reader(topic, follow=False):
            seen.append(int(message.body))
            if len(seen) % 100 == 50:
                engine.drop_connections()
                await asyncio.sleep(0.01)
        assert seen == list(range(500))


async def test_requests_are_retried_after_a_cut(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=2)
        for _ in range(5):
            engine.drop_connections()
            await asyncio.sleep(0.05)
            assert len((await mq.admin.describe_topic(topic)).queues) == 2
            assert topic in await mq.admin.topics()
            await mq.send(topic, b"x", durability="none")
