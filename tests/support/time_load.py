"""Timers, jobs and transactions against a cluster that is killed meanwhile; what they see is written down, and they go on whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.messages import Message, SendReceipt
from litemq.errors import LiteMQError, SendOutcomeUnknownError
from support.history import Outcome
from support.time_history import Delivered, TimeHistory, TimerStory

TIMERS: Final = "reminders"
_EVERY_S: Final = 0.01
_AT_ONCE: Final = 4
_DELAYS_S: Final = (0.0, 6.0)  # a kill every three seconds: most wait through one
_STEP_S: Final = 0.2


@dataclass
class TimeLoad:
    """Everything that runs against a cluster, with the history that it makes."""

    url: str
    history: TimeHistory = field(default_factory=TimeHistory)
    errors: list[str] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    chance: Random = field(default_factory=lambda: Random(7))

    def client(self) -> AsyncClient:
        return AsyncClient(self.url, shutdown_timeout_ms=10_000)

    # Timers -------------------------------------------------------------------------------------------------------------------

    async def send_timers(self) -> None:
        """Some every few milliseconds, until it is over; at the end, all are known to be stored, not to be, or nobody knows."""
        async with self.client() as mq:
            number = 0
            while not self.stopping.is_set():
                for _ in range(_AT_ONCE):
                    self._send_timer(mq, f"t{number}")
                    number += 1
                await asyncio.sleep(_EVERY_S)
            await mq.flush()

    def _send_timer(self, mq: AsyncClient, name: str) -> None:
        due = int((time.time() + self.chance.uniform(*_DELAYS_S)) * 1000)
        story = self.history.timers[name] = TimerStory(due)
        try:
            sent = mq.send_nowait(TIMERS, name.encode(), deliver_at=datetime.fromtimestamp(due / 1000, UTC))
        except LiteMQError as error:
            self._failed(story, error)
            return

        def done(sent: asyncio.Future[SendReceipt]) -> None:
            error = sent.exception()
            if error is None:
                story.outcome = Outcome.ACKED
            else:
                self._failed(story, error)

        sent.add_done_callback(done)

    def _failed(self, story: TimerStory, error: BaseException) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")
        if not isinstance(error, SendOutcomeUnknownError):
            story.outcome = Outcome.REFUSED

    # What came of it ----------------------------------------------------------------------------------------------------------

    async def read_logs(self) -> None:
        """What is in the log now, by the reader that anybody may use."""
        self.history.timer_log = [Delivered(m.body.decode(), m.store_timestamp) async for m in self._messages(TIMERS)]

    async def _messages(self, topic: str) -> AsyncIterator[Message]:
        async with self.client() as mq:
            async for message in mq.reader(topic, follow=False):
                yield message

    async def wait_until_all_came(self, within: float) -> None:
        """Until everything that must come is there, and a moment longer; the checker tells what is missing where that does not happen."""
        last = max((due for story in self.history.timers.values() for due in story.possible_dues), default=0)
        await asyncio.sleep(max(0.0, last / 1000 - time.time()))
        until = time.monotonic() + within
        while time.monotonic() < until:
            await self.read_logs()
            if not self._is_missing():
                break
            await asyncio.sleep(_STEP_S)
        await asyncio.sleep(_STEP_S)
        await self.read_logs()

    def _is_missing(self) -> bool:
        came = {each.name for each in self.history.timer_log}
        return any(
            story.outcome is Outcome.ACKED and story.cancelled is None and name not in came for name, story in self.history.timers.items()
        )


@contextlib.asynccontextmanager
async def running(load: TimeLoad, *, settle: float) -> AsyncIterator[TimeLoad]:
    """Everything at once; after the block it comes to an end, and the log is read."""
    async with load.client() as mq:
        await mq.admin.create_topic(TIMERS, queues=2)
    tasks = [asyncio.create_task(load.send_timers())]
    try:
        yield load
        load.stopping.set()
        async with asyncio.timeout(settle):
            await asyncio.gather(*tasks)
        await load.wait_until_all_came(settle)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
