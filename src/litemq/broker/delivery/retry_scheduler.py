"""The retry scheduler: when a retry is due, the message is appended to the group's retry queue.

The same record ends the wait.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from litemq.broker.runtime.context import BrokerContext
from litemq.errors import CorruptStoreError, LiteMQError
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.tries import WaitingTry
from litemq.storage.store import Placed
from litemq.types import RecordKind

__all__ = ["RetryScheduler"]

_TOGETHER_BYTES: Final = 4 << 20  # of one append
_AGAIN_MS: Final = 1000  # after a failure
_LOG = logging.getLogger(__name__)

Key = tuple[int, str]  # the predecessor and the group
Due = tuple[int, str, WaitingTry, bytes]


class RetryScheduler:
    """The waiting retries of all groups, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = store = context.store
        self._clock = context.store.log_clock
        self._alarms = context.log_alarms
        self._events = context.events
        self._reading: set[asyncio.Task[None]] = set()
        for predecessor, group, waiting in store.state.parts.tries:
            self.wait(predecessor, group, waiting.due)

    def wait(self, predecessor: int, group: str, due: int) -> None:
        """Schedule a retry for ``due``: its try has failed, and the log has it."""
        self._alarms.at(due, self._due, (predecessor, group))

    def _due(self, keys: list[Key]) -> None:
        cold: list[Key] = []
        hot: list[Key] = []
        for key in keys:
            (hot if self._store.is_hot(key[0]) else cold).append(key)
        found: list[Due] = []
        for key in hot:
            try:
                due = self._read(key)
            except LiteMQError as error:
                self._on_unreadable(key, error)
            else:
                found += [] if due is None else [due]
        self._place(found)
        if cold:
            task = asyncio.get_running_loop().create_task(self._place_cold(cold))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _place_cold(self, keys: list[Key]) -> None:
        """Read records that are not in memory in a thread, and append them in batches."""
        together: list[Due] = []
        for key in keys:
            try:
                due = await asyncio.to_thread(self._read, key)
            except LiteMQError as error:
                self._on_unreadable(key, error)
                continue
            if due is not None:
                together.append(due)
            if sum(len(due[3]) for due in together) >= _TOGETHER_BYTES:
                self._place(together)
                together = []
        self._place(together)

    def _read(self, key: Key) -> Due | None:
        """Return a retry that still waits, with its record."""
        tries = self._store.state.parts.tries
        predecessor, group = tries.moved_to(key[0]), key[1]
        waiting = tries.get(predecessor, group)
        return None if waiting is None else (predecessor, group, waiting, self._store.read_raw(predecessor))

    def _on_unreadable(self, key: Key, error: LiteMQError) -> None:
        """Try again later, unless the message is damaged and no other replica has it.

        Retention may have moved it meanwhile. Of a new master's log, the end is not confirmed yet.
        """
        predecessor, group = key
        if isinstance(error, CorruptStoreError) and not self._store.is_replicated:
            _LOG.error(
                "cannot retry for group %r: the message at log offset %d cannot be read: %s", group, predecessor, error
            )
        else:
            self.wait(predecessor, group, self._clock.wall_ms() + _AGAIN_MS)

    def _place(self, due: list[Due]) -> None:
        with self._store.atomically():
            still_due = self._still_due(due)
            if not still_due:
                return
            try:
                end = self._store.append_placed([placed for _, placed in still_due]).end
            except LiteMQError:
                _LOG.exception("%d due retries could not be appended: retrying in 1 s", len(still_due))
                again = self._clock.wall_ms() + _AGAIN_MS
                for group, placed in still_due:
                    self.wait(placed.origin, group, again)
                return
        for group, key in {(group, QueueKey(placed.topic_id, placed.queue_id)) for group, placed in still_due}:
            self._events.on_retry_placed(group, key, end)

    def _still_due(self, due: list[Due]) -> list[tuple[str, Placed]]:
        """Return the records to append, by group, without the retries that ended meanwhile."""
        tries, now = self._store.state.parts.tries, self._clock.wall_ms()
        still_due = []
        for predecessor, group, waiting, record in due:
            origin = tries.moved_to(predecessor)  # retention may have carried it forward meanwhile
            if tries.get(origin, group) != waiting:
                continue
            if waiting.due > now:
                self.wait(origin, group, waiting.due)
                continue
            placed = Placed(record, waiting.retry_topic_id, waiting.topic_id, RecordKind.RETRY, origin, waiting.tries)
            still_due.append((group, placed))
        return still_due

    def close(self) -> None:
        """Stop reading. The log has all retries that still wait."""
        for task in self._reading:
            task.cancel()
