"""Waiting for results: an outage does not end it, and other messages are no results."""

import asyncio
from typing import Any

import pytest

import litemq
from litemq.client.handlers.task_results import RESULTS_TOPIC, TaskResult
from litemq.errors import NoRouteError
from support.waiting import HANG_S


def test_an_outage_of_the_cluster_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with litemq.AsyncClient("memory://") as mq:

            @mq.task(topic="adding")
            def add(a: int) -> int:
                return a + 1

            handle = await add.send(1)
            engine = mq._opened()
            route, failures = engine.route, [NoRouteError("no broker is alive")] * 2

            async def failing(topic: str, *, create: bool = False) -> Any:
                if topic == RESULTS_TOPIC and failures:
                    raise failures.pop()
                return await route(topic, create=create)

            monkeypatch.setattr(engine, "route", failing)
            waiting = asyncio.create_task(handle.result(timeout=HANG_S))
            while failures:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            running = asyncio.create_task(mq.run())
            assert await waiting == 2
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_all_calls_share_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with litemq.AsyncClient("memory://") as mq:

            @mq.task(topic="adding")
            def add(a: int) -> int:
                return a + 1

            handles = [await add.send(number) for number in range(20)]
            read, readers = mq.reader, 0

            def reader(*args: Any, **options: Any) -> Any:
                nonlocal readers
                readers += 1
                return read(*args, **options)

            monkeypatch.setattr(mq, "reader", reader)
            running = asyncio.create_task(mq.run())
            results = await asyncio.gather(*(handle.result(timeout=HANG_S) for handle in handles))
            assert results == list(range(1, 21))
            assert readers == 1
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize("body", [b"\xff", "text", [1], {"error": 5}, {"expires_at": "soon"}, {"other": 1}])
def test_what_is_no_result_is_ignored(body: Any) -> None:
    async def run() -> TaskResult | None:
        async with litemq.AsyncClient("memory://") as mq:
            await mq.send(RESULTS_TOPIC, body)
            message = await anext(aiter(mq.reader(RESULTS_TOPIC, follow=False)))
            return TaskResult.from_message(message)

    assert asyncio.run(run()) in (None, TaskResult())
