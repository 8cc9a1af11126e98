"""Redrive: the broker sends dead letters back to their topic, or drops them.

A redriven dead letter is a plain message again: the bytes of its producer, appended to its queue.
The new record names the dead letter as its origin, which ends the dead letter in the same write. So
a dead letter is sent back at most once, also across a crash. A broker that stops forgets its
redrives; the same request continues with the dead letters that are left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from litemq.broker.dead_letters.destinations import RedriveDestinations
from litemq.broker.dead_letters.reading import DamagedDeadLetter, DeadLetter, DeadLetterReader
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import wait_safe
from litemq.broker.runtime.throttle import Throttle
from litemq.errors import InvalidArgumentError, LiteMQError, OverloadedError
from litemq.format.batches.check import are_of_topic, check_batch
from litemq.format.dead_letters import DeadSelection
from litemq.format.limits import STORED_LIMITS
from litemq.proto.control_pb2 import Control, DeadLettersDropped
from litemq.proto.wire_pb2 import RedriveAnswer
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.types import RecordKind

__all__ = ["Redrive", "Redrives"]

_READ_AT_ONCE: Final = 256
_READ_BYTES: Final = 4 << 20
_MAX_RUNNING: Final = 8
_REMEMBERED: Final = 256
_MAX_RECORDS: Final = 1_000
_BURST_PARTS: Final = 10  # a tenth of a second's messages may go at once
_MAX_WAIT_S: Final = 0.1  # before a cancellation is noticed
_RETRY_AFTER_MS: Final = 1_000
_LOG = logging.getLogger(__name__)


@dataclass
class Redrive:
    """The progress of one redrive.

    Unless it is cancelled, each selected dead letter ends as done, gone, expired or damaged.
    """

    redrive_id: int
    topic: str
    selection: DeadSelection
    dry_run: bool
    drop: bool
    dead_letters: int
    log_end: int  # later dead letters are not part of this redrive
    examined: int = 0
    selected: int = 0
    done: int = 0
    gone: int = 0
    expired: int = 0
    damaged: int = 0
    state: str = "running"
    problem: str = ""
    is_stopping: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, state: str, problem: str = "") -> None:
        """End the redrive. The first end counts."""
        if self.state == "running":
            self.state, self.problem = state, problem
            self.ended.set()

    def to_wire(self) -> RedriveAnswer:
        """Return the progress as a wire message."""
        return RedriveAnswer(
            redrive_id=self.redrive_id,
            state=self.state,
            letters=self.dead_letters,
            examined=self.examined,
            selected=self.selected,
            done=self.done,
            gone=self.gone,
            expired=self.expired,
            damaged=self.damaged,
            problem=self.problem,
        )


class Redrives:
    """All redrives of a broker."""

    def __init__(self, context: BrokerContext, reader: DeadLetterReader) -> None:
        self._store = store = context.store
        self._reader = reader
        self._clock = clock = context.clock
        self._lookups = context.answers.lookups
        self._events = context.events
        self._destinations = RedriveDestinations(store)
        self._numbers = count(clock.wall_ms())  # never repeats a number, also after a restart
        self._redrives: dict[int, Redrive] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def begin(
        self,
        topic: str,
        selection: DeadSelection,
        *,
        messages_per_s: int = 0,
        dry_run: bool = False,
        drop: bool = False,
    ) -> Redrive:
        """Start a redrive as a task, and return it."""
        if len(self._tasks) >= _MAX_RUNNING:
            raise OverloadedError(
                f"{_MAX_RUNNING} redrives are running: wait for one to end, or cancel one", _RETRY_AFTER_MS
            )
        if not drop:
            self._destinations.topic(topic)  # raises if the topic is gone
        redrive = Redrive(
            next(self._numbers), topic, selection, dry_run, drop, self._reader.count(topic), self._store.log_end
        )
        while len(self._redrives) >= _REMEMBERED:
            self._redrives.pop(next(number for number, one in self._redrives.items() if one.ended.is_set()))
        self._redrives[redrive.redrive_id] = redrive
        task = asyncio.get_running_loop().create_task(self._run(redrive, self._throttle(messages_per_s)))
        self._tasks[redrive.redrive_id] = task

        def over(_task: asyncio.Task[None]) -> None:
            del self._tasks[redrive.redrive_id]
            redrive.end("cancelled", "the broker stopped: start the redrive again to continue")  # unless it has ended

        task.add_done_callback(over)
        return redrive

    def _throttle(self, messages_per_s: int) -> Throttle:
        return Throttle(messages_per_s, max(1, messages_per_s // _BURST_PARTS), self._clock.elapsed_ns())

    def get(self, redrive_id: int) -> Redrive:
        """Return a redrive that runs or has ended recently."""
        redrive = self._redrives.get(redrive_id)
        if redrive is None:
            raise InvalidArgumentError(
                f"redrive {redrive_id} is unknown: the broker was restarted, or the redrive ended long ago. Start it "
                "again with the same selection to continue with the remaining dead letters"
            )
        return redrive

    def cancel(self, redrive_id: int) -> Redrive:
        """Stop a redrive. Messages that it has sent back stay in their topic."""
        redrive = self.get(redrive_id)
        redrive.is_stopping = True
        return redrive

    def close(self) -> None:
        """Stop all redrives, because the broker stops."""
        for task in self._tasks.values():
            task.cancel()

    # One redrive ----------------------------------------------------------------------------------

    async def _run(self, redrive: Redrive, throttle: Throttle) -> None:
        try:
            seen = -1
            while not redrive.is_stopping and (offsets := self._next(redrive, seen)):
                found, seen = await asyncio.get_running_loop().run_in_executor(
                    self._lookups, self._read, redrive, offsets
                )
                await self._take(redrive, found, throttle)
            redrive.end("cancelled" if redrive.is_stopping else "done")
        except LiteMQError as error:
            redrive.end("failed", str(error))
        except Exception:  # noqa: BLE001  clients that follow it get the error
            _LOG.exception("redrive %d of %s failed", redrive.redrive_id, redrive.topic)
            redrive.end("failed", "the redrive failed: see the broker's log")

    def _next(self, redrive: Redrive, seen: int) -> list[int]:
        return [one for one in self._reader.after(redrive.topic, seen, _READ_AT_ONCE) if one < redrive.log_end]

    def _read(self, redrive: Redrive, offsets: Sequence[int]) -> tuple[deque[DeadLetter], int]:
        """Read the dead letters at ``offsets``; return the selected ones and the last offset read.

        In a thread: it may wait for the disk.
        """
        found: deque[DeadLetter] = deque()
        size, seen = 0, -1
        for seen in offsets:
            redrive.examined += 1
            dead_letter = self._reader.read(seen)
            if isinstance(dead_letter, DamagedDeadLetter):
                redrive.selected += 1
                redrive.damaged += 1
            elif dead_letter is not None and redrive.selection.matches(
                dead_letter.record.message_id, dead_letter.history
            ):
                redrive.selected += 1
                found.append(dead_letter)
                size += len(dead_letter.raw)
                if size >= _READ_BYTES:
                    break
        return found, seen

    async def _take(self, redrive: Redrive, found: deque[DeadLetter], throttle: Throttle) -> None:
        if redrive.dry_run:
            for dead_letter in found:
                self._count(redrive, dead_letter)
            return
        while found and not redrive.is_stopping:
            now_ns = self._clock.elapsed_ns()
            number = throttle.take(len(found), now_ns)
            if not number:
                await asyncio.sleep(min(throttle.wait_seconds(1, now_ns), _MAX_WAIT_S))
                continue
            taken = [found.popleft() for _ in range(number)]
            end = self._drop(redrive, taken) if redrive.drop else await self._send_back(redrive, taken)
            await self._store.confirmed(end)
            refusal = self._store.lease_refusal
            if refusal is not None:
                raise refusal

    def _count(self, redrive: Redrive, dead_letter: DeadLetter) -> bool:
        """Return whether a dead letter can go; if not, count it as gone or expired."""
        if not self._reader.is_there(dead_letter.log_offset):
            redrive.gone += 1
            return False
        if not redrive.drop:
            expire_at = dead_letter.original().record.expire_at
            if expire_at and expire_at <= self._clock.wall_ms():
                redrive.expired += 1
                return False
        return True

    async def _send_back(self, redrive: Redrive, dead_letters: list[DeadLetter]) -> int:
        queues = await asyncio.get_running_loop().run_in_executor(
            self._lookups, self._destinations.find_queues, redrive.topic, dead_letters
        )
        with self._store.atomically():  # no dead letter is carried forward after it was found there
            placed = [
                Placed(dead_letter.record.body, topic_id, queue_id, RecordKind.MESSAGE, dead_letter.log_offset)
                for dead_letter, (topic_id, queue_id) in zip(dead_letters, queues, strict=True)
                if self._count(redrive, dead_letter)
            ]
            return self._append(redrive, placed)

    def _append(self, redrive: Redrive, placed: list[Placed]) -> int:
        if not placed:
            return 0
        end = self._store.append_placed(placed).end
        redrive.done += len(placed)
        self._events.on_append(list({QueueKey(one.topic_id, one.queue_id) for one in placed}), end)
        return end

    def _drop(self, redrive: Redrive, dead_letters: list[DeadLetter]) -> int:
        with self._store.atomically():
            going = sorted(dead_letter.log_offset for dead_letter in dead_letters if self._count(redrive, dead_letter))
            if not going:
                return 0
            end = self._store.append_control(drop_record(going)).end
        redrive.done += len(going)
        return end

    # Edited dead letters --------------------------------------------------------------------------

    async def send_edited(self, topic: str, log_offsets: Sequence[int], records: bytes) -> list[bool]:
        """Send edited ``records`` in place of the dead letters at ``log_offsets``.

        Return for each record whether its dead letter was still there.
        """
        if not 1 <= len(log_offsets) <= _MAX_RECORDS:
            raise InvalidArgumentError(f"{len(log_offsets)} dead letters in one request: send 1 … {_MAX_RECORDS}")
        columns = check_batch(bytearray(records), limits=STORED_LIMITS)
        if len(columns) != len(log_offsets):
            raise InvalidArgumentError(
                f"{len(columns)} records for {len(log_offsets)} dead letters: send one record for each"
            )
        if not are_of_topic(columns, topic.encode()):
            raise InvalidArgumentError(
                f"a record is not of topic {topic!r}: send all records to the topic of their dead letters"
            )
        if len(set(log_offsets)) != len(log_offsets):
            raise InvalidArgumentError("a dead letter is named twice: name each once")
        dead_letters = await asyncio.get_running_loop().run_in_executor(
            self._lookups, lambda: list(map(self._reader.read, log_offsets))
        )
        found = [dead_letter for dead_letter in dead_letters if isinstance(dead_letter, DeadLetter)]
        if any(dead_letter.record.topic != f"%DLQ%{topic}" for dead_letter in found):
            raise InvalidArgumentError(f"a dead letter is not of topic {topic!r}: name only dead letters of this topic")
        queues = await asyncio.get_running_loop().run_in_executor(
            self._lookups, self._destinations.find_queues, topic, found
        )
        destinations = {dead_letter.log_offset: queue for dead_letter, queue in zip(found, queues, strict=True)}
        placed, priorities = [], columns.header["priority"].tolist()
        for log_offset, start, size, priority in zip(
            log_offsets, columns.starts.tolist(), columns.sizes.tolist(), priorities, strict=True
        ):
            if log_offset in destinations:
                topic_id, queue_id = destinations[log_offset]
                queue_id = self._destinations.with_priority(topic_id, queue_id, priority)
                placed.append(Placed(records[start : start + size], topic_id, queue_id, RecordKind.MESSAGE, log_offset))
        with self._store.atomically():
            going = [each for each in placed if self._reader.is_there(each.origin)]
            end = self._store.append_placed(going).end if going else 0
        if going:
            self._events.on_append(list({QueueKey(one.topic_id, one.queue_id) for one in going}), end)
            await wait_safe(self._store, end)
        sent = {each.origin for each in going}
        return [log_offset in sent for log_offset in log_offsets]


def drop_record(log_offsets: Sequence[int]) -> Control:
    """Return the record that drops dead letters. ``log_offsets`` must rise."""
    steps = [later - earlier for earlier, later in zip((0, *log_offsets), log_offsets, strict=False)]
    return Control(dead_letters_dropped=DeadLettersDropped(log_offset_steps=steps))
