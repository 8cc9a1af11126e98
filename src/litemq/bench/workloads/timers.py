"""Timer workload: insert rate, lateness under normal load, memory and disk usage of many timers.

An early timer, by the clock of the broker that stored it, and a missing or duplicated one are
errors.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle, islice
from random import Random
from typing import Final

import numpy as np

from litemq import AsyncClient, OutgoingMessage
from litemq.bench.clusters import RunningBroker, running_broker
from litemq.bench.workloads.load import LoadResult
from litemq.bench.workloads.processes import flow, processes
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["Punctuality", "TimerRun", "TimersAtScale"]

_PENDING: Final = 10_000_000
_DUE_PER_S: Final = 5_000
_DUE_S: Final = 60.0
_NORMAL_PER_S: Final = 20_000
_BODY: Final = secrets.token_bytes(128)
_TOPIC: Final = "reminders"
_FLOW: Final = "flow"
_AT_ONCE: Final = 5_000  # messages of one send_batch
_DIFFERENT: Final = 10_000  # delays
_CALLS: Final = 4  # concurrent calls of send_batch
_PRODUCERS: Final = 2  # processes
_FARTHEST_DAYS: Final = 364.0
_NEAREST_DAYS: Final = 0.1
_QUIET_S: Final = 3.0  # between the insert and the first due time
_LATEST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Punctuality:
    """The lateness of timers at their consumer."""

    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class TimerRun:
    """The results of one run."""

    inserted_per_s: float
    late: Punctuality
    normal: LoadResult
    resident_bytes: int
    derived_bytes: int
    pending: int

    @property
    def normal_p99_ms(self) -> float:
        return (self.normal.latency_ms or {}).get(99.0, 0.0)

    @property
    def derived_bytes_each(self) -> float:
        return self.derived_bytes / self.pending


class TimersAtScale:
    """Many timers pending for up to a year, some due per second, and normal messages."""

    def __init__(self, scale: float) -> None:
        self._pending = max(5_000, int(_PENDING * scale))
        self._seconds = max(1.0, _DUE_S * min(1.0, scale))
        self._rate = max(500, int(_DUE_PER_S * min(1.0, scale * 10)))
        self._normal = max(1_000, int(_NORMAL_PER_S * min(1.0, scale * 10)))
        self.last: TimerRun

    def insert_rate(self) -> float:
        """Run the workload once, and return the timers inserted per second."""
        with running_broker() as broker:
            self.last = run(self._work(broker))
        return self.last.inserted_per_s

    async def _work(self, broker: RunningBroker) -> TimerRun:
        with processes(_PRODUCERS) as others:
            async with AsyncClient(broker.url) as mq:
                for topic in (_TOPIC, _FLOW):
                    await mq.admin.create_topic(topic, queues=4)
                inserted = await self._insert(broker.url, others)
                derived, resident = broker.derived_bytes, broker.resident_bytes
                late, normal, peak_resident = await self._fire(mq, broker, others)
        return TimerRun(inserted, late, normal, max(resident, peak_resident), derived, self._pending)

    async def _insert(self, url: str, others: Executor) -> float:
        """Measure timers per second from several producers."""
        loop = asyncio.get_running_loop()
        each = self._pending // _PRODUCERS
        spans = await asyncio.gather(*(loop.run_in_executor(others, _insert, url, each) for _ in range(_PRODUCERS)))
        return each * _PRODUCERS / (max(end for _, end in spans) - min(begin for begin, _ in spans))

    async def _fire(
        self, mq: AsyncClient, broker: RunningBroker, others: Executor
    ) -> tuple[Punctuality, LoadResult, int]:
        """Fire a minute's timers, and measure their lateness while normal messages are sent."""
        count = int(self._rate * self._seconds)
        first_ms = int((time.time() + _QUIET_S + count / 50_000) * 1000)
        await _send(mq, _near(count, first_ms, self._rate))
        receiving = asyncio.create_task(_receive(broker.url, count))
        seconds = _QUIET_S + self._seconds
        measure = partial(
            flow, broker.url, topic=_FLOW, rate=self._normal, size=1024, seconds=seconds, durability="memory"
        )
        normal = asyncio.get_running_loop().run_in_executor(others, measure)
        peak_bytes = 0
        try:
            until = first_ms / 1000 + self._seconds + _LATEST_S
            while not receiving.done() and time.time() < until:
                peak_bytes = max(peak_bytes, broker.resident_bytes)
                await asyncio.wait((receiving,), timeout=1.0)
                if normal.done() and normal.exception() is not None:
                    break
            result = await normal
            if not receiving.done():
                raise LiteMQError(f"timers are missing {_LATEST_S:g} s after the last of {count} was due")
            return await receiving, result, peak_bytes
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, normal, return_exceptions=True)  # the other process ends without a signal


def _far() -> list[OutgoingMessage]:
    """Return timers due within the next year, but not in the next hours.

    They can be sent repeatedly, since a delay starts at each send.
    """
    chance = Random(7)  # the same in each run
    return [
        OutgoingMessage(_BODY, delay=86_400 * chance.uniform(_NEAREST_DAYS, _FARTHEST_DAYS)) for _ in range(_DIFFERENT)
    ]


def _near(count: int, first_ms: int, per_s: int) -> Iterator[OutgoingMessage]:
    """Yield timers that are due one after another, ``per_s`` per second.

    Each body has its number and due time.
    """
    for number in range(count):
        due = first_ms + number * 1000 // per_s
        mark = number.to_bytes(8, "big") + due.to_bytes(8, "big")
        yield OutgoingMessage(mark + _BODY[len(mark) :], deliver_at=datetime.fromtimestamp(due / 1000, UTC))


def _insert(url: str, count: int) -> tuple[float, float]:
    """Send ``count`` timers; return the start and end by the monotonic clock."""

    async def insert() -> tuple[float, float]:
        async with AsyncClient(url, buffer_bytes=128 << 20) as mq:
            await mq.send(_TOPIC, b"first", delay=timedelta(days=_FARTHEST_DAYS))  # loads routes and opens connections
            far = _far()
            began = time.monotonic()
            await _send(mq, islice(cycle(far), count))
            return began, time.monotonic()

    return run(insert())


async def _send(mq: AsyncClient, messages: Iterator[OutgoingMessage]) -> None:
    async def sender() -> None:
        while batch := list(islice(messages, _AT_ONCE)):
            await mq.send_batch(_TOPIC, batch)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_CALLS):
            tasks.create_task(sender())


async def _receive(url: str, count: int) -> Punctuality:
    """Receive ``count`` timers. Raise if one is early or duplicated."""
    late = array("d")
    missing = np.ones(count, np.bool_)
    async with AsyncClient(url) as mq:
        async for message in mq.reader(_TOPIC, follow=True):
            now = time.time_ns() / 1e6
            number, due = int.from_bytes(message.body[:8], "big"), int.from_bytes(message.body[8:16], "big")
            if message.store_timestamp < due:
                raise LiteMQError(f"timer {number} fired {due - message.store_timestamp} ms early")
            if not missing[number]:
                raise LiteMQError(f"timer {number} fired twice")
            missing[number] = False
            late.append(now - due)
            if len(late) == count:
                break
    p50, p99 = np.percentile(np.frombuffer(late), (50.0, 99.0)).tolist()
    return Punctuality(p50, p99, max(late))
