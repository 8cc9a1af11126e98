"""Expires messages that are older than their topic's ``retention``, in the background."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq.broker.runtime.background_task import BackgroundTask
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener

__all__ = ["MessageExpiry"]

# A run looks at all topics, and a program may create thousands of them in a row.
_AFTER_CHANGE_S: Final = 0.1


class MessageExpiry(QueueListener):
    """Runs when the oldest message is due, and soon after a change of topics."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._alarms = context.alarms
        self._next_at: int | None = None  # of the alarm that counts, ms
        self._is_changed = False  # a topic was changed since the last run began
        self._waiting: asyncio.TimerHandle | None = None
        self._task = BackgroundTask("message expiry", "messages were not expired", self)
        self._task.begin()

    def on_topics_changed(self) -> None:
        if not self._is_changed:
            self._is_changed = True
            self._waiting = asyncio.get_running_loop().call_later(_AFTER_CHANGE_S, self._begin_after_change)

    async def work(self) -> None:
        """Expire what is due."""
        self._is_changed = False
        self._next_at = await self._store.expire_messages()

    async def expire_due(self) -> int:
        """Expire what is due now; return 0. For tests that move a clock."""
        await self.work()
        self.on_end(0)
        return 0

    def on_end(self, after_ms: int) -> None:
        """Set the alarm of the next run."""
        if after_ms:
            self._next_at = self._clock.wall_ms() + after_ms
        if self._next_at is not None:
            self._alarms.at(self._next_at, self._ring, self._next_at)

    def _begin_after_change(self) -> None:
        if self._is_changed and not self._task.begin():  # after the run that is under way
            self._waiting = asyncio.get_running_loop().call_later(_AFTER_CHANGE_S, self._begin_after_change)

    def _ring(self, times: list[int]) -> None:
        if self._next_at in times:
            self._task.begin()

    def close(self) -> None:
        """Cancel a run in progress."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._task.close()
