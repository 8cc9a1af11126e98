"""The job scheduler: sends the messages of jobs when their ticks are due.

The ticks that are due at one moment are one append, or a few if there are many. The message of a
tick names the job as its origin and the tick as its time, so the record that delivers a tick also
marks it as sent: after a crash, a tick is sent or not, and never twice. A tick that is not sent,
because a run is not over or because it is too late, gets a record, too.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.broker.jobs.job import due_at, due_ticks, next_tick, tick_id, tick_record
from litemq.broker.jobs.queue_choice import QueueChoice
from litemq.broker.jobs.run_state import is_running
from litemq.broker.runtime.background_task import BackgroundTask
from litemq.broker.runtime.context import BrokerContext
from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.record import DELAY_TIME_AT
from litemq.proto.control_pb2 import Control, TickPassed, TicksPassed
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.schedules.cron import NEVER
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.types import Overlap, RecordKind

__all__ = ["JobScheduler"]

Longs = npt.NDArray[np.int64]

_AT_ONCE: Final = 64  # jobs whose ticks are one append; then other work runs
_TICKS_AT_ONCE: Final = 256  # ticks in one append, and their bytes; more only if each job has one
_BYTES_AT_ONCE: Final = 1 << 20
_NEAR_MS: Final = 120_000  # ticks due within this time are in the heap
_LOADED_AT_ONCE: Final = 500
_LOOK_MS: Final = 1_000  # interval of checks whether a run is over for which a tick waits
_ALLOW: Final = int(Overlap.ALLOW)  # a member of an enum costs much to look up
_LOG = logging.getLogger(__name__)


class JobScheduler:
    """Schedules all jobs of a store, on the event loop on which it is created."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = store = context.store
        self._clock = context.clock
        self._alarms = context.alarms
        self._events = context.events
        self._jobs = store.state.parts.jobs
        self._queue_choice = QueueChoice(store.state)
        self._due: Longs = np.empty(0, np.int64)  # by slot: when the next tick is sent
        self._layout = -1
        self._near: list[tuple[int, int]] = []  # a heap of due times and slots, some of them outdated
        self._near_end = 0
        self._waiting: set[int] = set()  # numbers of jobs of which a tick waits until a run is over
        self._firing = asyncio.Lock()
        self._task = BackgroundTask("job ticks", "ticks of jobs were not sent", self)
        self._set_for: int | None = None
        if len(self._jobs):
            self._ring([])

    def close(self) -> None:
        """Send no more. The next broker of the store decides about ticks that are due."""
        self._task.close()

    def reschedule(self, slots: Iterable[int]) -> None:
        """Compute the next ticks of jobs that were created, changed or deleted."""
        if self._layout != self._jobs.table.layout:
            self._layout = -1  # compute the ticks of all jobs
            self._set_alarm(self._clock.wall_ms())
            return
        self._grow()
        for slot in slots:
            self._schedule(slot)
        self.on_end()

    def next_tick(self, slot: int) -> int:
        """Return a job's next tick, by its schedule."""
        job = self._jobs.definition(slot)
        return next_tick(job, max(int(self._jobs.table.columns[slot]["through"]), self._clock.wall_ms() - 1))

    async def work(self) -> None:
        """Send all ticks that are due."""
        await self.fire_due()

    async def fire_due(self) -> int:
        """Send all ticks that are due now; return the number of messages."""
        sent = 0
        async with self._firing:
            await self._load()
            while not self._task.is_closed:
                now = self._clock.wall_ms()
                slots = self._take(now)
                waiting = self._find_finished()
                if not slots and not waiting:
                    break
                try:
                    sent += self._send(slots, waiting, now)
                except BaseException:
                    for slot in slots:
                        heapq.heappush(self._near, (int(self._due[slot]), slot))
                    raise
                await asyncio.sleep(0)
        return sent

    # When it is time ------------------------------------------------------------------------------

    def _set_alarm(self, due: int) -> None:
        if self._set_for is None or due < self._set_for:
            self._set_for = due
            self._alarms.at(due, self._ring, due)

    def _ring(self, _dues: list[int]) -> None:
        self._set_for = None
        self._task.begin()

    def on_end(self, after_ms: int = 0) -> None:
        now = self._clock.wall_ms()
        near = self._near
        while near and self._due[near[0][1]] != near[0][0]:
            heapq.heappop(near)
        nearest = min(near[0][0] if near else NEVER, self._near_end - _NEAR_MS // 2 if self._due.size else NEVER)
        if self._waiting:
            nearest = min(nearest, now + _LOOK_MS)
        if nearest < NEVER:
            self._set_alarm(max(nearest, now + after_ms))

    async def _load(self) -> None:
        """Compute the next ticks of all jobs if they are unknown, a few at a time, and put the near
        ones into the heap.
        """
        table = self._jobs.table
        while self._layout != table.layout:
            self._layout, self._near, self._near_end = table.layout, [], 0
            self._due = np.full(len(table.definitions), NEVER)
            at = 0
            while at < len(table.definitions) and self._layout == table.layout:
                end = min(at + _LOADED_AT_ONCE, len(table.definitions))
                self._grow()
                for slot in range(at, end):
                    self._schedule(slot)
                at = end
                await asyncio.sleep(0)
        self._grow()
        now = self._clock.wall_ms()
        if self._near_end <= now + _NEAR_MS // 2:
            self._near_end = now + _NEAR_MS
            slots = np.flatnonzero(self._due < self._near_end)
            self._near = list(zip(self._due[slots].tolist(), slots.tolist(), strict=True))
            heapq.heapify(self._near)

    def _grow(self) -> None:
        size = len(self._jobs.table.definitions)
        if self._due.size < size:
            due = np.full(max(64, 2 * size), NEVER)
            due[: self._due.size] = self._due
            self._due = due

    def _schedule(self, slot: int) -> None:
        """Compute when a job's next tick is sent."""
        due = NEVER
        if self._jobs.table.definitions[slot]:
            job, row = self._jobs.definition(slot), self._jobs.table.columns[slot]
            if row["queued"]:
                self._waiting.add(int(self._jobs.table.numbers[slot]))
            if not job.paused:
                due = due_at(job, next_tick(job, int(row["through"])))
        self._set_due(slot, due)

    def _set_due(self, slot: int, due: int) -> None:
        self._due[slot] = due
        if due < self._near_end:
            heapq.heappush(self._near, (due, slot))

    def _take(self, now: int) -> list[int]:
        """Take up to ``_AT_ONCE`` jobs that are due."""
        taken: dict[int, None] = {}
        near = self._near
        while near and near[0][0] <= now and len(taken) < _AT_ONCE:
            due, slot = heapq.heappop(near)
            if self._due[slot] == due:
                taken[slot] = None
        return list(taken)

    def _find_finished(self) -> list[int]:
        """Return jobs of which a tick waits, and whose run is over."""
        found: list[int] = []
        for number in list(self._waiting):
            slot = self._jobs.table.slot(number)
            if slot is None or not self._jobs.table.columns[slot]["queued"]:
                self._waiting.discard(number)
            elif len(found) < _AT_ONCE:
                job = self._jobs.definition(slot)
                if not job.paused and not is_running(self._store.state, self._jobs.row_at(slot), job.group):
                    found.append(slot)
        return found

    # Sending --------------------------------------------------------------------------------------

    def _send(self, slots: list[int], waiting: list[int], now: int) -> int:
        """Decide about the due ticks of jobs, and append the decisions: skipped ticks before the
        messages, messages, skipped ticks after.

        After a crash in between, the rest is decided again.
        """
        batch = _TickBatch()
        table = self._jobs.table
        for slot in waiting:
            job, number, tick = (
                self._jobs.definition(slot),
                int(table.numbers[slot]),
                int(table.columns[slot]["queued"]),
            )
            if not self._place(batch, job, number, tick, now):
                batch.after.append(TickPassed(number=number, missed=1, queued=-1))
        jobs = list(map(self._jobs.definition, slots))
        numbers, columns = table.numbers[slots].tolist(), table.columns[slots]
        throughs, queued = columns["through"].tolist(), columns["queued"].tolist()
        upcoming = [
            self._decide(batch, *each, now) for each in zip(slots, jobs, numbers, throughs, queued, strict=True)
        ]
        self._pass(batch.before)
        if batch.placed:
            self._append(batch)
        self._pass(batch.after)
        for slot, job, tick in zip(slots, jobs, upcoming, strict=True):
            if tick:
                self._set_due(slot, due_at(job, tick))
            else:
                self._schedule(slot)
        return len(batch.placed)

    def _pass(self, passed: list[TickPassed]) -> None:
        if passed:
            self._store.append_control(Control(ticks_passed=TicksPassed(jobs=passed)))

    def _append(self, batch: _TickBatch) -> None:
        try:
            end = self._store.append_placed(batch.placed).end
        except (InvalidArgumentError, RecordFormatError):
            # One of them cannot be sent: send the others without it.
            end = 0
            for each in batch.placed:
                try:
                    end = self._store.append_placed([each]).end
                except (InvalidArgumentError, RecordFormatError) as error:
                    tick = int.from_bytes(each.record[DELAY_TIME_AT], "big")
                    _LOG.error("tick %d of the job with number %d cannot be sent: %s", tick, each.origin, error)
                    batch.after.append(TickPassed(number=each.origin, through=tick, missed=1, queued=-1))
        self._events.on_append(list({QueueKey(each.topic_id, each.queue_id) for each in batch.placed}), end)

    def _decide(
        self, batch: _TickBatch, slot: int, job: JobDefinition, number: int, through: int, queued: int, now: int
    ) -> int:
        """Decide about the due ticks of a job; return its next tick, 0 if unknown."""
        due = due_ticks(job, through, now, batch.limit(job))
        send: list[int] = due.send
        others: list[int] = []
        if send and job.overlap != _ALLOW:
            running = bool(queued) or is_running(self._store.state, self._jobs.row_at(slot), job.group)
            others, send = (send, []) if running else (send[1:], send[:1])
        if due.missed:
            batch.before.append(
                TickPassed(number=number, through=send[0] - 1 if send else due.through, missed=due.missed)
            )
        for tick in send:
            if not self._place(batch, job, number, tick, now):
                batch.after.append(TickPassed(number=number, through=tick, missed=1))
        if others:
            waits = others[-1] if job.overlap == Overlap.QUEUE_ONE and not queued else 0
            batch.after.append(
                TickPassed(number=number, through=due.through, skipped=len(others) - bool(waits), queued=waits)
            )
            if waits:
                self._waiting.add(number)
        return due.upcoming

    def _place(self, batch: _TickBatch, job: JobDefinition, number: int, tick: int, now: int) -> bool:
        try:
            key = self._queue_choice.queue_for(job)
            batch.place(Placed(tick_record(job, tick, tick_id(job, tick), now), *key, RecordKind.MESSAGE, number))
        except InvalidArgumentError as error:
            _LOG.warning("tick %d of job %s is not sent: %s", tick, job.id, error)
            return False
        return True


class _TickBatch:
    """The records of ticks that are decided together, in the order of their append."""

    def __init__(self) -> None:
        self.before: list[TickPassed] = []
        self.placed: list[Placed] = []
        self.after: list[TickPassed] = []
        self._bytes = 0

    def place(self, placed: Placed) -> None:
        """Add the message of a tick."""
        self.placed.append(placed)
        self._bytes += len(placed.record)

    def limit(self, job: JobDefinition) -> int:
        """Return how many ticks of ``job`` fit into this batch: one at least."""
        by_bytes = (_BYTES_AT_ONCE - self._bytes) // max(1, len(job.body))
        return max(1, min(_TICKS_AT_ONCE - len(self.placed), by_bytes))
