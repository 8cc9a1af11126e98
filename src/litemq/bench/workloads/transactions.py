"""Transaction workload: commits per second of one client process, with many transactions in flight.

A missing or duplicated message of a committed transaction, or a message of a rolled-back one, is an
error.
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
_IN_FLIGHT: Final = 512
_ROLLED_BACK: Final = 20  # one transaction in this number
_BODY: Final = secrets.token_bytes(1024 - 8)
_TOPIC: Final = "payments"
_GROUP: Final = "bench"


class CommittedTransactions:
    """Transactions of one message each, committed or rolled back."""

    def __init__(self, scale: float) -> None:
        self._count = max(500, int(_TRANSACTIONS * scale))
        self.p99_ms = 0.0

    def rate(self) -> float:
        """Measure commits per second, from the first half to the last answer."""
        with running_cluster() as url:
            return run(self._work(url))

    async def _work(self, url: str) -> float:
        durations = array("d")
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
                        durations.append(time.perf_counter() - begin)
                    else:
                        await transaction.rollback()

            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_IN_FLIGHT):
                    tasks.create_task(producer())
            rate = len(durations) / (time.perf_counter() - began)
            seen = sorted(
                [int.from_bytes(message.body[:8], "big") async for message in mq.reader(_TOPIC, follow=False)]
            )
        if seen != [number for number in range(self._count) if number % _ROLLED_BACK]:
            raise LiteMQError(
                f"{len(durations)} transactions were committed, "
                f"but {len(seen)} messages exist, {len(set(seen))} distinct"
            )
        self.p99_ms = float(np.percentile(np.frombuffer(durations), 99.0)) * 1000
        return rate
