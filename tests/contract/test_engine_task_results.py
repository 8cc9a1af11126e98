"""Results of tasks: values of declared types, errors, and what is kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

import litemq
from litemq.client.handlers.task_results import RESULTS_TOPIC
from litemq.client.sync.tasks import Task
from litemq.errors import InvalidArgumentError, ResultTimeoutError, SerializationError, TaskFailedError
from support.engines import Engine
from support.waiting import HANG_S

capability = pytest.mark.capability


@dataclass
class Item:
    id: UUID
    price: Decimal


_ITEM = Item(UUID(int=7), Decimal("1.10"))


@asynccontextmanager
async def _running(mq: litemq.AsyncClient) -> AsyncIterator[None]:
    running = asyncio.create_task(mq.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@capability("Results of tasks: `await (await f.send(…)).result(timeout)`")
async def test_a_task_returns_its_result(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:

        @mq.task(topic=f"{topic}-add", group_id=topic)
        def add(a: int, b: int = 0) -> int:
            return a + b

        @mq.task(topic=f"{topic}-raise", group_id=topic, throws=(ValueError,))
        async def double(item: Item, *, at: datetime) -> Item:
            if not item.price:
                raise ValueError("it has no price")
            return Item(item.id, item.price * at.day)

        @other.task(topic=f"{topic}-add", group_id=topic)
        def same(a: int, b: int = 0) -> int:
            raise AssertionError("only declared here")

        early = await add.send(1)  # before a worker runs
        assert not await early.done()
        async with _running(mq), asyncio.timeout(HANG_S):
            assert await early.result() == 1
            assert await early.result(timeout=HANG_S) == 1  # again
            assert await early.done()
            assert await early.result(timeout=0) == 1
            handles = [await add.send(number, b=1) for number in range(20)]
            assert await asyncio.gather(*(handle.result() for handle in handles)) == list(range(1, 21))
            assert await same.handle(handles[3].id).result() == 4  # in another program
            priced = await double.send(_ITEM, at=datetime(2026, 1, 3, tzinfo=UTC))
            assert await priced.result() == Item(_ITEM.id, Decimal("3.30"))
            failed = await double.send(Item(_ITEM.id, Decimal(0)), at=datetime(2026, 1, 3, tzinfo=UTC))
            with pytest.raises(TaskFailedError, match="ValueError: it has no price") as caught:
                await failed.result()
            assert caught.value.error_type == "ValueError"
            with pytest.raises(SerializationError, match="item"):
                await double.send("item", at=datetime(2026, 1, 3, tzinfo=UTC))  # type: ignore[arg-type]
        assert (await mq.admin.describe_topic(RESULTS_TOPIC)).settings.retention_ms == 86_400_000


async def test_a_call_without_a_result(engine: Engine, topic: str) -> None:
    attempts: list[int] = []
    async with engine.client() as mq:

        @mq.task(topic=f"{topic}-a", group_id=topic)
        def never() -> None: ...

        @mq.task(topic=f"{topic}-b", group_id=topic, result_ttl=None)
        def untold() -> None: ...

        @mq.task(topic=f"{topic}-c", group_id=topic, max_retries=2, min_backoff=0.01, max_backoff=0.01)
        def flaky() -> str:
            attempts.append(1)
            if len(attempts) < 3:
                raise OSError("again")
            return "done"

        @mq.task(topic=f"{topic}-d", group_id=topic, result_ttl=timedelta(hours=1))
        def odd() -> object:
            return {1, 2}

        @mq.task(topic=f"{topic}-e", group_id=topic)
        def large() -> str:
            return "x" * 5_000_000

        with pytest.raises(ResultTimeoutError, match=r"no result after 0 s"):
            await (await never.send()).result(timeout=0)
        with pytest.raises(ResultTimeoutError, match=r"no result after 0.01 s: is a worker running"):
            await (await never.send()).result(timeout=0.01)
        silent = await untold.send()
        with pytest.raises(InvalidArgumentError, match="keeps no results"):
            await silent.result()
        with pytest.raises(InvalidArgumentError, match="at most 30 days"):
            mq.task(result_ttl=timedelta(days=31))
        async with _running(mq), asyncio.timeout(HANG_S):
            assert await (await flaky.send()).result() == "done"  # the attempts before are no results
            with pytest.raises(TaskFailedError, match=r"SerializationError: .*set"):
                await (await odd.send()).result()
            with pytest.raises(TaskFailedError, match=r"InvalidArgumentError: .*bytes"):
                await (await large.send()).result()


def test_the_synchronous_client(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq, engine.sync_client() as worker:

        def declare(client: litemq.Client) -> Task[[int], int]:
            @client.task(topic=topic, group_id=topic)
            def double(number: int) -> int:
                return 2 * number

            return double

        declare(worker)
        handle = declare(mq).send(4)
        assert not handle.done()
        running = worker._wrapped._worker(None, None, None, None, None)
        task = worker._thread.call(lambda: asyncio.ensure_future(running.run()))
        assert handle.result(timeout=HANG_S) == 8
        worker._thread.call(running.stop)
        worker._thread.run(asyncio.wait_for(task, HANG_S))
