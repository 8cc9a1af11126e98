"""Transactions against a cluster whose brokers are killed: committed, rolled back, or undecided."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.transactions.listener import CheckedTransaction, Decision, TransactionListener
from litemq.errors import LiteMQError
from support.time_history import TimeHistory, TransactionHistory
from support.time_load import messages_of, now_ms

PAYMENTS: Final = "payments"
GROUP: Final = "shop"
_PRODUCERS: Final = 6
_PAUSE_S: Final = 0.02
_CHECK_AFTER_S: Final = 1.0
_MOST_CHECKS: Final = 200


class _Database(TransactionListener):
    """Knows the outcome of each transaction, as the producer's database does."""

    def __init__(self, history: TimeHistory) -> None:
        self._history = history

    async def check(self, transaction: CheckedTransaction) -> Decision:
        name = transaction.message.body.decode().split()[0]
        truth = self._history.transactions[name].truth
        return Decision.UNKNOWN if truth is None else Decision.COMMIT if truth else Decision.ROLLBACK


@dataclass
class TransactionLoad:
    """Producers of transactions, and a consumer that must see committed messages only."""

    history: TimeHistory
    errors: list[str] = field(default_factory=list)
    chance: Random = field(default_factory=lambda: Random(11))
    answers: dict[str, int] = field(default_factory=dict)

    async def produce(self, mq: AsyncClient, stopping: asyncio.Event) -> None:
        """Run several producers until the load ends."""
        await asyncio.gather(*(self._producer(mq, stopping, number) for number in range(_PRODUCERS)))

    async def _producer(self, mq: AsyncClient, stopping: asyncio.Event, producer: int) -> None:
        number = 0
        while not stopping.is_set():
            await self._one(
                mq, f"x{producer}-{number}", self.chance.choice(["commit", "commit", "rollback", "silent", "repeat"])
            )
            number += 1
            await asyncio.sleep(_PAUSE_S)

    async def _one(self, mq: AsyncClient, name: str, way: str) -> None:
        count = self.chance.choice([1, 1, 3])
        entry = self.history.transactions[name] = TransactionHistory(count)
        try:
            transaction = mq.transaction(PAYMENTS, group_id=GROUP, check_after=_CHECK_AFTER_S, max_checks=_MOST_CHECKS)
            for message in range(count):
                await transaction.send(f"{name} {message}".encode())
            self._decide(entry, truth=way != "rollback" and (way != "silent" or self.chance.random() < 0.5))
            if way != "silent":
                await (transaction.commit() if entry.truth else transaction.rollback())
            if way == "repeat":
                await mq.commit(transaction.id)
        except LiteMQError as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            if entry.truth is None:  # not all of it is surely stored: its producer gives up
                self._decide(entry, truth=False)

    @staticmethod
    def _decide(entry: TransactionHistory, *, truth: bool) -> None:
        entry.truth, entry.decided_at = truth, now_ms()

    def listen(self, mq: AsyncClient) -> None:
        """Answer the checks of all transactions."""
        mq.transaction_listener(GROUP, _Database(self.history))

    async def watch(self, mq: AsyncClient) -> None:
        """Consume visible messages until cancelled."""
        async with mq.consumer(PAYMENTS, group_id="watcher") as consumer:
            async for message in consumer:
                self.history.sightings.append((message.body.decode().split()[0], now_ms()))
                await message.ack()

    async def read(self, mq: AsyncClient) -> None:
        """Read the visible messages."""
        self.history.transaction_log = []
        async for message in messages_of(mq, PAYMENTS):
            name, number = message.body.decode().split()
            self.history.transaction_log.append((name, int(number)))

    def is_missing(self) -> bool:
        """Return whether expected messages are missing."""
        return sum(entry.messages for entry in self.history.transactions.values() if entry.truth) > len(
            set(self.history.transaction_log)
        )
