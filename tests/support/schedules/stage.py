"""A broker over a store on disk, both run by a schedule, and the runner of a scenario."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from litemq.broker.broker import Broker
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from support.callers import Asking, records
from support.schedules.disk import ScheduledClock, ScheduledDisk
from support.schedules.loop import ScheduledLoop
from support.schedules.primitives import scheduled_modules
from support.schedules.scheduler import Scheduler, Task

CONFIG: Final = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=1000
)
_BODY: Final = bytes(3000)


class Stage(NamedTuple):
    """What a scenario acts on."""

    scheduler: Scheduler
    clock: ScheduledClock
    disk: ScheduledDisk
    store: DiskStore
    broker: Broker

    async def send(self, topic: str, count: int, *, first: int = 0) -> None:
        """Send messages of 3 kB to queue 0; a segment holds about twenty."""
        await Asking(self.broker).send(records(count, first=first, topic=topic, body=_BODY), topic=topic)

    async def fill(self, count: int) -> None:
        """Send messages that no one needs, so that retention has segments to drop."""
        await Asking(self.broker).create("filler", 1)
        for _ in range(count):
            await self.send("filler", 5)

    def retain_in_background(self, rounds: int) -> Task:
        """Drop all segments but the last, again and again, in a thread."""

        def retain() -> None:
            for _ in range(rounds):
                self.store.retain(max_bytes=1)

        return self.scheduler.spawn("retention", retain)

    async def ended(self, task: Task) -> None:
        """Wait for a thread."""
        await self.until(lambda: task.is_done)

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> bool:
        """Wait until ``condition`` holds, at most for some virtual time; return whether it does."""
        end = self.scheduler.now_ns + seconds * 1e9
        while not condition() and self.scheduler.now_ns < end:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.005)
        return condition()


Scenario = Callable[[Stage], Awaitable[None]]


def play(scenario: Scenario, seed: int, folder: Path) -> ScheduledDisk:
    """Run ``scenario`` with the schedule of ``seed`` on a new store; return its disk."""
    scheduler = Scheduler(seed)
    disk = ScheduledDisk(scheduler)
    before = random.getstate()
    random.seed(seed)
    try:
        with scheduled_modules(scheduler):
            scheduler.run(lambda: _play(scenario, scheduler, disk, folder))
    finally:
        random.setstate(before)
    return disk


def _play(scenario: Scenario, scheduler: Scheduler, disk: ScheduledDisk, folder: Path) -> None:
    clock = ScheduledClock(scheduler)
    store = DiskStore(folder, CONFIG, clock, disk=disk, host="here")
    scheduler.no_waiting |= {store._parts.writing, store._parts.maintaining}
    loop = ScheduledLoop(scheduler)

    async def act() -> None:
        broker = Broker(store, clock)
        await scenario(Stage(scheduler, clock, disk, store, broker))
        broker.close()

    try:
        loop.run_until_complete(act())
    finally:
        _end_tasks(loop)
    store.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Drop the tasks that still run: the broker's own, or all after a failure."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        task.get_coro().close()
    loop.close()
