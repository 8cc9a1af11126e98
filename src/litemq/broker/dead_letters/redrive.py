"""Redrive: dead letters go to their topic again, or are given up.

Sent on, a letter is a plain message once more: the record that died, its producer's bytes as they were, behind the others of its queue. The
new record names the letter as its origin, which ends it: the two are one write, so a letter is sent on once, whoever asks, however often, and
whatever is killed in between. What a redrive does is not remembered by a broker that stops; asked for again, it goes on with what is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from litemq.broker.dead_letters.destinations import Destinations
from litemq.broker.dead_letters.reading import Damaged, Letter, Letters
from litemq.broker.runtime.context import BrokerContext
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

__all__ = ["Redrive", "Redriving"]

_READ_AT_ONCE: Final = 256
_READ_BYTES: Final = 4 << 20
_MOST_RUNNING: Final = 8
_REMEMBERED: Final = 256
_MOST_RECORDS: Final = 1_000
_BURST_PARTS: Final = 10  # a tenth of a second's messages may go at once
_LONGEST_WAIT: Final = 0.1  # before a cancellation is noticed
_RETRY_AFTER_MS: Final = 1_000
_LOG = logging.getLogger(__name__)


@dataclass
class Redrive:
    """One redrive, and how far it is. Each letter that is selected is done, gone, expired or damaged in the end, unless it is cancelled before."""

    redrive_id: int
    topic: str
    selection: DeadSelection
    dry_run: bool
    drop: bool
    letters: int
    log_end: int  # what dies later is not meant
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
        """Nothing more happens to it. The first end counts."""
        if self.state == "running":
            self.state, self.problem = state, problem
            self.ended.set()

    def told(self) -> RedriveAnswer:
        """As its client is told."""
        return RedriveAnswer(
            redrive_id=self.redrive_id,
            state=self.state,
            letters=self.letters,
            examined=self.examined,
            selected=self.selected,
            done=self.done,
            gone=self.gone,
            expired=self.expired,
            damaged=self.damaged,
            problem=self.problem,
        )


class Redriving:
    """All redrives of a broker."""

    def __init__(self, context: BrokerContext, letters: Letters) -> None:
        self._store = store = context.store
        self._letters = letters
        self._clock = clock = context.clock
        self._lookups = context.answers.lookups
        self._events = context.events
        self._destinations = Destinations(store)
        self._numbers = count(clock.wall_ms())  # another one after a restart: nobody follows the wrong redrive
        self._redrives: dict[int, Redrive] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def begin(self, topic: str, selection: DeadSelection, *, messages_per_s: int = 0, dry_run: bool = False, drop: bool = False) -> Redrive:
        """Start one; it goes on by itself."""
        if len(self._tasks) >= _MOST_RUNNING:
            raise OverloadedError(f"{_MOST_RUNNING} redrives run here already: wait for one, or cancel it", _RETRY_AFTER_MS)
        if not drop:
            self._destinations.topic(topic)  # raises where there is none to send them to
        redrive = Redrive(next(self._numbers), topic, selection, dry_run, drop, self._letters.count(topic), self._store.log_end)
        while len(self._redrives) >= _REMEMBERED:
            self._redrives.pop(next(number for number, one in self._redrives.items() if one.ended.is_set()))
        self._redrives[redrive.redrive_id] = redrive
        task = asyncio.get_running_loop().create_task(self._run(redrive, self._throttle(messages_per_s)))
        self._tasks[redrive.redrive_id] = task

        def over(_task: asyncio.Task[None]) -> None:
            del self._tasks[redrive.redrive_id]
            redrive.end("cancelled", "the broker was stopped")  # unless it has ended

        task.add_done_callback(over)
        return redrive

    def _throttle(self, messages_per_s: int) -> Throttle:
        return Throttle(messages_per_s, max(1, messages_per_s // _BURST_PARTS), self._clock.elapsed_ns())

    def get(self, redrive_id: int) -> Redrive:
        """One that runs, or ended not long ago."""
        redrive = self._redrives.get(redrive_id)
        if redrive is None:
            raise InvalidArgumentError(
                f"no redrive has the number {redrive_id} here: the broker was restarted, or it is long over. Ask for the same selection again: "
                "it goes on with what is left"
            )
        return redrive

    def cancel(self, redrive_id: int) -> Redrive:
        """Stop one where it is, which it will be in a moment: what was sent on stays so."""
        redrive = self.get(redrive_id)
        redrive.is_stopping = True
        return redrive

    def close(self) -> None:
        """The broker stops."""
        for task in self._tasks.values():
            task.cancel()

    # One redrive --------------------------------------------------------------------------------------------------------------

    async def _run(self, redrive: Redrive, throttle: Throttle) -> None:
        try:
            seen = -1
            while not redrive.is_stopping and (offsets := self._next(redrive, seen)):
                found, seen = await asyncio.get_running_loop().run_in_executor(self._lookups, self._read, redrive, offsets)
                await self._take(redrive, found, throttle)
            redrive.end("cancelled" if redrive.is_stopping else "done")
        except LiteMQError as error:
            redrive.end("failed", str(error))
        except Exception:  # noqa: BLE001  whoever follows it is told, and the others go on
            _LOG.exception("redrive %d of %s failed", redrive.redrive_id, redrive.topic)
            redrive.end("failed", "the broker could not go on; its log says why")

    def _next(self, redrive: Redrive, seen: int) -> list[int]:
        return [one for one in self._letters.after(redrive.topic, seen, _READ_AT_ONCE) if one < redrive.log_end]

    def _read(self, redrive: Redrive, offsets: Sequence[int]) -> tuple[deque[Letter], int]:
        """Those of some letters that are meant, and which one was looked at last. From a thread: it may wait for the disk."""
        found: deque[Letter] = deque()
        size, seen = 0, -1
        for seen in offsets:
            redrive.examined += 1
            letter = self._letters.read(seen)
            if isinstance(letter, Damaged):
                redrive.selected += 1
                redrive.damaged += 1
            elif letter is not None and redrive.selection.matches(letter.record.message_id, letter.story):
                redrive.selected += 1
                found.append(letter)
                size += len(letter.raw)
                if size >= _READ_BYTES:
                    break
        return found, seen

    async def _take(self, redrive: Redrive, found: deque[Letter], throttle: Throttle) -> None:
        if redrive.dry_run:
            for letter in found:
                self._count(redrive, letter)
            return
        while found and not redrive.is_stopping:
            now_ns = self._clock.elapsed_ns()
            number = throttle.take(len(found), now_ns)
            if not number:
                await asyncio.sleep(min(throttle.wait_seconds(1, now_ns), _LONGEST_WAIT))
                continue
            taken = [found.popleft() for _ in range(number)]
            end = self._drop(redrive, taken) if redrive.drop else await self._send_on(redrive, taken)
            await self._store.confirmed(end)

    def _count(self, redrive: Redrive, letter: Letter) -> bool:
        """Whether a letter can go; if not, it is counted as what it is."""
        if not self._letters.is_there(letter.log_offset):
            redrive.gone += 1
            return False
        if not redrive.drop:
            expire_at = letter.original().record.expire_at
            if expire_at and expire_at <= self._clock.wall_ms():
                redrive.expired += 1
                return False
        return True

    async def _send_on(self, redrive: Redrive, letters: list[Letter]) -> int:
        places = await asyncio.get_running_loop().run_in_executor(self._lookups, self._destinations.queues_of, redrive.topic, letters)
        placed = [
            Placed(letter.record.body, topic_id, queue_id, RecordKind.MESSAGE, letter.log_offset)
            for letter, (topic_id, queue_id) in zip(letters, places, strict=True)
            if self._count(redrive, letter)
        ]
        return self._append(redrive, placed)

    def _append(self, redrive: Redrive, placed: list[Placed]) -> int:
        if not placed:
            return 0
        end = self._store.append_placed(placed).end
        redrive.done += len(placed)
        self._events.on_append(list({QueueKey(one.topic_id, one.queue_id) for one in placed}), end)
        return end

    def _drop(self, redrive: Redrive, letters: list[Letter]) -> int:
        going = sorted(letter.log_offset for letter in letters if self._count(redrive, letter))
        if not going:
            return 0
        end = self._store.append_control(dropped(going)).end
        redrive.done += len(going)
        return end

    # New records for old letters ------------------------------------------------------------------------------------------------

    async def send_on_changed(self, topic: str, log_offsets: Sequence[int], records: bytes) -> list[bool]:
        """Letters go on as other records than those that died, which a client made of them; which of them did."""
        if not 1 <= len(log_offsets) <= _MOST_RECORDS:
            raise InvalidArgumentError(f"{len(log_offsets)} dead letters: send on 1 … {_MOST_RECORDS} at a time")
        columns = check_batch(bytearray(records), limits=STORED_LIMITS)
        if len(columns) != len(log_offsets):
            raise InvalidArgumentError(f"{len(columns)} records for {len(log_offsets)} dead letters")
        if not are_of_topic(columns, topic.encode()):
            raise InvalidArgumentError(f"a record is not of topic {topic!r}")
        if len(set(log_offsets)) != len(log_offsets):
            raise InvalidArgumentError("a dead letter is named twice")
        letters = await asyncio.get_running_loop().run_in_executor(self._lookups, lambda: list(map(self._letters.read, log_offsets)))
        there = [letter for letter in letters if isinstance(letter, Letter)]
        if any(letter.record.topic != f"%DLQ%{topic}" for letter in there):
            raise InvalidArgumentError(f"a dead letter is not of topic {topic!r}")
        places = await asyncio.get_running_loop().run_in_executor(self._lookups, self._destinations.queues_of, topic, there)
        going = {letter.log_offset: place for letter, place in zip(there, places, strict=True) if self._letters.is_there(letter.log_offset)}
        placed, priorities = [], columns.header["priority"].tolist()
        for log_offset, start, size, priority in zip(log_offsets, columns.starts.tolist(), columns.sizes.tolist(), priorities, strict=True):
            if log_offset in going:
                topic_id, queue_id = going[log_offset]
                queue_id = self._destinations.with_priority(topic_id, queue_id, priority)
                placed.append(Placed(records[start : start + size], topic_id, queue_id, RecordKind.MESSAGE, log_offset))
        if placed:
            end = self._store.append_placed(placed).end
            self._events.on_append(list({QueueKey(one.topic_id, one.queue_id) for one in placed}), end)
            await self._store.confirmed(end)
        return [log_offset in going for log_offset in log_offsets]


def dropped(log_offsets: Sequence[int]) -> Control:
    """The record that gives dead letters up; their log offsets rise."""
    steps = [later - earlier for earlier, later in zip((0, *log_offsets), log_offsets, strict=False)]
    return Control(dead_letters_dropped=DeadLettersDropped(log_offset_steps=steps))
