"""Job workload: imports a million cron jobs, then measures a minute in which 50,000 are due.

It also measures the latency of normal messages meanwhile. A duplicated or early tick is an error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from litemq import AsyncClient
from litemq.bench.clusters import RunningBroker, running_broker
from litemq.bench.workloads.processes import flow, processes
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["JobRun", "JobsAtScale"]

_JOBS: Final = 1_000_000
_DUE: Final = 50_000
_NORMAL_PER_S: Final = 5_000
_WINDOW_S: Final = 10.0
_LEAD_S: Final = 2.0  # time from the start of the window to the minute
_LOADED_PER_S: Final = 6_000  # minimum import rate, by which the first minute is chosen
_LATEST_S: Final = 60.0
_TOPIC: Final = "ticks"
_FLOW: Final = "flow"
_BODY: Final = b'{"report": "daily", "for": "accounts"}'
_ZONES: Final = ("UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York")


@dataclass(frozen=True, slots=True)
class JobRun:
    """The results of one run."""

    load_s: float
    sent_within_s: float
    quiet_p99_ms: float
    busy_p99_ms: float
    resident_bytes: int

    @property
    def slower(self) -> float:
        return self.busy_p99_ms / self.quiet_p99_ms


class JobsAtScale:
    """Many jobs, most of them due once a day and some thousands every minute."""

    def __init__(self, scale: float) -> None:
        self._jobs = max(1_000, int(_JOBS * scale))
        self._due = max(200, int(_DUE * min(1.0, scale)))
        self._rate = max(500, int(_NORMAL_PER_S * min(1.0, scale * 10)))
        # A small measurement does not wait for a minute.
        self._period, self._lead, self._window = (60, _LEAD_S, _WINDOW_S) if scale >= 0.05 else (5, 0.5, 2.0)
        self.last: JobRun

    def load_time(self) -> float:
        """Run the workload once, and return the seconds that the import took."""
        with running_broker() as broker:
            self.last = run(self._work(broker))
        return self.last.load_s

    async def _work(self, broker: RunningBroker) -> JobRun:
        with processes(1) as others:
            return await self._work_beside(broker, others)

    async def _work_beside(self, broker: RunningBroker, others: Executor) -> JobRun:
        async with AsyncClient(broker.url) as mq:
            for topic in (_TOPIC, _FLOW):
                await mq.admin.create_topic(topic, queues=4)
            began = time.perf_counter()
            first = self._after(time.time() + self._jobs / _LOADED_PER_S + self._window + 2 * self._lead)
            result = await mq.jobs.import_(self._definitions(first))
            took = time.perf_counter() - began
            if result.refused or result.created != self._jobs:
                raise LiteMQError(f"{result.created} of {self._jobs} jobs were created: {result.refused[:3]}")
            await self._wait_for_quiet()
            quiet = await self._flow(broker.url, others)
            within, busy = await self._minute(broker.url, await self._next_minute(first), others)
            resident = broker.resident_bytes
        return JobRun(took, within, quiet, busy, resident)

    def _after(self, moment: float) -> int:
        """Return the first time after ``moment`` (Unix seconds) at which many jobs are due."""
        return int(moment // self._period + 1) * self._period

    def _definitions(self, first: int) -> Iterator[dict[str, Any]]:
        """Yield the jobs: ``_due`` every minute from ``first`` on, the others daily."""
        minute = datetime.fromtimestamp(first, UTC)
        each_minute = {
            "cron": "0 * * * * *" if self._period == 60 else f"*/{self._period} * * * * *",
            "start_at": minute,
        }
        for number in range(self._jobs):
            job: dict[str, Any] = {
                "job_id": f"job-{number}",
                "topic": _TOPIC,
                "body": _BODY,
                "timezone": _ZONES[number % len(_ZONES)],
            }
            if number < self._due:
                yield {**job, **each_minute}
            else:
                due = minute + timedelta(hours=1, seconds=number * 76_543 % 79_200)
                yield {**job, "timezone": "UTC", "cron": f"{due.second} {due.minute} {due.hour} * * *"}

    async def _wait_for_quiet(self) -> None:
        """Wait until a quiet window fits before the next minute."""
        left = self._period - time.time() % self._period
        if left < self._window + self._lead:
            await asyncio.sleep(left + self._period / 6)

    async def _flow(self, url: str, others: Executor) -> float:
        measure = partial(flow, url, topic=_FLOW, rate=self._rate, seconds=self._window, durability="disk")
        result = await asyncio.get_running_loop().run_in_executor(others, measure)
        if result.failed or result.missing:
            raise LiteMQError(
                f"{result.failed} normal messages failed and {result.missing} are missing: {result.first_error}"
            )
        return (result.latency_ms or {}).get(99.0, 0.0)

    async def _next_minute(self, first: int) -> int:
        """Wait until ``_lead`` before the next minute in which jobs are due, and return it (ms)."""
        minute = max(first, self._after(time.time() + self._lead))
        await asyncio.sleep(max(0.0, minute - self._lead - time.time()))
        return minute * 1000

    async def _minute(self, url: str, minute_ms: int, others: Executor) -> tuple[float, float]:
        """Return the seconds until all jobs have sent, and the p99 of normal messages."""
        receiving = asyncio.create_task(self._receive(url, minute_ms))
        try:
            busy = await self._flow(url, others)
            async with asyncio.timeout(_LATEST_S):
                return await receiving, busy
        except TimeoutError:
            raise LiteMQError(f"some of {self._due} jobs have not sent {_LATEST_S:g} s after their minute") from None
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _receive(self, url: str, minute_ms: int) -> float:
        received: set[str] = set()
        last = minute_ms
        async with AsyncClient(url) as mq:
            async for message in mq.reader(_TOPIC, follow=True):
                if message.store_timestamp < minute_ms:
                    continue
                if message.message_id in received:
                    raise LiteMQError(f"tick {message.message_id} was sent twice")
                received.add(message.message_id)
                last = max(last, message.store_timestamp)
                if len(received) == self._due:
                    break
        return (last - minute_ms) / 1000
