"""Handlers on threads: a call that hangs is abandoned, and the others continue."""

import asyncio
import contextvars
import threading

import pytest

from litemq.client.handlers.threads import HandlerThreads
from support.waiting import HANG_S, eventually

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


def test_a_call_gives_what_it_returns_or_raises() -> None:
    async def test() -> None:
        threads = HandlerThreads()
        VARIABLE.set("here")
        name, value = await threads.run(lambda: (threading.current_thread().name, VARIABLE.get()))
        assert (name, value) == ("litemq handler", "here")
        with pytest.raises(KeyError, match="x"):
            await threads.run(lambda: {"y": 1}["x"])
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(lambda: next(iter(())))
        threads.close()

    asyncio.run(test())


def test_threads_are_used_again_and_end() -> None:
    async def test() -> None:
        before = set(threading.enumerate())  # those of other tests may still be on their way out
        threads = HandlerThreads()
        seen = {await threads.run(threading.get_ident) for _ in range(20)}
        assert len(seen) == 1
        barrier = threading.Barrier(8)
        await asyncio.gather(*(threads.run(lambda: barrier.wait(HANG_S)) for _ in range(8)))
        mine = [thread for thread in set(threading.enumerate()) - before if thread.name == "litemq handler"]
        assert len(mine) == 8
        threads.close()
        for thread in mine:
            thread.join(HANG_S)
            assert not thread.is_alive()

    asyncio.run(test())


def test_a_call_that_is_not_waited_for_is_left_behind() -> None:
    async def test() -> None:
        threads = HandlerThreads()
        release = threading.Event()
        hanging = asyncio.ensure_future(threads.run(lambda: release.wait(HANG_S)))
        await asyncio.sleep(0)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert threads.stuck == 1
        assert await threads.run(lambda: 1) == 1  # on another thread
        release.set()
        await eventually(lambda: threads.stuck == 0)
        threads.close()

    asyncio.run(test())


def test_a_call_may_outlive_the_loop() -> None:
    release, ended = threading.Event(), threading.Event()

    def hang() -> None:
        release.wait(HANG_S)
        ended.set()

    async def test() -> None:
        threads = HandlerThreads()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await threads.run(hang)
        threads.close()

    asyncio.run(test())
    release.set()
    assert ended.wait(HANG_S)
