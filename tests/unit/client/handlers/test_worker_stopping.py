"""The end of a worker: what runs may finish, and the rest is given back."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable

import pytest

from litemq import AsyncClient, Client, Message, OutgoingMessage
from litemq.client.sync.messages import SyncMessage
from support.waiting import HANG_S, eventually
from support.workers import left, run, running, send


def test_the_first_signal_lets_what_runs_finish(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "litemq.client.handlers.worker")

    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            begun, heard, seen = asyncio.Event(), asyncio.Event(), []

            @mq.subscriber("orders", group_id="g")
            async def handle(message: Message) -> None:
                begun.set()
                await heard.wait()
                seen.append(int(message.body))

            await send(mq, 5)
            async with running(mq, shutdown_timeout=3600) as task:
                await begun.wait()
                os.kill(os.getpid(), signal.SIGTERM)
                await eventually(lambda: "stopping" in caplog.text)
                assert not task.done()
                heard.set()
                await task
            assert seen == [0]
            assert await left(mq) == [1, 2, 3, 4]

    run(test)


@pytest.mark.parametrize("again", [False, True])
def test_what_does_not_finish_in_time_or_before_the_second_signal_is_given_back(again: bool) -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            begun, cancelled = asyncio.Event(), asyncio.Event()

            @mq.subscriber("orders", group_id="g")
            async def handle(message: Message) -> None:
                begun.set()
                try:
                    await asyncio.sleep(3600)
                finally:
                    cancelled.set()

            await send(mq, 2)
            async with running(mq, shutdown_timeout=3600 if again else 0.05) as task:
                await begun.wait()
                os.kill(os.getpid(), signal.SIGINT)
                if again:
                    await asyncio.sleep(0.05)
                    assert not cancelled.is_set()
                    os.kill(os.getpid(), signal.SIGTERM)
                await task
            assert cancelled.is_set()
            assert await left(mq) == [0, 1]

    run(test)


def test_a_thread_that_does_not_finish_does_not_keep_it_from_ending() -> None:
    release = threading.Event()

    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            begun = threading.Event()

            @mq.subscriber("orders", group_id="g")
            def handle(message: Message) -> None:
                begun.set()
                release.wait()

            await send(mq, 1)
            async with running(mq, shutdown_timeout=0.05) as task:
                await eventually(begun.is_set)
                os.kill(os.getpid(), signal.SIGTERM)
                await task
            assert await left(mq) == [0]

    try:
        run(test)
    finally:
        release.set()


def test_a_signal_stops_a_synchronous_client_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Client("memory://") as mq:
        seen: list[bytes] = []
        stopped = threading.Event()
        soon = mq._thread.call_soon

        def call_and_record(function: Callable[[], None]) -> None:
            soon(function)
            stopped.set()

        monkeypatch.setattr(mq._thread, "call_soon", call_and_record)

        @mq.subscriber("orders", group_id="g")
        def handle(message: SyncMessage) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopped.wait(HANG_S)  # by the main thread
            mq.send("seen", message.body)
            seen.append(message.body)

        mq.send_batch("orders", [OutgoingMessage(b"%d" % number, ordering_key="k") for number in range(3)])
        before = signal.getsignal(signal.SIGTERM)
        mq.run()
        assert signal.getsignal(signal.SIGTERM) is before
        assert seen == [b"0"]
        assert [message.body for message in mq.receive("orders", group_id="g", wait=HANG_S)] == [b"1", b"2"]
