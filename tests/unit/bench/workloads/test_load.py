"""Load measurements on a cluster in memory: messages and slow moments are counted."""

import asyncio
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from litemq import AsyncClient
from litemq.bench.workloads import load
from litemq.bench.workloads.load import LoadResult, measure_consume, measure_latency, measure_send
from litemq.errors import InvalidArgumentError, OverloadedError
from support.waiting import HANG_S, eventually

URL = "memory://load"


class Ticks:
    """A clock that advances by a millisecond per reading."""

    def __init__(self) -> None:
        self.count = 0

    def seconds(self) -> float:
        self.count += 1
        return self.count / 1000

    def nanoseconds(self) -> int:
        return round(self.seconds() * 1e9)


def _instead(module: ModuleType, **others: Any) -> SimpleNamespace:
    """A module with some functions replaced."""
    return SimpleNamespace(**{**vars(module), **others})


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Replace the clock of the measurements."""
    ticks = Ticks()
    monkeypatch.setattr(load, "time", _instead(time, perf_counter=ticks.seconds, perf_counter_ns=ticks.nanoseconds))
    return ticks


@pytest.mark.parametrize("batch", [False, True])
def test_what_is_sent_is_counted_and_can_be_read(batch: bool) -> None:
    async def use() -> tuple[LoadResult, LoadResult]:
        async with AsyncClient(URL):  # the cluster lives as long as a client is connected
            reported: list[int] = []
            sent = await measure_send(
                URL,
                connections=2,
                in_flight=4,
                size=100,
                messages=3000,
                durability="memory",
                batch=batch,
                progress=reported.append,
            )
            assert reported[-1] == 3000
            return sent, await measure_consume(URL, messages=3000, seconds=HANG_S)

    sent, received = asyncio.run(use())
    assert (sent.messages, sent.body_bytes, sent.failed) == (3000, 300_000, 0)
    assert sent.messages_per_s > 0
    assert sent.latency_ms is not None
    assert list(sent.latency_ms) == [50.0, 90.0, 99.0, 99.9]
    assert (received.messages, received.missing) == (3000, 0)
    assert received.megabytes_per_s > 0


@pytest.mark.usefixtures("ticks")
def test_a_measurement_ends_after_its_time() -> None:
    async def use() -> tuple[LoadResult, LoadResult]:
        async with AsyncClient(URL):
            sent = await measure_send(URL, connections=1, in_flight=2, size=10, seconds=0.1)
            return sent, await measure_consume(URL, messages=sent.messages + 1_000_000, seconds=0.5)

    sent, received = asyncio.run(use())
    assert sent.messages > 0
    assert received.missing > 0


def test_waiting_at_the_end_of_a_topic_is_not_counted(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    async def expire(limit: asyncio.Timeout) -> None:
        await eventually(lambda: ticks.count >= 1 + 10)  # it looks when it begins, and at each message
        await asyncio.sleep(0.1)  # it waits at the end of the topic
        limit.reschedule(asyncio.get_running_loop().time())

    def timeout(seconds: float) -> asyncio.Timeout:
        limit = asyncio.timeout(HANG_S)
        if seconds == 1.0:
            expiring.append(asyncio.create_task(expire(limit)))
        return limit

    expiring: list[asyncio.Task[None]] = []
    monkeypatch.setattr(load, "asyncio", _instead(asyncio, timeout=timeout))

    async def use() -> tuple[LoadResult, LoadResult]:
        async with AsyncClient(URL) as mq:
            for number in range(10):
                await mq.send("short", b"%d" % number)
            whole = await measure_consume(URL, topic="short", seconds=1.0)
            return whole, await measure_consume(URL, topic="short", messages=5, seconds=HANG_S)

    whole, part = asyncio.run(use())
    assert (whole.messages, whole.reached_end) == (10, True)
    assert whole.seconds == pytest.approx(0.010)  # until the last message: ten looks at the clock
    assert (part.messages, part.reached_end) == (5, False)


def test_how_long_must_be_said() -> None:
    with pytest.raises(InvalidArgumentError, match="messages, seconds, or both"):
        asyncio.run(measure_send(URL))


def test_latency_counts_from_when_a_message_was_meant_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that stalls for 200 ms sends messages late; their latency includes the stall."""
    holds = [0.2, 0.0]  # of its second turn
    turn = load._SteadySender._turn

    def held(sender: load._SteadySender) -> None:
        if holds:
            time.sleep(holds.pop())
        turn(sender)

    monkeypatch.setattr(load._SteadySender, "_turn", held)
    monkeypatch.setattr(load, "_MAX_WAIT_S", HANG_S)

    async def use() -> LoadResult:
        async with AsyncClient(URL):
            return await measure_latency(URL, rate=1000, seconds=0.5, size=64)

    result = asyncio.run(use())
    assert (result.messages, result.missing, result.failed) == (500, 0, 0)
    assert result.latency_ms is not None
    assert result.latency_ms[90.0] > 90  # 200 of 500 waited, evenly between 0 and 200 ms


def test_failures_are_counted_and_the_first_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0

    async def refuse(_self: AsyncClient, _topic: str, _body: bytes) -> None:
        nonlocal sent
        sent += 1
        if sent > 1:  # the first one only finds the way
            raise OverloadedError("too much", 5)

    monkeypatch.setattr(AsyncClient, "send", refuse)
    result = asyncio.run(measure_send(URL, connections=1, in_flight=1, messages=3, durability="disk"))
    assert (result.messages, result.failed, result.first_error) == (0, 3, "OverloadedError: too much")
    assert result.as_json()["latency_ms"] is None
