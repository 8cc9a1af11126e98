"""Workers whose handlers mostly fail: they pause, and are tried with one message."""

import asyncio

import pytest

from litemq import AsyncClient, FailureLimits, Message
from litemq.client.handlers import runner
from litemq.client.handlers.breaker import HandlerBreaker, HandlerState
from support.waiting import eventually
from support.workers import run, running, send


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Events in order: the states of the breaker, and the calls of the handler."""
    events: list[str] = []

    class Noting(HandlerBreaker):
        def _enter(self, state: HandlerState) -> None:
            events.append(state.value)
            super()._enter(state)

    monkeypatch.setattr(runner, "HandlerBreaker", Noting)
    return events


def test_a_handler_that_mostly_fails_pauses_and_is_tried_with_one(events: list[str]) -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            limits = FailureLimits(least_calls=5, pause=0.4)

            @mq.subscriber("orders", group_id="g", mode="lease", concurrency=1, breaker=limits, delays=[3600])
            async def handle(message: Message) -> None:
                events.append("call")
                if events.count("call") <= 6:  # five, and the one that probes
                    raise ConnectionError("the database is down")

            await send(mq, 20)
            async with running(mq):
                await eventually(lambda: events.count("call") == 20)
            assert events == [
                *["call"] * 5,
                *["paused", "probing", "call"],
                *["paused", "probing", "call"],
                *["running", *["call"] * 13],
            ]

    run(test)


def test_a_handler_that_waits_for_messages_pauses_too(events: list[str]) -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:

            @mq.subscriber(
                "orders",
                group_id="g",
                mode="lease",
                concurrency=3,
                breaker=FailureLimits(least_calls=2, pause=0.4),
                delays=[3600],
            )
            async def handle(message: Message) -> None:
                events.append("call")
                await asyncio.sleep(0.05)  # by then one place waits for a message
                raise ConnectionError("the database is down")

            async with running(mq):
                await send(mq, 2)
                await eventually(lambda: "paused" in events)
                await send(mq, 2)
                await eventually(lambda: events.count("call") >= 3)
            assert events[:5] == ["call", "call", "paused", "probing", "call"]

    run(test)


def test_errors_of_the_message_do_not_pause_a_handler() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            calls = 0

            @mq.subscriber(
                "orders",
                group_id="g",
                mode="lease",
                breaker=FailureLimits(least_calls=2, pause=3600),
                throws=(KeyError,),
            )
            async def handle(message: Message) -> None:
                nonlocal calls
                calls += 1
                raise KeyError("of no use")

            await send(mq, 30)
            async with running(mq):
                await eventually(lambda: calls == 30)

    run(test)
