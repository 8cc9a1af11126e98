"""Timer firing: when a delayed message is due, the broker appends it to the queue that it was sent
to.

The waiting record (kind 1) is appended again with itself as the origin (kind 2). The same record
delivers the message and ends its timer, so the message neither fires twice nor gets lost. All
messages that are due at one moment are one append.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Sequence
from functools import partial
from typing import Final

from litemq.broker.runtime.background_task import BackgroundTask
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.errors import CorruptStoreError, InvalidArgumentError, RecordFormatError, StorageError
from litemq.format.record import FIXED_BYTES
from litemq.format.record_view import RecordView
from litemq.format.timer_batches import timer_batch
from litemq.proto.control_pb2 import Control, TimerEnded, TimersEnded
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.storage.timers.entries import Timer
from litemq.storage.timers.timer_store import timer_end
from litemq.types import RecordKind

__all__ = ["TimerFiring"]

_AT_ONCE: Final = 1024  # timers fired in one append; then other work runs
_BYTES_AT_ONCE: Final = 4 << 20
_NEAR_MS: Final = 60_000  # timers due within this time are in memory
_LOAD_MS: Final = 120_000
_NEVER: Final = 1 << 60
_AGAIN_MS: Final = 1000  # after a failure
_QUEUE_ID: Final = struct.Struct(">I")
_QUEUE_ID_AT: Final = 52
_LENGTHS: Final = struct.Struct(">HH")  # of message id and topic
_LENGTHS_AT: Final = 116
_LOG = logging.getLogger(__name__)


class TimerFiring(QueueListener):
    """Fires the timers of a store, on the event loop on which it is created."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._alarms = context.alarms
        self._events = context.events
        self._firing = asyncio.Lock()
        self._task = BackgroundTask("timer firing", "timers were not fired", self)
        self._set_for: int | None = None
        self._loading: asyncio.Future[None] | None = None
        self._load_after = 0
        self._ring([])

    def on_timer_added(self) -> None:
        due = self._store.timers.next_due
        if due is not None and (self._set_for is None or due < self._set_for):
            self._set_alarm(due)

    def close(self) -> None:
        """Fire no more. The next broker of the store fires due timers."""
        self._task.close()

    async def work(self) -> None:
        """Fire all timers that are due."""
        await self.fire_due()

    async def fire_due(self) -> int:
        """Fire all timers that are due now; return the number of messages."""
        fired = 0
        async with self._firing:
            now = self._clock.wall_ms()  # timers that become due meanwhile fire together, with their alarm
            while not self._task.is_closed:
                near_end = self._store.timers.near_end
                await self._load(now)
                timers = self._store.timers.take(now, self._store.confirm_offset, _AT_ONCE)
                if timers:
                    fired += await self._fire(timers)
                    await asyncio.sleep(0)
                elif self._store.timers.near_end > now or self._store.timers.near_end == near_end:
                    break  # the other timers are not due, or not confirmed yet
        return fired

    # When it is time ------------------------------------------------------------------------------

    def _set_alarm(self, due: int) -> None:
        self._set_for = due
        self._alarms.at(due, self._ring, due)

    def _ring(self, _dues: list[int]) -> None:
        if self._task.begin():
            self._set_for = None

    def on_end(self, after_ms: int) -> None:
        """Set the alarm for the next due time, or for the next load of timers."""
        timers = self._store.timers
        nearest = max(timers.near_end - _NEAR_MS, self._load_after) if self._loading is None else _NEVER
        due = timers.next_due
        if due is not None:
            nearest = min(nearest, due)
        if nearest < _NEVER:
            self._set_alarm(max(nearest, self._clock.wall_ms() + max(1, after_ms)))

    async def _load(self, now: int) -> None:
        """Load timers.

        Wait for those that are due, not for those of the next minutes: retention may hold the
        files.
        """
        near_end = self._store.timers.near_end
        is_urgent = near_end <= now
        if self._loading is None and near_end < now + _NEAR_MS and (is_urgent or now >= self._load_after):
            self._load_after = now + _AGAIN_MS  # unless more is loaded before
            self._loading = asyncio.get_running_loop().run_in_executor(None, self._store.load_timers, now + _LOAD_MS)
            self._loading.add_done_callback(partial(self._loaded, near_end))
        if is_urgent and self._loading is not None:
            await asyncio.shield(self._loading)

    def _loaded(self, near_end: int, loading: asyncio.Future[None]) -> None:
        self._loading = None
        error = None if loading.cancelled() else loading.exception()
        if error is not None:
            self._task.log_failure(error)
        elif self._store.timers.near_end > near_end:
            self._load_after = 0
        if self._task.task is None and not self._task.is_closed:
            self.on_end(0)

    # Firing ---------------------------------------------------------------------------------------

    async def _fire(self, timers: list[Timer]) -> int:
        """Append the messages of ``timers`` to their queues; return their number."""
        store = self._store
        try:
            size = 0
            for number, timer in enumerate(timers):
                size += timer.size
                if number and size > _BYTES_AT_ONCE:
                    return await self._fire_some(timers[:number])
            return await self._fire_some(timers)
        finally:
            store.timers.give_back(timers)  # except those that were fired

    async def _fire_some(self, timers: list[Timer]) -> int:
        store = self._store
        records = store.read_pending_if_cached(timers)
        if records is None:
            records = await asyncio.get_running_loop().run_in_executor(None, store.read_pending, timers)
        try:
            return self._append(timers, records)
        except (CorruptStoreError, InvalidArgumentError, RecordFormatError):
            # One of them was carried on or cancelled meanwhile, or is damaged: fire the others
            # without it.
            return self._append_each(timers, records)

    def _append_each(self, timers: Sequence[Timer], records: Sequence[bytes | memoryview]) -> int:
        """Append the messages of ``timers`` one by one; then raise if one will be repaired."""
        fired, damage = 0, None
        for timer, record in zip(timers, records, strict=True):
            try:
                fired += self._append_alone(timer, record)
            except CorruptStoreError as error:
                damage = error
        if damage is not None:
            raise damage
        return fired

    def _append(self, timers: Sequence[Timer], records: Sequence[bytes | memoryview]) -> int:
        placed: list[Placed] = []
        cancelled: list[TimerEnded] = []
        batches = self._store.state.parts.timer_batches
        is_any_cancelled = len(batches) > 0
        queues: dict[bytes, dict[int, QueueKey | None]] = {}  # by topic and queue id; there are few
        for timer, record in zip(timers, records, strict=True):
            key = self._destination(record, queues)
            if is_any_cancelled and batches.is_cancelled(*timer_batch(record), timer.pending):
                cancelled.append(
                    timer_end(self._store.timers, timer.pending, RecordView(record).delay_time, timer.size)
                )
            elif key is None:
                self._check_intact(timer, record)
                self._give_up(timer, "its topic or queue was deleted")
            else:
                placed.append(Placed(record, key.topic_id, key.queue_id, RecordKind.FIRED, timer.pending))
        if cancelled:
            self._end(cancelled, is_wanted=True)
        if placed:
            appended = self._store.append_placed(placed)
            self._events.on_append(list({QueueKey(each.topic_id, each.queue_id) for each in placed}), appended.end)
        return len(placed)

    def _append_alone(self, timer: Timer, record: bytes | memoryview) -> int:
        if not self._store.timers.is_taken(timer.pending):
            return 0
        try:
            return self._append([timer], [record])
        except (InvalidArgumentError, RecordFormatError) as error:
            if self._store.timers.is_taken(timer.pending):
                self._check_intact(timer, record)
                self._give_up(timer, str(error))
            return 0

    def _check_intact(self, timer: Timer, record: bytes | memoryview) -> None:
        """Raise ``StorageError`` if ``record``, of a replica's timer, is damaged.

        A replica repairs its log, so the timer is not lost.
        """
        if self._store.is_replicated and self._store.read_raw(timer.pending) != record:
            raise StorageError(f"the record at log offset {timer.pending} was damaged, and is repaired now")

    def _destination(
        self, record: bytes | memoryview, known: dict[bytes, dict[int, QueueKey | None]]
    ) -> QueueKey | None:
        """Return the queue that a record was sent to, if it is still there.

        ``known`` caches the look-ups.
        """
        (queue_id,) = _QUEUE_ID.unpack_from(record, _QUEUE_ID_AT)
        id_length, topic_length = _LENGTHS.unpack_from(record, _LENGTHS_AT)
        topic_at = FIXED_BYTES + id_length
        name = bytes(record[topic_at : topic_at + topic_length])
        queues = known.setdefault(name, {})
        if queue_id not in queues:
            topic = self._store.state.topic(name.decode(errors="replace"))
            queues[queue_id] = (
                None if topic is None or not topic.has_queue(queue_id) else QueueKey(topic.topic_id, queue_id)
            )
        return queues[queue_id]

    def _give_up(self, timer: Timer, reason: str) -> None:
        """End a timer whose message cannot be delivered."""
        _LOG.error("the delayed message at log offset %d cannot be delivered: %s", timer.pending, reason)
        self._end([TimerEnded(pending=timer.pending, due=timer.due, size=timer.size)])

    def _end(self, taken: list[TimerEnded], *, is_wanted: bool = False) -> None:
        """End the timers ``taken`` in one record, except those ended or moved meanwhile."""

        def decide() -> list[Control]:
            ended = [timer for timer in taken if self._store.timers.is_taken(timer.pending)]
            return [Control(timers_ended=TimersEnded(timers=ended, cancelled=is_wanted))] if ended else []

        self._store.change_timers(decide)
