"""Transactions against a cluster that is killed meanwhile: committed, rolled back, or forgotten by whoever began them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.transactions.listener import CheckedTransaction, Decision, TransactionListener
from litemq.errors import LiteMQError
from support.time_history import TimeHistory, TransactionStory
from support.time_load import messages_of, now_ms

PAYMENTS: Final = "payments"
GROUP: Final = "shop"
_PRODUCERS: Final = 6
_PAUSE_S: Final = 0.02
_CHECK_AFTER_S: Final = 1.0
_MOST_CHECKS: Final = 200


class _Database(TransactionListener):
    """Knows the truth, as a database would in which it was written down together with everything else."""

    def __init__(self, history: TimeHistory) -> None:
        self._history = history

    async def check(self, transaction: CheckedTransaction) -> Decision:
        name = transaction.message.body.decode().split()[0]
        truth = self._history.transactions[name].truth
        return Decision.UNKNOWN if truth is None else Decision.COMMIT if truth else Decision.ROLLBACK


@dataclass
class TransactionLoad:
    """Producers of transactions, and a consumer that must see nothing too soon."""

    history: TimeHistory
    errors: list[str] = field(default_factory=list)
    chance: Random = field(default_factory=lambda: Random(11))
    told: dict[str, int] = field(default_factory=dict)

    async def produce(self, mq: AsyncClient, stopping: asyncio.Event) -> None:
        """Several producers, until it is over."""
        await asyncio.gather(*(self._producer(mq, stopping, number) for number in range(_PRODUCERS)))

    async def _producer(self, mq: AsyncClient, stopping: asyncio.Event, producer: int) -> None:
        number = 0
        while not stopping.is_set():
            await self._one(mq, f"x{producer}-{number}", self.chance.choice(["commit", "commit", "rollback", "silent", "repeat"]))
            number += 1
            await asyncio.sleep(_PAUSE_S)

    async def _one(self, mq: AsyncClient, name: str, way: str) -> None:
        count = self.chance.choice([1, 1, 3])
        story = self.history.transactions[name] = TransactionStory(count)
        try:
            transaction = mq.transaction(PAYMENTS, group_id=GROUP, check_after=_CHECK_AFTER_S, max_checks=_MOST_CHECKS)
            for message in range(count):
                await transaction.send(f"{name} {message}".encode())
            self._decide(story, truth=way != "rollback" and (way != "silent" or self.chance.random() < 0.5))
            if way != "silent":
                await (transaction.commit() if story.truth else transaction.rollback())
            if way == "repeat":
                await mq.commit(transaction.id)
        except LiteMQError as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            if story.truth is None:  # not all of it is surely stored: its producer gives up
                self._decide(story, truth=False)

    @staticmethod
    def _decide(story: TransactionStory, *, truth: bool) -> None:
        story.truth, story.decided_at = truth, now_ms()

    def listen(self, mq: AsyncClient) -> None:
        """Answer for all of them, whoever began them."""
        mq.transaction_listener(GROUP, _Database(self.history))

    async def watch(self, mq: AsyncClient) -> None:
        """Consume what can be seen until cancelled."""
        async with mq.consumer(PAYMENTS, group_id="watcher") as consumer:
            async for message in consumer:
                self.history.sightings.append((message.body.decode().split()[0], now_ms()))
                await message.ack()

    async def read(self, mq: AsyncClient) -> None:
        """What is to be seen now."""
        self.history.transaction_log = []
        async for message in messages_of(mq, PAYMENTS):
            name, number = message.body.decode().split()
            self.history.transaction_log.append((name, int(number)))

    def is_missing(self) -> bool:
        """Whether something has to come yet."""
        return sum(story.messages for story in self.history.transactions.values() if story.truth) > len(set(self.history.transaction_log))
