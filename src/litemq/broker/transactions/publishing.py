"""Publishes decided halves as messages, a MiB at a time, so that other work runs in between."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq.broker.runtime.background_task import BackgroundTask
from litemq.broker.runtime.context import BrokerContext
from litemq.errors import InvalidArgumentError
from litemq.storage.store import DecidedHalves

__all__ = ["HalfPublisher"]

_BYTES_AT_ONCE: Final = 1 << 20  # some milliseconds, in which all other work waits
_MAX_UNCONFIRMED: Final = 32 << 20  # then it waits for the disk, which other writers need, too


class HalfPublisher:
    """Publishes on the event loop on which it is created."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._alarms = context.alarms
        self._events = context.events
        self._lock = asyncio.Lock()
        self._task = BackgroundTask("half publishing", "committed records were not published", self)

    def begin(self) -> None:
        """Start publishing if there are decided halves."""
        if self._store.state.parts.halves.first_decided is not None:
            self._task.begin()

    def close(self) -> None:
        """Publish no more."""
        self._task.close()

    async def work(self) -> None:
        """Publish all decided halves."""
        await self.publish_all()

    def on_end(self, after_ms: int) -> None:
        """Try again after a failure."""
        if after_ms:
            self._alarms.at(self._clock.wall_ms() + after_ms, self._ring, None)

    def _ring(self, _keys: list[None]) -> None:
        self.begin()

    async def publish_all(self) -> int:
        """Publish all decided halves; return the number of messages."""
        published, store = 0, self._store
        halves = store.state.parts.halves
        async with self._lock:
            while not self._task.is_closed and halves.first_decided is not None:
                keys = halves.decided_queues()
                await store.confirmed(store.log_end)  # the decision first
                published += await self._publish_confirmed()
                # Retention publishes halves, too, before it deletes them: waiting readers of these
                # queues look again.
                self._events.on_append(keys, store.log_end)
                self._events.on_timer_added()
        return published

    async def _publish_confirmed(self) -> int:
        """Publish halves whose decision is confirmed."""
        published, store = 0, self._store
        while not self._task.is_closed:
            decided = await self._read()
            if decided is None:
                break
            try:
                end = store.append_committed(decided, self._clock.wall_ms()).end
                published += decided.length
            except InvalidArgumentError:
                end = store.log_end  # retention was faster, or the topic is gone
            self._events.on_append(decided.keys, end)
            self._events.on_timer_added()
            if end - store.confirm_offset > _MAX_UNCONFIRMED:
                await store.confirmed(end)
            else:
                await asyncio.sleep(0)
        return published

    async def _read(self) -> DecidedHalves | None:
        halves, store = self._store.state.parts.halves, self._store
        name = halves.first_decided
        known = None if name is None else halves.get(name)
        if known is None:
            return None
        if store.is_hot(known.first_log_offset):
            return store.read_decided(_BYTES_AT_ONCE)
        return await asyncio.get_running_loop().run_in_executor(None, store.read_decided, _BYTES_AT_ONCE)
