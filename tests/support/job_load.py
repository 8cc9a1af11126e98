"""Cron jobs against a cluster whose brokers are killed: one tick per second, each catch-up rule."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.errors import JobExistsError, LiteMQError
from support.time_history import JobHistory, TimeHistory
from support.time_load import messages_of, now_ms

TICKS: Final = "ticks"
_SECOND_MS: Final = 1000
_JOBS_PER_RULE: Final = 4
_CATCH_UP_S: Final = 3 * 3600.0  # longer than a clock is wrong, so no tick is too old


@dataclass
class JobLoad:
    """Creates jobs, and checks their ticks."""

    history: TimeHistory
    errors: list[str] = field(default_factory=list)
    began: int = 0
    ended: int = 0

    async def create(self, mq: AsyncClient) -> None:
        """Create jobs of each catch-up rule, with one tick per second."""
        for number in range(_JOBS_PER_RULE):
            for rule in ("all", "one", "skip"):
                job = f"{rule}-{number}"
                self.history.jobs[job] = JobHistory(catches_up=rule == "all")
                await mq.jobs.create(
                    TICKS, job.encode(), job_id=job, cron="* * * * * *", catch_up=rule, catch_up_window=_CATCH_UP_S
                )
        self.began = now_ms()

    async def work(self, mq: AsyncClient, stopping: asyncio.Event) -> None:
        """Let the jobs tick until the load ends, and record the expected ticks.

        Meanwhile, create a job that exists already; the broker refuses it.
        """
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), 1.0)
            try:
                await mq.jobs.create(TICKS, b"again", job_id="all-0", cron="* * * * * *")
            except JobExistsError:
                pass
            except LiteMQError as error:
                self.errors.append(f"{type(error).__name__}: {error}")
        self.ended = now_ms()
        first = -(-self.began // _SECOND_MS) * _SECOND_MS
        for entry in self.history.jobs.values():
            entry.expected = list(range(first, self.ended, _SECOND_MS))

    async def read(self, mq: AsyncClient) -> None:
        """Read the ticks sent so far."""
        self.history.tick_log = []
        async for message in messages_of(mq, TICKS):
            tick = datetime.fromisoformat(message.properties["litemq-tick"])
            self.history.tick_log.append(
                (message.properties["litemq-job"], round(tick.timestamp() * 1000), message.store_timestamp)
            )

    def is_missing(self) -> bool:
        """Return whether expected messages are missing."""
        came = {(job, tick) for job, tick, _ in self.history.tick_log}
        return any(
            (job, tick) not in came
            for job, entry in self.history.jobs.items()
            if entry.catches_up
            for tick in entry.expected
        )
