"""Timers against a cluster whose brokers are killed: sent, cancelled, moved, and recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.engine.timers import CancelOutcome
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import LiteMQError, SendOutcomeUnknownError, TimerEndedError, TimerNotFoundError
from support.history import Outcome
from support.time_history import Delivered, Fate, TimeHistory, TimerHistory

TIMERS: Final = "reminders"
_EVERY_S: Final = 0.02
_AT_ONCE: Final = 6
_OF_A_BATCH: Final = 30
_DELAYS_S: Final = (0.0, 6.0)  # a kill every three seconds: most wait through one
_CHANGE_EVERY_S: Final = 0.05
_CHANGERS: Final = 6
_LATEST: Final = 100  # each changer chooses among so many that were stored last


def now_ms() -> int:
    return int(time.time() * 1000)


async def messages_of(mq: AsyncClient, topic: str) -> AsyncIterator[Message]:
    """Return the messages in the log, read by the public reader."""
    async for message in mq.reader(topic, follow=False):
        yield message


@dataclass
class TimerLoad:
    """Sends timers, and cancels or moves them."""

    history: TimeHistory
    errors: list[str] = field(default_factory=list)
    chance: Random = field(default_factory=lambda: Random(7))
    ids: dict[str, str] = field(default_factory=dict)  # of those that are stored, by name
    batches: dict[str, list[str]] = field(default_factory=dict)  # of those that are stored
    sent: dict[str, list[str]] = field(default_factory=dict)  # whether or not they are stored, by batch

    async def send(self, mq: AsyncClient, stopping: asyncio.Event) -> None:
        """Send a few timers every few milliseconds until the load ends.

        Each timer ends as stored, refused or unknown.
        """
        number = 0
        while not stopping.is_set():
            for _ in range(_AT_ONCE):
                self._send(mq, f"t{number}", f"b{number // _OF_A_BATCH}")
                number += 1
            await asyncio.sleep(_EVERY_S)
        await mq.flush()

    def _send(self, mq: AsyncClient, name: str, batch: str) -> None:
        due = int((time.time() + self.chance.uniform(*_DELAYS_S)) * 1000)
        entry = self.history.timers[name] = TimerHistory(due)
        self.sent.setdefault(batch, []).append(name)
        try:
            sent = mq.send_nowait(
                TIMERS, name.encode(), deliver_at=datetime.fromtimestamp(due / 1000, UTC), batch_id=batch
            )
        except LiteMQError as error:
            self._failed(entry, error)
            return

        def done(sent: asyncio.Future[SendReceipt]) -> None:
            error = sent.exception()
            if error is None:
                entry.outcome = Outcome.ACKED
                self.ids[name] = sent.result().message_id
                self.batches.setdefault(batch, []).append(name)
            else:
                self._failed(entry, error)

        sent.add_done_callback(done)

    def _failed(self, entry: TimerHistory, error: BaseException) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")
        if not isinstance(error, SendOutcomeUnknownError):
            entry.outcome = Outcome.REFUSED

    # Changing one's mind --------------------------------------------------------------------------

    async def change(self, mq: AsyncClient, stopping: asyncio.Event) -> None:
        """Cancel some timers, move others, and sometimes cancel a batch, concurrently."""
        await asyncio.gather(*(self._changer(mq, stopping, number) for number in range(_CHANGERS)))

    async def _changer(self, mq: AsyncClient, stopping: asyncio.Event, number: int) -> None:
        while not stopping.is_set():
            await asyncio.sleep(_CHANGE_EVERY_S)
            latest = islice(reversed(self.ids), _CHANGERS * _LATEST)
            # Each changer has its own timers: of one timer, one thing is wanted at a time.
            mine = [name for name in latest if int(name[1:]) % _CHANGERS == number]
            if not mine:
                continue
            name = self.chance.choice(mine)
            kind = self.chance.random()
            try:
                if kind < 0.45:
                    await self._cancel(mq, name)
                elif kind < 0.9:
                    await self._move(mq, name)
                else:
                    await self._cancel_batch(mq, self.chance.choice(list(self.batches)))
            except LiteMQError as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    async def _cancel(self, mq: AsyncClient, name: str) -> None:
        entry = self.history.timers[name]
        before = entry.cancelled
        entry.cancelled = before or Fate.UNKNOWN
        match await mq.timers.cancel(TIMERS, self.ids[name]):
            case CancelOutcome.CANCELLED | CancelOutcome.CANCELLED_BEFORE:
                entry.cancelled = Fate.DONE if entry.never_after is None else before
            case CancelOutcome.DELIVERED:
                assert before is not Fate.DONE, f"{name} was cancelled, and then delivered"
                entry.cancelled = Fate.TOO_LATE
            case CancelOutcome.UNKNOWN:
                entry.cancelled = before  # its broker was not there to be asked

    async def _move(self, mq: AsyncClient, name: str) -> None:
        entry = self.history.timers[name]
        due = now_ms() + self.chance.randint(0, 5000)
        entry.moves.append((due, Fate.UNKNOWN))
        fate = Fate.UNKNOWN
        try:
            await mq.timers.reschedule(TIMERS, self.ids[name], deliver_at=datetime.fromtimestamp(due / 1000, UTC))
            fate = Fate.DONE
        except (TimerEndedError, TimerNotFoundError):
            fate = Fate.TOO_LATE
        finally:
            entry.moves[-1] = due, fate

    async def _cancel_batch(self, mq: AsyncClient, batch: str) -> None:
        names = list(self.batches[batch])  # stored before it is cancelled
        for name in names:
            entry = self.history.timers[name]
            entry.never_after = entry.never_after or 1 << 60  # whether it comes is not known from here on
        try:
            await mq.timers.cancel_batch(TIMERS, batch)
        finally:  # it was cancelled at some moment until now
            for name in set(self.sent[batch]) - set(names):
                self.history.timers[name].is_between = True
        done = now_ms()
        for name in names:
            entry = self.history.timers[name]
            entry.never_after = min(done, entry.never_after or done)

    # What came of it ------------------------------------------------------------------------------

    async def read(self, mq: AsyncClient) -> None:
        """Read the messages delivered so far."""
        self.history.timer_log = [
            Delivered(message.body.decode(), message.store_timestamp) async for message in messages_of(mq, TIMERS)
        ]

    @property
    def last_due(self) -> int:
        return max((due for entry in self.history.timers.values() for due in entry.possible_dues), default=0)

    def is_missing(self) -> bool:
        """Return whether expected messages are missing."""
        came = {each.name for each in self.history.timer_log}
        return any(entry.must_come and name not in came for name, entry in self.history.timers.items())
