"""Timers, jobs and transactions together, against a cluster whose brokers are killed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from litemq.client.async_client import AsyncClient
from support.job_load import TICKS, JobLoad
from support.time_history import TimeHistory
from support.time_load import TIMERS, TimerLoad
from support.transaction_load import PAYMENTS, TransactionLoad

_STEP_S: Final = 0.3
_CHECK_EVERY_S: Final = 1.0  # producers are asked again soon


@dataclass
class TimeChaos:
    """The load against a cluster, and the history that it records."""

    url: str
    history: TimeHistory = field(default_factory=TimeHistory)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.timers = TimerLoad(self.history)
        self.jobs = JobLoad(self.history)
        self.transactions = TransactionLoad(self.history)

    @property
    def errors(self) -> list[str]:
        return self.timers.errors + self.jobs.errors + self.transactions.errors

    def client(self) -> AsyncClient:
        return AsyncClient(self.url, shutdown_timeout_ms=10_000)

    async def wait_until_all_came(self, mq: AsyncClient, within: float) -> None:
        """Wait until all expected messages are there, and a moment longer.

        On a timeout, the checker reports missing messages.
        """
        await asyncio.sleep(max(0.0, self.timers.last_due / 1000 - time.time()))
        until = time.monotonic() + within
        loads = (self.timers, self.jobs, self.transactions)
        while True:
            for load in loads:
                await load.read(mq)
            if time.monotonic() > until or not any(load.is_missing() for load in loads):
                break
            await asyncio.sleep(_STEP_S)
        await asyncio.sleep(_STEP_S)
        for load in loads:
            await load.read(mq)


@contextlib.asynccontextmanager
async def running(chaos: TimeChaos, *, settle: float) -> AsyncIterator[TimeChaos]:
    """Run all loads. After the block they end, and the log is read."""
    async with chaos.client() as mq, chaos.client() as producer, chaos.client() as other:
        for topic in (TIMERS, TICKS):
            await mq.admin.create_topic(topic, queues=2)
        await mq.admin.create_topic(PAYMENTS, queues=2, check_every=_CHECK_EVERY_S)
        await chaos.jobs.create(mq)
        chaos.transactions.listen(other)
        watching = asyncio.create_task(chaos.transactions.watch(other))
        tasks = [
            asyncio.create_task(chaos.timers.send(mq, chaos.stopping)),
            asyncio.create_task(chaos.timers.change(mq, chaos.stopping)),
            asyncio.create_task(chaos.jobs.work(mq, chaos.stopping)),
            asyncio.create_task(chaos.transactions.produce(producer, chaos.stopping)),
        ]
        try:
            yield chaos
            chaos.stopping.set()
            async with asyncio.timeout(settle):
                await asyncio.gather(*tasks)
            await chaos.wait_until_all_came(mq, settle)
            assert not watching.done(), f"the consumer ended: {watching}"
        finally:
            for task in (*tasks, watching):
                task.cancel()
            await asyncio.gather(*tasks, watching, return_exceptions=True)
