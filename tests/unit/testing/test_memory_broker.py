"""``MemoryBroker``: clients on any thread and event loop use it."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from litemq import AsyncClient, Client
from litemq.errors import ConnectionLostError, TopicNotFoundError, UnsupportedFeatureError
from litemq.testing import FakeClock, MemoryBroker
from support.waiting import HANG_S, wait_until


def test_clients_on_several_loops_and_threads_share_it() -> None:
    async def send(url: str, body: str) -> None:
        async with AsyncClient(url) as mq:
            await mq.send("orders", body, ordering_key="k")

    with MemoryBroker() as broker, ThreadPoolExecutor(4) as threads:
        asyncio.run(send(broker.url, "0"))
        asyncio.run(send(broker.url, "1"))
        with Client(broker.url) as mq, Client(broker.url) as other:
            mq.send("orders", "2", ordering_key="k")
            other.send("orders", "3", ordering_key="k")
            list(threads.map(lambda n: asyncio.run(send(broker.url, str(n))), range(4, 12)))
            assert [message.value for message in broker.messages("orders")][:4] == ["0", "1", "2", "3"]
            assert sorted(int(message.value) for message in mq.reader("orders", follow=False)) == list(range(12))


def test_messages_of_a_producer_are_in_the_order_in_which_they_were_sent() -> None:
    with MemoryBroker(clock=FakeClock()) as broker, Client(broker.url) as mq:
        assert broker.messages("orders") == []
        assert mq.admin.topics() == {}
        for number in range(50):
            mq.send("orders", b"%d" % number)
        assert len({message.queue_id for message in broker.messages("orders")}) == 4
        assert [int(message.body) for message in broker.messages("orders")] == list(range(50))


def test_it_runs_by_its_clock() -> None:
    clock = FakeClock()
    with MemoryBroker(clock=clock) as broker, Client(broker.url) as mq:
        first = mq.send("orders", b"x")
        clock.advance(3600)
        second = mq.send("orders", b"y")
        assert second.store_timestamp - first.store_timestamp == 3_600_000
        assert broker.clock is clock


def test_topics_without_auto_creation() -> None:
    with MemoryBroker(auto_create_topics=False) as broker, Client(broker.url) as mq:
        with pytest.raises(TopicNotFoundError):
            mq.send("orders", b"x")
        broker.create_topic("orders", queues=2)
        mq.send("orders", b"x")
        assert len(mq.admin.describe_topic("orders").queues) == 2
    with MemoryBroker(default_queues=7) as broker, Client(broker.url) as mq:
        mq.send("orders", b"x")
        assert len(mq.admin.describe_topic("orders").queues) == 7


def test_each_broker_starts_empty_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        with MemoryBroker() as broker:
            assert broker.start() is broker
            assert broker.messages("orders") == []
            with Client(broker.url) as mq:
                mq.send("orders", b"x")
            assert len(broker.messages("orders")) == 1
        broker.close()
        with pytest.raises(RuntimeError, match="with MemoryBroker"):
            broker.messages("orders")
    wait_until(lambda: before.issuperset(threading.enumerate()))


def test_a_client_that_outlives_it_gets_an_error() -> None:
    with MemoryBroker() as broker:
        mq = Client(broker.url, retry_backoff_ms=5).open()
        mq.send("orders", b"x")
    object.__setattr__(mq._wrapped.config, "request_timeout_ms", 100)  # only now: a busy broker may take longer
    with pytest.raises(ConnectionLostError):
        mq.admin.topics()
    mq.close()


def test_leases_of_a_loop_that_ended_without_closing_expire() -> None:
    async def leave_open(url: str) -> None:
        mq = await AsyncClient(url, fetch_wait_ms=50).open()
        (message,) = await mq.receive("orders", group_id="g", wait=HANG_S, lease=0.5)
        assert message.body == b"x"

    with MemoryBroker() as broker, Client(broker.url) as mq:
        mq.send("orders", b"x")
        asyncio.run(leave_open(broker.url))
        (again,) = mq.receive("orders", group_id="g", wait=HANG_S)
        assert again.attempt == 2


def test_a_memory_url_is_bound_to_one_loop() -> None:
    async def second() -> None:
        with pytest.raises(UnsupportedFeatureError, match="MemoryBroker"):
            async with AsyncClient("memory://shared"):
                pass

    async def first() -> None:
        async with (
            AsyncClient("memory://shared") as mq,
            AsyncClient("memory://shared") as other,
            AsyncClient("memory://apart") as apart,
        ):
            await mq.send("orders", b"x")
            assert await other.admin.topics() == {"orders": 4}
            assert await apart.admin.topics() == {}
            await asyncio.to_thread(asyncio.run, second())
        async with AsyncClient("memory://shared") as mq:
            assert await mq.admin.topics() == {}  # gone with its last client

    asyncio.run(first())


def test_the_cluster_of_an_ended_loop_is_replaced() -> None:
    async def leave_open() -> None:
        mq = await AsyncClient("memory://left").open()
        await mq.send("orders", b"x")

    async def come() -> None:
        async with AsyncClient("memory://left") as mq:
            assert await mq.admin.topics() == {}

    asyncio.run(leave_open())
    asyncio.run(come())
