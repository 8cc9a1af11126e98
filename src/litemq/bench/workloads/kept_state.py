"""Small amounts of each kind of a group's state: made before a failover, looked for after it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import datetime
from typing import Final

from litemq import AsyncClient
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.errors import LiteMQError

__all__ = ["KINDS", "KeptState"]

KINDS: Final = ("progress", "leases", "timers", "halves", "cron")
_GROUP: Final = "kept"
_EACH: Final = 20
_LEASE_S: Final = 300.0  # longer than a round
_DUE_IN_S: Final = 3.0  # beyond the lease of the master: when there is no master, or shortly after
_LATE_S: Final = 20.0  # until a timer or a tick counts as lost
_SECOND_MS: Final = 1000
_STEP_S: Final = 0.1


class KeptState:
    """The state of one round, in topics and a job of its own."""

    def __init__(self, mq: AsyncClient, name: str, lease_s: float) -> None:
        self._mq = mq
        self._name = name
        self._due_in_s = lease_s + _DUE_IN_S
        self._leased: list[Message] = []
        self._transactions: list[str] = []
        self._due_at = 0.0
        self._first_tick = 0

    def _topic(self, kind: str) -> str:
        return f"{self._name}-{kind}"

    async def make(self) -> None:
        """Make the state, and return once it is stored."""
        mq = self._mq
        for kind in KINDS:
            await mq.admin.create_topic(self._topic(kind), queues=1)
        for kind in ("progress", "leases"):
            await mq.send_batch(self._topic(kind), [OutgoingMessage(b"%d" % number) for number in range(2 * _EACH)])
        await mq.jobs.create(
            self._topic("cron"), job_id=self._name, cron="* * * * * *", catch_up="all", catch_up_window=3600.0
        )
        self._first_tick = (int(time.time()) + 1) * _SECOND_MS
        async with mq.consumer(self._topic("progress"), group_id=_GROUP, auto_offset_reset="earliest") as consumer:
            taken = 0
            while taken < _EACH:
                messages = await consumer.take(_EACH - taken, _LATE_S)
                await mq.ack_batch(messages)
                taken += len(messages)
            await consumer.commit()
        while len(self._leased) < _EACH:
            self._leased += await mq.receive(
                self._topic("leases"), group_id=_GROUP, max_messages=_EACH - len(self._leased), lease=_LEASE_S
            )
        for number in range(_EACH):
            half = await mq.send_transaction(self._topic("halves"), b"%d" % number, group_id=_GROUP)
            self._transactions.append(half.transaction_id)
        self._due_at = time.time() + self._due_in_s
        await mq.send_batch(
            self._topic("timers"), [OutgoingMessage(b"%d" % number, delay=self._due_in_s) for number in range(_EACH)]
        )

    async def count_lost(self) -> Counter[str]:
        """Return what the next master lacks, by kind."""
        lost = Counter(
            progress=await self._lost_progress(), leases=await self._lost_leases(), halves=await self._lost_halves()
        )
        lost.update(timers=await self._lost_timers(), cron=await self._lost_ticks())
        await self._mq.jobs.delete(self._name)
        return lost

    async def _lost_progress(self) -> int:
        """Count acknowledged messages that are delivered again, and others that are missing."""
        found: list[int] = []
        async with self._mq.consumer(self._topic("progress"), group_id=_GROUP) as consumer:
            while len(found) < _EACH and (messages := await consumer.take(2 * _EACH, _LATE_S)):
                found += [int(message.body) for message in messages]
                await self._mq.ack_batch(messages)
            await consumer.commit()
        return len(set(found) ^ set(range(_EACH, 2 * _EACH)))

    async def _lost_leases(self) -> int:
        """Count leased messages that are delivered again, and leases that cannot be settled."""
        held = {message.message_id for message in self._leased}
        others = await self._mq.receive(
            self._topic("leases"), group_id=_GROUP, max_messages=4 * _EACH, lease=_LEASE_S, wait=_LATE_S
        )
        await self._mq.ack_batch(others)
        lost = len(held & {message.message_id for message in others})
        for message in self._leased:
            try:
                await message.ack()
            except LiteMQError:
                lost += 1
        return lost

    async def _lost_halves(self) -> int:
        """Commit every second transaction, and count those without their outcome."""
        for number, transaction in enumerate(self._transactions):
            await (self._mq.rollback(transaction) if number % 2 else self._mq.commit(transaction))
        expected = set(range(0, _EACH, 2))
        return len(expected ^ {int(message.body) for message in await self._read("halves", len(expected), 0)})

    async def _lost_timers(self) -> int:
        """Count timers that are missing, early or duplicated."""
        messages = await self._read("timers", _EACH, self._due_at)
        if any(message.store_timestamp < int(self._due_at * 1000) for message in messages):
            raise LiteMQError("a timer fired early")
        return len(set(range(_EACH)) ^ {int(message.body) for message in messages}) + max(0, len(messages) - _EACH)

    async def _lost_ticks(self) -> int:
        """Count the ticks of the job without a message, up to now."""
        now = time.time()
        expected = set(range(self._first_tick, int(now) * _SECOND_MS, _SECOND_MS))
        messages = await self._read("cron", len(expected), now)
        found = {
            round(datetime.fromisoformat(message.properties["litemq-tick"]).timestamp() * 1000) for message in messages
        }
        return len(expected - found)

    async def _read(self, kind: str, count: int, due_at: float) -> list[Message]:
        """Read a topic until it has ``count`` messages, at most until they are late."""
        until = max(time.time(), due_at) + _LATE_S
        while True:
            messages = [message async for message in self._mq.reader(self._topic(kind), follow=False)]
            if len(messages) >= count or time.time() > until:
                return messages
            await asyncio.sleep(_STEP_S)
