"""Decided halves become messages, a few MiB at a time, while others have their turns."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq.broker.runtime.background_task import BackgroundTask
from litemq.broker.runtime.context import BrokerContext
from litemq.errors import InvalidArgumentError
from litemq.storage.store import DecidedHalves

__all__ = ["Copying"]

_BYTES_AT_ONCE: Final = 1 << 20  # some milliseconds for which everybody else waits
_MOST_UNCONFIRMED: Final = 32 << 20  # then the disk catches up first: others write, too


class Copying:
    """On the event loop on which it is made."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._alarms = context.alarms
        self._events = context.events
        self._turn = asyncio.Lock()
        self._task = BackgroundTask("copies halves", "committed records are not in their queues yet", self)

    def begin(self) -> None:
        """There may be something to copy."""
        if self._store.state.delivery.halves.first_decided is not None:
            self._task.begin()

    def close(self) -> None:
        """Nothing is copied any more."""
        self._task.close()

    async def work(self) -> None:
        """Copy all that is decided."""
        await self.copy_all()

    def on_end(self, after_ms: int) -> None:
        """Come again after a failure."""
        if after_ms:
            self._alarms.at(self._clock.wall_ms() + after_ms, self._ring, None)

    def _ring(self, _keys: list[None]) -> None:
        self.begin()

    async def copy_all(self) -> int:
        """Copy all that is decided; returns how many messages that were."""
        copied, store = 0, self._store
        halves = store.state.delivery.halves
        async with self._turn:
            while not self._task.is_closed and halves.first_decided is not None:
                keys = halves.decided_queues()
                await store.confirmed(store.log_end)  # the decision first
                copied += await self._copy_confirmed()
                # Retention, too, copies what it is about to take: whoever waits for these queues looks again.
                self._events.on_append(keys, store.log_end)
                self._events.on_timer_added()
        return copied

    async def _copy_confirmed(self) -> int:
        """Copy what is safe, and was decided."""
        copied, store = 0, self._store
        while not self._task.is_closed:
            decided = await self._read()
            if decided is None:
                break
            try:
                end = store.append_committed(decided, self._clock.wall_ms()).end
                copied += decided.length
            except InvalidArgumentError:
                end = store.log_end  # retention was faster, or the topic is gone
            self._events.on_append(decided.keys, end)
            self._events.on_timer_added()
            if end - store.confirm_offset > _MOST_UNCONFIRMED:
                await store.confirmed(end)
            else:
                await asyncio.sleep(0)
        return copied

    async def _read(self) -> DecidedHalves | None:
        halves, store = self._store.state.delivery.halves, self._store
        name = halves.first_decided
        known = None if name is None else halves.get(name)
        if known is None:
            return None
        if store.is_hot(known.first_log_offset):
            return store.read_decided(_BYTES_AT_ONCE)
        return await asyncio.get_running_loop().run_in_executor(None, store.read_decided, _BYTES_AT_ONCE)
