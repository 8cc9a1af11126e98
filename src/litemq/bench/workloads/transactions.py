"""Transactions from one client process: how many are committed, each on its own, while many are under way.

Every message must be there once afterwards, and nothing of those that were rolled back: else it is an error, not a figure.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from typing import Final

import numpy as np

from litemq import AsyncClient
from litemq.bench.clusters import running_cluster
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["CommittedTransactions"]

_TRANSACTIONS: Final = 60_000
_UNDER_WAY: Final = 512
_ROLLED_BACK: Final = 20  # one in so many
_BODY: Final = secrets.token_bytes(1024 - 8)
_TOPIC: Final = "payments"
_GROUP: Final = "bench"


class CommittedTransactions:
    """One message each: sent as a half, and committed; some are rolled back."""

    def __init__(self, scale: float) -> None:
        self._count = max(500, int(_TRANSACTIONS * scale))
        self.p99_ms = 0.0

    def rate(self) -> float:
        """How many are committed in a second, from the first half to the last commit's answer."""
        with running_cluster() as url:
            return run(self._work(url))

    async def _work(self, url: str) -> float:
        took = array("d")
        numbers = iter(range(self._count))
        async with AsyncClient(url) as mq:
            await mq.admin.create_topic(_TOPIC, queues=4)

            async def producer() -> None:
                for number in numbers:
                    begin = time.perf_counter()
                    transaction = mq.transaction(_TOPIC, group_id=_GROUP)
                    await transaction.send(number.to_bytes(8, "big") + _BODY)
                    if number % _ROLLED_BACK:
                        await transaction.commit()
                        took.append(time.perf_counter() - begin)
                    else:
                        await transaction.rollback()

            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_UNDER_WAY):
                    tasks.create_task(producer())
            rate = len(took) / (time.perf_counter() - began)
            seen = sorted([int.from_bytes(message.body[:8], "big") async for message in mq.reader(_TOPIC, follow=False)])
        if seen != [number for number in range(self._count) if number % _ROLLED_BACK]:
            raise LiteMQError(
                f"{len(took)} transactions were committed, and {len(seen)} messages are there, {len(set(seen))} different ones"
            )
        self.p99_ms = float(np.percentile(np.frombuffer(took), 99.0)) * 1000
        return rate
