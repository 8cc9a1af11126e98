"""Timers, cron jobs and transactions of a simulation, recorded for the checker of ``time_history``.

Times are those of the broker that wrote a record: it stamps the record, and decides what is due.
"""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.engine.timers import CancelOutcome
from litemq.client.messages.message import Message
from litemq.client.transactions.listener import CheckedTransaction, Decision, TransactionListener
from litemq.errors import JobExistsError, LiteMQError, SendOutcomeUnknownError, TimerEndedError, TimerNotFoundError
from support.history import Outcome
from support.sim.extra_load import ExtraLoad
from support.sim.load import Load
from support.time_history import (
    Delivered,
    Fate,
    JobHistory,
    TimeHistory,
    TimerHistory,
    TransactionHistory,
    time_problems,
)

__all__ = ["Jobs", "TimeLoad", "Timers", "Transactions"]

_SECOND_MS: Final = 1_000
_LATE_WITHIN_MS: Final = 60_000  # after the faults, the group is whole again


class TimeLoad(ExtraLoad):
    """A load on a topic of its own, whose messages are read at the end."""

    def __init__(self, load: Load, chosen: random.Random) -> None:
        super().__init__(load, chosen)
        self.history = TimeHistory(late_within_ms=_LATE_WITHIN_MS)

    async def create(self, mq: AsyncClient) -> None:
        await mq.admin.create_topic(self.topic, queues=1)

    async def look(self, _mq: AsyncClient) -> None:
        await super().look(_mq)
        messages = [message async for message in _mq.reader(self.topic, follow=False)]
        self.note(messages)
        self.cluster.counts[self.topic] = len(messages)

    def note(self, messages: list[Message]) -> None:
        """Record all ``messages`` of the topic."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        return time_problems(self.history)


class Timers(TimeLoad):
    """Sends timers; cancels some, and moves some."""

    topic = "reminders"

    def __init__(self, load: Load, chosen: random.Random) -> None:
        super().__init__(load, chosen)
        self._ids: dict[str, str] = {}  # of those that are stored, by name

    async def step(self, mq: AsyncClient) -> None:
        name = self.random.choice(list(self._ids)[-5:]) if self._ids else ""
        kind = self.random.random()
        if not name or kind < 0.6:
            await self._send(mq)
        elif kind < 0.8:
            await self._cancel(mq, name)
        else:
            await self._move(mq, name)

    def _due(self) -> int:
        return self.cluster.wall_ms + self.random.randint(0, 4_000)

    async def _send(self, mq: AsyncClient) -> None:
        name = f"t{len(self.history.timers)}"
        due = self._due()
        entry = self.history.timers[name] = TimerHistory(due)
        at = datetime.fromtimestamp(due / 1000, UTC)
        try:
            receipt = await mq.send(self.topic, name.encode(), deliver_at=at, durability="replicas")
        except LiteMQError as error:
            if not isinstance(error, SendOutcomeUnknownError):
                entry.outcome = Outcome.REFUSED
            raise
        entry.outcome = Outcome.ACKED
        self._ids[name] = receipt.message_id

    async def _cancel(self, mq: AsyncClient, name: str) -> None:
        entry = self.history.timers[name]
        before = entry.cancelled
        entry.cancelled = before or Fate.UNKNOWN
        match await mq.timers.cancel(self.topic, self._ids[name]):
            case CancelOutcome.CANCELLED | CancelOutcome.CANCELLED_BEFORE:
                entry.cancelled = Fate.DONE
            case CancelOutcome.DELIVERED:
                if before is Fate.DONE:
                    self.cluster.fault(f"I8: timer {name} was cancelled, and delivered then")
                entry.cancelled = Fate.TOO_LATE
            case CancelOutcome.UNKNOWN:
                entry.cancelled = before

    async def _move(self, mq: AsyncClient, name: str) -> None:
        entry = self.history.timers[name]
        due = self._due()
        entry.moves.append((due, Fate.UNKNOWN))
        fate = Fate.UNKNOWN
        try:
            at = datetime.fromtimestamp(due / 1000, UTC)
            await mq.timers.reschedule(self.topic, self._ids[name], deliver_at=at)
            fate = Fate.DONE
        except (TimerEndedError, TimerNotFoundError):
            fate = Fate.TOO_LATE
        finally:
            entry.moves[-1] = due, fate

    def note(self, messages: list[Message]) -> None:
        self.history.timer_log = [Delivered(message.body.decode(), message.store_timestamp) for message in messages]

    @property
    def is_complete(self) -> bool:
        came = {each.name for each in self.history.timer_log}
        timers = self.history.timers
        last_due = max((due for entry in timers.values() for due in entry.possible_dues), default=0)
        is_missing = any(entry.must_come and name not in came for name, entry in timers.items())
        return not is_missing and self.cluster.wall_ms > last_due + _SECOND_MS


class Jobs(TimeLoad):
    """Two cron jobs that tick every second: one catches up, one does not."""

    topic = "ticks"

    def __init__(self, load: Load, chosen: random.Random) -> None:
        super().__init__(load, chosen)
        self._began = 0

    async def create(self, mq: AsyncClient) -> None:
        await super().create(mq)
        for rule in ("all", "skip"):
            self.history.jobs[rule] = JobHistory(catches_up=rule == "all")
            with suppress(JobExistsError):  # the answer to an earlier try was lost
                await mq.jobs.create(
                    self.topic, b"tick", job_id=rule, cron="* * * * * *", catch_up=rule, catch_up_window=3600.0
                )
        self._began = self.cluster.wall_ms

    async def step(self, mq: AsyncClient) -> None:
        """Create a job that exists already."""
        with suppress(JobExistsError):
            await mq.jobs.create(self.topic, b"again", job_id="all", cron="* * * * * *")

    def on_stop(self) -> None:
        first = -(-self._began // _SECOND_MS) * _SECOND_MS
        for entry in self.history.jobs.values():
            entry.expected = list(range(first, self.cluster.wall_ms, _SECOND_MS))

    def note(self, messages: list[Message]) -> None:
        self.history.tick_log = [
            (
                message.properties["litemq-job"],
                round(datetime.fromisoformat(message.properties["litemq-tick"]).timestamp() * 1000),
                message.store_timestamp,
            )
            for message in messages
        ]

    @property
    def is_complete(self) -> bool:
        came = {(job, tick) for job, tick, _ in self.history.tick_log}
        jobs = self.history.jobs.items()
        return all((job, tick) in came for job, entry in jobs if entry.catches_up for tick in entry.expected)


class Transactions(TimeLoad, TransactionListener):
    """Transactions that are committed, rolled back, or left for a check by the broker."""

    topic = "payments"
    _GROUP: Final = "shop"
    _listens = False

    async def create(self, mq: AsyncClient) -> None:
        if not self._listens:
            mq.transaction_listener(self._GROUP, self)
            self._listens = True
        await mq.admin.create_topic(self.topic, queues=1, check_every=1.0)

    async def check(self, transaction: CheckedTransaction) -> Decision:
        truth = self.history.transactions[transaction.message.body.decode().split()[0]].truth
        return Decision.UNKNOWN if truth is None else Decision.COMMIT if truth else Decision.ROLLBACK

    async def step(self, mq: AsyncClient) -> None:
        name = f"x{len(self.history.transactions)}"
        way = self.random.choice(["commit", "commit", "rollback", "silent", "repeat"])
        count = self.random.choice([1, 1, 2])
        entry = self.history.transactions[name] = TransactionHistory(count)
        try:
            transaction = mq.transaction(self.topic, group_id=self._GROUP, check_after=1.0, max_checks=200)
            for number in range(count):
                await transaction.send(f"{name} {number}".encode())
            self._decide(entry, truth=way != "rollback" and (way != "silent" or self.random.random() < 0.5))
            if way != "silent":
                await (transaction.commit() if entry.truth else transaction.rollback())
            if way == "repeat" and entry.truth:
                await mq.commit(transaction.id)
        finally:
            if entry.truth is None:  # not all of it is surely stored: its producer gives up
                self._decide(entry, truth=False)

    def _decide(self, entry: TransactionHistory, *, truth: bool) -> None:
        entry.truth, entry.decided_at = truth, self.cluster.wall_ms

    def note(self, messages: list[Message]) -> None:
        found = [message.body.decode().split() for message in messages]
        self.history.transaction_log = [(name, int(number)) for name, number in found]

    @property
    def is_complete(self) -> bool:
        needed = sum(entry.messages for entry in self.history.transactions.values() if entry.truth)
        return len(set(self.history.transaction_log)) >= needed
