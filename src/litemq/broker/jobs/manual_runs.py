"""Manual runs of jobs: trigger, backfill of past ticks, and the history of all runs."""

from __future__ import annotations

import asyncio
from typing import Final

from litemq.broker.jobs.job import tick_id, tick_record, ticks_between
from litemq.broker.jobs.queue_choice import QueueChoice
from litemq.broker.jobs.run_state import is_settled
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import wait_readable, wait_safe
from litemq.errors import InvalidArgumentError, JobNotFoundError
from litemq.format.dead_letters import dead_topic, history_from_properties
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import BackfillJobAnswer, BackfillJobRequest, JobHistoryAnswer, JobRun, TriggerJobAnswer
from litemq.storage.state import QueueKey, retry_topic
from litemq.storage.store import Placed
from litemq.types import RecordKind, StoredRecord

__all__ = ["ManualRuns"]

_TICKS_AT_ONCE: Final = 200  # of a backfill; the client asks again for more
_MAX_COPIES: Final = 64

_Copies = tuple[StoredRecord, list[StoredRecord], list[StoredRecord]]  # a message, its copies, its dead letters


class ManualRuns:
    """Runs jobs on the event loop. It looks records up in a thread."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = store = context.store
        self._clock = context.clock
        self._lookups = context.answers.lookups
        self._events = context.events
        self._jobs = store.state.parts.jobs
        self._queue_choice = QueueChoice(store.state)
        self._lock = asyncio.Lock()  # concurrent requests for the same tick send it once

    async def trigger(self, slot: int, trigger_id: str) -> TriggerJobAnswer:
        """Send a job's message now. The same ``trigger_id`` sends it once."""
        job = self._jobs.definition(slot)
        message_id = f"{job.id}@{trigger_id}"
        async with self._lock:
            await wait_readable(self._store)  # an earlier try may have sent it
            if not await self._are_there(job, [message_id]):
                self._append(job, [(0, message_id)])
                await wait_safe(self._store, self._store.log_end)
        return TriggerJobAnswer(message_id=message_id)

    async def backfill(self, slot: int, request: BackfillJobRequest) -> BackfillJobAnswer:
        """Send the messages of past ticks that were not sent, some at a time."""
        job, through = self._jobs.definition(slot), int(self._jobs.table.columns[slot]["through"])
        now = self._clock.wall_ms()
        # The scheduler sends ticks that are not decided yet.
        until = min(request.until - 1, now if job.paused else min(now, through))
        ticks = list(ticks_between(job, request.since - 1, until, _TICKS_AT_ONCE))
        answer = BackfillJobAnswer(next_since=ticks[-1] + 1 if len(ticks) == _TICKS_AT_ONCE else 0)
        async with self._lock:
            await wait_readable(self._store)
            there = await self._are_there(job, [tick_id(job, tick) for tick in ticks])
            missing = [(tick, tick_id(job, tick)) for tick in ticks if tick_id(job, tick) not in there]
            answer.sent, answer.there = len(missing), len(ticks) - len(missing)
            if missing and not request.dry_run:
                self._append(job, missing)
                await wait_safe(self._store, self._store.log_end)
        return answer

    async def _are_there(self, job: JobDefinition, message_ids: list[str]) -> set[str]:
        """Return which of ``message_ids`` are still in the log."""

        def look() -> set[str]:
            return {message_id for message_id in message_ids if self._store.find(job.topic, message_id, 1)}

        return await asyncio.get_running_loop().run_in_executor(self._lookups, look)

    def _append(self, job: JobDefinition, messages: list[tuple[int, str]]) -> None:
        slot, now = self._jobs.find_slot(job.id), self._clock.wall_ms()
        if slot is None:
            raise JobNotFoundError(f"job {job.id!r} has been deleted: create it again to run it")
        if self._store.state.topic(job.topic) is None:
            raise InvalidArgumentError(
                f"topic {job.topic!r} of job {job.id!r} does not exist: create it, or change the job"
            )
        number = int(self._jobs.table.numbers[slot])
        placed = [
            Placed(
                tick_record(job, 0, message_id, now, tick),
                *self._queue_choice.queue_for(job),
                RecordKind.MESSAGE,
                number,
            )
            for tick, message_id in messages
        ]
        end = self._store.append_placed(placed).end
        self._events.on_append(list({QueueKey(each.topic_id, each.queue_id) for each in placed}), end)

    # History --------------------------------------------------------------------------------------

    async def history(self, slot: int, limit: int) -> JobHistoryAnswer:
        """Return the latest runs of a job that the log still has, with their state."""
        job = self._jobs.definition(slot)
        found = await asyncio.get_running_loop().run_in_executor(self._lookups, self._look_back, job, limit)
        return JobHistoryAnswer(runs=[self._run(job, *each) for each in found])

    def _look_back(self, job: JobDefinition, limit: int) -> list[_Copies]:
        found: list[_Copies] = []
        seen: set[str] = set()
        for stored in self._store.find(job.topic, job.id, limit + _MAX_COPIES):
            message_id = stored.record.message_id
            if message_id.rpartition("@")[0] == job.id and message_id not in seen and len(found) < limit:
                seen.add(message_id)
                copies = self._store.find(job.topic, message_id, _MAX_COPIES, anywhere=True) if job.group else []
                found.append((stored, copies, self._store.find(dead_topic(job.topic), message_id, _MAX_COPIES)))
        return found

    def _run(
        self, job: JobDefinition, stored: StoredRecord, copies: list[StoredRecord], dead: list[StoredRecord]
    ) -> JobRun:
        stamp, tick = stored.stamp, stored.record.message_id.rpartition("@")[2]
        run = JobRun(message_id=stored.record.message_id, tick=int(tick) if tick.isdecimal() else 0)
        if stamp is not None:
            run.sent_at, run.queue_id, run.queue_offset = stamp.store_timestamp, stamp.queue_id, stamp.queue_offset
        run.state = self._state(job, stored, copies, dead)
        return run

    def _state(
        self, job: JobDefinition, stored: StoredRecord, copies: list[StoredRecord], dead: list[StoredRecord]
    ) -> str:
        if any(job.group in ("", history_from_properties(each.record.properties).group) for each in dead):
            return "failed"
        if not job.group or stored.stamp is None:
            return "sent"
        state = self._store.state
        retries = state.topic(retry_topic(job.group))
        stamps = [each.stamp for each in copies if each.stamp is not None]
        tried = [stamp for stamp in stamps if retries is not None and stamp.topic_id == retries.topic_id]
        last = max([stored.stamp, *tried], key=lambda stamp: stamp.commitlog_offset)
        if state.parts.tries.get(last.commitlog_offset, job.group) is not None or (last.kind is RecordKind.RETRY):
            settled = is_settled(state, job.group, QueueKey(last.topic_id, last.queue_id), last.queue_offset)
            waiting = state.parts.tries.get(last.commitlog_offset, job.group) is not None
            return "done" if settled and not waiting else "trying"
        return (
            "done"
            if is_settled(state, job.group, QueueKey(last.topic_id, last.queue_id), last.queue_offset)
            else "sent"
        )
