"""Handlers and tasks: calls by workers, settling and shutdown."""

import asyncio
import logging
import os
import signal
import threading

import pytest

from litemq import AckPolicy, AsyncClient, Message, OutgoingMessage, Retry
from litemq.client.config import ConsumeMode
from litemq.errors import HandlerStuckError, InvalidArgumentError, TopicNotFoundError
from support.engines import Engine
from support.waiting import HANG_S, eventually

capability = pytest.mark.capability


async def send_numbers(mq: AsyncClient, topic: str, count: int) -> None:
    await mq.send_batch(topic, [OutgoingMessage(b"%d" % number, ordering_key="k") for number in range(count)])


async def numbers_of(mq: AsyncClient, topic: str, group: str, count: int) -> list[int]:
    """Receive the next ``count`` messages of a group, also returned ones."""
    found: list[int] = []
    async with asyncio.timeout(HANG_S):
        while len(found) < count:
            found += [int(message.body) for message in await mq.receive(topic, group_id=group, wait=HANG_S)]
    return found


def modes() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mode", ["queue", "lease"])


async def stop(running: "asyncio.Task[None]") -> None:
    """Stop the worker with a signal, as an operator does."""
    os.kill(os.getpid(), signal.SIGTERM)
    await running


@modes()
@capability("`@subscriber` and `run()`: a handler's return acknowledges, an error schedules a retry")
async def test_subscribers(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        seen: dict[str, list[int]] = {"async": [], "sync": []}

        @mq.subscriber(topic, group_id="a", mode=mode, delays=[0.05])
        async def handle(message: Message) -> None:
            seen["async"].append(int(message.body))
            if message.body == b"3" and message.attempt == 1:
                raise ValueError("the fourth")

        @mq.subscriber(topic, group_id="s", mode=mode, delays=[0.05])
        def handle_in_a_thread(message: Message) -> None:
            seen["sync"].append(int(message.body))
            if message.body == b"1" and message.attempt < 3:
                raise Retry

        await send_numbers(mq, topic, 5)
        running = asyncio.ensure_future(mq.run(concurrency=1))
        await eventually(lambda: len(seen["async"]) == 6 and len(seen["sync"]) == 7)
        await stop(running)
        assert {name: sorted(numbers) for name, numbers in seen.items()} == {
            "async": [0, 1, 2, 3, 3, 4],
            "sync": [0, 1, 1, 1, 2, 3, 4],
        }
        if mode == "queue":
            assert [seen["async"].index(number) for number in range(5)] == list(range(5))
    async with engine.client() as mq:
        for group in "as":
            assert await mq.receive(topic, group_id=group, wait=0.2) == []


@modes()
async def test_run_that_is_cancelled_acknowledges_nothing_unfinished(
    engine: Engine, topic: str, mode: ConsumeMode
) -> None:
    async with engine.client() as mq:
        begun = asyncio.Event()

        @mq.subscriber(topic, group_id="g", mode=mode, concurrency=1, lease=3600)
        async def handle(message: Message) -> None:
            if message.body == b"1":
                begun.set()
                await asyncio.Event().wait()  # for ever

        await send_numbers(mq, topic, 3)
        running = asyncio.ensure_future(mq.run())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    async with engine.client() as mq:
        assert sorted(await numbers_of(mq, topic, "g", 2)) == [1, 2]


async def test_nothing_to_run(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(InvalidArgumentError, match="subscriber"):
            await mq.run()


DRAINING = capability("Workers: the first signal drains; messages not finished in time are returned immediately")


@DRAINING
@modes()
async def test_draining(engine: Engine, topic: str, mode: ConsumeMode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "litemq.client.handlers.worker")
    async with engine.client() as mq:
        begun: list[int] = []
        done: list[int] = []
        go_on = asyncio.Event()

        @mq.subscriber(topic, group_id="g", mode=mode, concurrency=2, lease=3600)
        async def handle(message: Message) -> None:
            begun.append(int(message.body))
            await go_on.wait()
            done.append(int(message.body))

        await send_numbers(mq, topic, 4)
        running = asyncio.ensure_future(mq.run(shutdown_timeout=HANG_S))
        await eventually(lambda: len(begun) == 2)
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: "stopping" in caplog.text)
        go_on.set()
        await running
        assert (sorted(begun), sorted(done)) == ([0, 1], [0, 1])
        assert sorted(await numbers_of(mq, topic, "g", 2)) == [2, 3]


@DRAINING
@modes()
async def test_handlers_that_do_not_finish_in_time(engine: Engine, topic: str, mode: ConsumeMode) -> None:
    async with engine.client() as mq:
        begun: list[int] = []

        @mq.subscriber(topic, group_id="g", mode=mode, concurrency=2, lease=3600)
        async def handle(message: Message) -> None:
            begun.append(int(message.body))
            if message.body != b"0":
                await asyncio.Event().wait()  # for ever

        await send_numbers(mq, topic, 4)
        running = asyncio.ensure_future(mq.run(shutdown_timeout=0.3))
        await eventually(lambda: len(begun) == 3)
        await stop(running)
        assert sorted(begun) == [0, 1, 2]
        assert sorted(await numbers_of(mq, topic, "g", 3)) == [1, 2, 3]


@capability("Workers: a call that exceeds its time limit fails; a hanging thread makes its process be replaced")
async def test_time_limits(engine: Engine, topic: str) -> None:
    release = threading.Event()
    try:
        async with engine.client() as mq:
            seen: list[tuple[int, int]] = []

            @mq.subscriber(topic, group_id="g", mode="lease", time_limit=5, concurrency=1, delays=[0.05])
            def handle(message: Message) -> None:
                seen.append((int(message.body), message.attempt))
                if message.body == b"0":
                    release.wait(HANG_S)

            await send_numbers(mq, topic, 2)
            with pytest.raises(HandlerStuckError):
                await mq.run(recycle_after=2)
            assert sorted(seen) == [(0, 1), (0, 2), (1, 1)]
    finally:
        release.set()


@capability("Workers: batches are settled together or per message")
async def test_batches(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        seen: list[list[int]] = []

        @mq.subscriber(topic, group_id="g", mode="lease", concurrency=1, batch=5, batch_wait=1, delays=[0.05])
        async def handle(messages: list[Message]) -> None:
            seen.append(sorted(int(message.body) for message in messages))
            if len(seen) == 1:
                await asyncio.gather(*(message.ack() for message in messages if message.body in b"01"))
                raise ValueError("the others")

        await send_numbers(mq, topic, 5)
        running = asyncio.ensure_future(mq.run())
        await eventually(lambda: sum(map(len, seen)) == 8)
        await stop(running)
        assert seen[0] == [0, 1, 2, 3, 4]
        assert sorted(number for batch in seen[1:] for number in batch) == [2, 3, 4]
        assert await mq.receive(topic, group_id="g", wait=0.2) == []


@capability("`@task`: `f.send(…)` makes a worker call the function; workers share the calls")
async def test_tasks(engine: Engine, topic: str) -> None:
    calls: list[tuple[str, int]] = []
    both = asyncio.Event()

    def declare(mq: AsyncClient, name: str) -> None:
        @mq.task(topic=topic, concurrency=2, delays=[0.05])
        async def work(number: int, *, fails: bool = False) -> None:
            calls.append((name, number))
            if {each for each, _ in calls} == {"first", "second"}:
                both.set()
            await both.wait()  # neither does everything before the other has begun
            if fails and [each for _, each in calls].count(number) == 1:
                raise ValueError("once")

        works.append(work)

    works: list[object] = []
    async with engine.client() as first, engine.client() as second:
        declare(first, "first")
        declare(second, "second")
        send = works[0].send  # type: ignore[attr-defined]
        for number in range(20):
            await send(number, fails=number == 7)
        workers = [asyncio.ensure_future(first.run()), asyncio.ensure_future(second.run())]
        await eventually(lambda: len(calls) == 21)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        assert sorted(number for _, number in calls) == sorted([*range(20), 7])
        assert {name for name, _ in calls} == {"first", "second"}


@pytest.mark.parametrize("policy", list(AckPolicy))
async def test_a_handler_goes_by_its_policy(engine: Engine, topic: str, policy: AckPolicy) -> None:
    """Handlers follow their ack policy; the contract of policies tests ``process()`` itself."""
    async with engine.client() as mq:
        attempts: list[int] = []

        @mq.subscriber(topic, group_id="g", mode="lease", ack_policy=policy, delays=[0.05], lease=30)
        async def handle(message: Message) -> None:
            attempts.append(message.attempt)
            if policy is AckPolicy.MANUAL:
                await message.nack()
            if len(attempts) == 1:
                raise ValueError("once")

        await send_numbers(mq, topic, 1)
        running = asyncio.ensure_future(mq.run())
        tries = 2 if policy in {AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL} else 1
        await eventually(lambda: len(attempts) >= tries)
        if policy is not AckPolicy.MANUAL:
            await asyncio.sleep(0.2)
            assert len(attempts) == tries
        await stop(running)


async def test_run_creates_the_topics_of_its_handlers(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        seen: list[object] = []
        ready = asyncio.Event()

        @mq.subscriber(f"{topic}-a", group_id="g")
        async def handle(message: Message) -> None:
            seen.append(message.value)

        @mq.task(topic=f"{topic}-b")
        async def work(number: int) -> None:
            seen.append(number)

        running = asyncio.ensure_future(mq.run(on_ready=ready.set))
        await asyncio.wait([running, asyncio.ensure_future(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert {f"{topic}-a", f"{topic}-b"} <= set(await mq.admin.topics())
        await mq.send(f"{topic}-a", "tea")
        await work.send(7)
        await eventually(lambda: len(seen) == 2)
        await stop(running)
        assert sorted(map(str, seen)) == ["7", "tea"]


async def test_run_can_be_limited_to_some_handlers(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        seen: list[str] = []

        @mq.subscriber(f"{topic}-a", group_id="g")
        async def first(message: Message) -> None:
            seen.append("first")

        @mq.subscriber(f"{topic}-b", group_id="g")
        async def second(message: Message) -> None:
            seen.append("second")

        running = asyncio.ensure_future(mq.run(handlers=mq.subscriptions[1:]))
        await mq.send(f"{topic}-b", b"x")
        await eventually(lambda: seen == ["second"])
        assert f"{topic}-a" not in await mq.admin.topics()
        await stop(running)


@pytest.mark.no_auto_create
async def test_run_names_all_topics_that_are_missing(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        for number in range(2):
            mq.subscriber(f"{topic}-{number}", group_id="g")(lambda _: None)
        with pytest.raises(TopicNotFoundError, match=rf"topics {topic}-0, {topic}-1 do not exist: .*auto_create"):
            await mq.run()
