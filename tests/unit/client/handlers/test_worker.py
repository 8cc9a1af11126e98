"""Workers: concurrency, batches, failures, time limits and options."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from litemq import AsyncClient, Client, FailureLimits, Message, Plugin, Retry
from litemq.client.config import ConsumeMode
from litemq.client.handlers import call as handler_call
from litemq.client.handlers.subscription import HandlerOptions
from litemq.client.sync.messages import SyncMessage
from litemq.errors import HandlerStuckError, InvalidArgumentError
from support.waiting import HANG_S, eventually
from support.workers import left, run, running, send


@pytest.mark.parametrize("declared", [None, 3])
def test_concurrency_limits_the_running_handlers(declared: int | None) -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            now, most, done = 0, 0, 0
            expected = declared or 5
            all_there = asyncio.Event()

            options: HandlerOptions = {} if declared is None else {"concurrency": declared}

            @mq.subscriber("orders", group_id="g", **options)
            async def handle(message: Message) -> None:
                nonlocal now, most, done
                now += 1
                most = max(most, now)
                if now == expected:
                    all_there.set()
                await all_there.wait()
                await asyncio.sleep(0.01)  # for one too many
                now -= 1
                done += 1

            await send(mq, 20)
            async with running(mq, concurrency=5):
                await eventually(lambda: done == 20)
            assert most == expected

    run(test)


def test_queues_are_handled_in_order_by_default() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            seen: list[int] = []

            @mq.subscriber("orders", group_id="g")
            async def handle(message: Message) -> None:
                await asyncio.sleep(0.005 if message.body == b"0" else 0)
                seen.append(int(message.body))

            await send(mq, 10)
            async with running(mq):
                await eventually(lambda: len(seen) == 10)
            assert seen == list(range(10))

    run(test)


def test_filters_and_order_by_key() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            seen: list[int] = []

            @mq.subscriber("orders", group_id="g", concurrency=4, tags="blue", ordered=True)
            async def handle(message: Message) -> None:
                await asyncio.sleep(0.02 if message.body == b"0" else 0)
                seen.append(int(message.body))

            for number in range(8):
                await mq.send("orders", b"%d" % number, ordering_key="k", tags="red" if number % 2 else "blue")
            async with running(mq):
                await eventually(lambda: len(seen) == 4)
            assert seen == [0, 2, 4, 6]

    run(test)


def test_synchronous_handlers_run_side_by_side_on_threads() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            watching = Watching()
            mq.add_plugin(watching)
            barrier = threading.Barrier(4)

            @mq.subscriber("orders", group_id="g", concurrency=4)
            def handle(message: Message) -> None:
                barrier.wait(HANG_S)

            await send(mq, 8)
            async with running(mq) as task:
                await eventually(lambda: len(watching.seen) == 8)
                assert not task.done()
            assert sorted(watching.seen) == [(number, "done") for number in range(8)]
            assert await left(mq, 0.3) == []

    run(test)


def test_batches() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            seen: list[list[int]] = []
            watching = Watching()
            mq.add_plugin(watching)

            @mq.subscriber("orders", group_id="g", batch=4, batch_wait=timedelta(milliseconds=200))
            async def handle(messages: list[Message]) -> None:
                seen.append([int(message.body) for message in messages])

            await send(mq, 6)
            async with running(mq):
                await eventually(lambda: sum(map(len, seen)) == 6)
                await mq.send("orders", b"6", ordering_key="k")
                await mq.send("orders", b"7", ordering_key="k")
                await eventually(lambda: len(watching.seen) == 8)  # and they are settled
            assert [number for batch in seen for number in batch] == list(range(8))
            assert max(map(len, seen)) == 4
            assert await left(mq, 0.3) == []

    run(test)


# Failing ------------------------------------------------------------------------------------------


class Watching(Plugin):
    """The outcome of each call."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []

    def consumed(self, message: Message, seconds: float) -> None:  # noqa: ARG002
        self.seen.append((int(message.body), "done"))

    def failed(self, message: Message, error: BaseException) -> None:
        self.seen.append((int(message.body), type(error).__name__))


@pytest.mark.parametrize("mode", ["queue", "lease"])
def test_a_call_that_fails_is_made_again(mode: ConsumeMode) -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            watching = Watching()
            mq.add_plugin(watching)

            @mq.subscriber("orders", group_id="g", mode=mode, delays=[0.05], throws=(KeyError,))
            async def handle(message: Message) -> None:
                if message.body == b"1" and message.attempt == 1:
                    raise ValueError("the first time")
                if message.body == b"2" and message.attempt == 1:
                    raise Retry(delay=0.02)
                if message.body == b"3":
                    raise KeyError("never")

            await send(mq, 5)
            async with running(mq, concurrency=1):
                await eventually(lambda: len(watching.seen) == 7)
                await asyncio.sleep(0.1)
            assert sorted(watching.seen) == [
                *[(0, "done"), (1, "ValueError"), (1, "done"), (2, "Retry"), (2, "done"), (3, "KeyError"), (4, "done")],
            ]

    run(test)


def test_of_a_batch_that_fails_only_what_was_not_settled_comes_again() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            seen: list[list[int]] = []

            @mq.subscriber("orders", group_id="g", mode="lease", concurrency=1, batch=4, batch_wait=0.5, delays=[0.05])
            async def handle(messages: list[Message]) -> None:
                seen.append(sorted(int(message.body) for message in messages))
                if len(seen) == 1:
                    await messages[0].ack()
                    raise ValueError("the rest")

            await send(mq, 4)
            async with running(mq):
                await eventually(lambda: sum(map(len, seen)) == 7)
            assert seen[0] == [0, 1, 2, 3]
            assert sorted(number for batch in seen[1:] for number in batch) == [1, 2, 3]

    run(test)


# Time limits --------------------------------------------------------------------------------------


def test_a_coroutine_that_takes_too_long_is_cancelled_and_has_failed() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            watching = Watching()
            mq.add_plugin(watching)
            cancelled = asyncio.Event()

            @mq.subscriber("orders", group_id="g", mode="lease", time_limit=0.05, delays=[0.05])
            async def handle(message: Message) -> None:
                if message.attempt == 1:
                    try:
                        await asyncio.sleep(60)
                    finally:
                        cancelled.set()

            await send(mq, 1)
            async with running(mq):
                await eventually(lambda: len(watching.seen) == 2)
            assert watching.seen == [(0, "HandlerTimeoutError"), (0, "done")]
            assert cancelled.is_set()

    run(test)


def test_a_coroutine_that_does_not_listen_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_call, "_GRACE_S", 0.01)

    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            release = asyncio.Event()

            @mq.subscriber("orders", group_id="g", mode="lease", time_limit=0.02)
            async def handle(message: Message) -> None:
                while not release.is_set():
                    try:
                        await release.wait()
                    except asyncio.CancelledError:
                        continue

            await send(mq, 1)
            with pytest.raises(HandlerStuckError):
                await mq.run(recycle_after=1)
            release.set()

    run(test)


@pytest.mark.parametrize("most", [1, 3])
def test_threads_that_hang_wear_the_process_out(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Stuck calls are abandoned and others continue; then the process must be replaced."""
    release = threading.Event()

    def only_if_it_hangs(properties: Sequence[Mapping[str, str]], limit: float | None) -> float | None:
        return limit if "hangs" in properties[0] else None

    # On a busy machine a thread may take its time to begin.
    monkeypatch.setattr(handler_call, "time_limit_for", only_if_it_hangs)

    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            watching = Watching()
            mq.add_plugin(watching)

            @mq.subscriber("orders", group_id="g", mode="lease", time_limit=0.05, concurrency=1, max_retries=0)
            def handle(message: Message) -> None:
                if "hangs" in message.properties:
                    release.wait()

            for number in range(10):
                await mq.send(
                    "orders", b"%d" % number, ordering_key="k", properties={"hangs": "yes"} if number % 2 else {}
                )
            with pytest.raises(HandlerStuckError, match="litemq worker"):
                await mq.run(recycle_after=most)
            assert [outcome for _, outcome in watching.seen].count("HandlerTimeoutError") == most

    try:
        run(test)
    finally:
        release.set()


# Invalid options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"time_limit": 0},
        {"time_limit": -1},
        {"mode": "other"},
        {"ack_policy": "ack"},
        {"max_retries": -1},
        {"throws": (int,)},
        {"lease": 0},
        {"batch": 0},
        {"batch": 5, "batch_wait": -1},
        {"conurrency": 1},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    mq = AsyncClient("memory://")
    with pytest.raises(InvalidArgumentError, match=list(wrong)[-1]):
        mq.subscriber("orders", group_id="g", **wrong)


def test_a_handler_of_a_synchronous_client_is_no_coroutine() -> None:
    mq = Client("memory://")
    with pytest.raises(InvalidArgumentError, match="AsyncClient"):

        @mq.subscriber("orders", group_id="g")
        async def handle(message: SyncMessage) -> None: ...


def test_one_handler_a_topic_and_group() -> None:
    mq = AsyncClient("memory://")

    @mq.subscriber("orders", group_id="g")
    async def handle(message: Message) -> None: ...

    with pytest.raises(InvalidArgumentError, match="handle of orders"):
        mq.subscriber("orders", group_id="g")
    mq.subscriber("orders", group_id="h", breaker=FailureLimits(pause=1))
