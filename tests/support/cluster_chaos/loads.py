"""The loads of a cluster under faults, and the check of their histories."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from litemq.client.config import ReadFrom
from support import chaos_load, time_chaos
from support.attack.lease_load import LeaseLoad
from support.chaos_load import TOPIC, ChaosLoad
from support.cluster_chaos.clock_faults import ClockFaults
from support.cluster_chaos.live_readers import LiveReaders
from support.cluster_chaos.poison_load import PoisonLoad
from support.history import Name, Outcome, problems
from support.time_chaos import TimeChaos
from support.time_history import time_problems

__all__ = ["Loads"]

_SETTLE_S: Final = 300.0
_READ_FROM: Final[tuple[ReadFrom, ...]] = ("master", "replica")
_PAUSES: Final = (0.4, 0.4, 0.4)  # about 160 messages per second and producer


class Loads:
    """Producers and consumers of all kinds, each with its history."""

    def __init__(self, url: str) -> None:
        self.messages = ChaosLoad(url)
        self.messages.history.unsafe = frozenset({2})  # an ack of its master alone
        self._times = TimeChaos(url)
        self._times.history.late_within_ms = 1 << 40  # how late depends on the faults; never, or early, does not
        self._leasing = LeaseLoad(TOPIC)
        self._poison = PoisonLoad()
        self._readers = LiveReaders(url)
        self._lag = 0

    @property
    def _stored(self) -> set[Name]:
        return {name for name, _ in self.messages.history.log}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all loads. After the block, complete the histories: the cluster is whole."""
        async with self.messages.client() as mq:
            await self._poison.create(mq)
            consumers: list[asyncio.Task[None]] = []
            try:
                async with (
                    chaos_load.running(
                        self.messages,
                        lives=20,
                        settle=_SETTLE_S,
                        pauses=_PAUSES,
                        durabilities=("replicas", "replicas", "disk"),
                    ),
                    time_chaos.running(self._times, settle=_SETTLE_S),
                ):
                    producer = asyncio.create_task(self._poison.produce(mq))
                    consumers += [
                        asyncio.create_task(self._poison.consume(mq)),
                        *(asyncio.create_task(self._leasing.consume(mq)) for _ in range(2)),
                        *(asyncio.create_task(self._readers.read(of)) for of in _READ_FROM),
                    ]
                    yield
                    self._poison.stopping.set()
                    await producer
                await self._poison.wait_dead(mq, _SETTLE_S)
                self._lag = await self._leasing.wait_finished(mq, self._stored, _SETTLE_S)
                failed = [task for task in consumers if task.done()]
                assert not failed, f"a consumer ended: {failed}"
            finally:
                self._poison.stopping.set()
                for consumer in consumers:
                    consumer.cancel()
                await asyncio.gather(*consumers, return_exceptions=True)

    def problems(self, clocks: ClockFaults) -> Iterator[str]:
        """Return what the histories show."""
        history = self.messages.history
        history.reads = dict(self._readers.seen)
        history.wrong_rates = clocks.wrong_rates
        self._times.history.wrong_stamps = clocks.stamps
        yield from problems(history)
        yield from time_problems(self._times.history)
        yield from self._poison.problems()
        if self._lag:
            yield f"{self._lag} messages are not finished in lease mode"
        for name in sorted(self._leasing.missing(self._stored))[:5]:
            yield f"{name} is in the log, and was never acknowledged"
        for name in self._acked_again[:5]:
            # An acknowledgement is answered once it is confirmed, so no failure undoes it.
            yield f"{name} came again in lease mode after its acknowledgement was answered"

    @property
    def _acked_again(self) -> list[Name]:
        return sorted(name for name, times in self._leasing.acked.items() if times > 1)

    def figures(self) -> dict[str, str]:
        history, times, leasing = self.messages.history, self._times.history, self._leasing
        lost = {name for name, outcome in history.outcomes.items() if outcome is Outcome.ACKED} - self._stored
        figures = {
            "sent": f"{len(history.outcomes):,}, acked {history.count(Outcome.ACKED):,}, "
            f"refused {history.count(Outcome.REFUSED):,}, unknown {history.count(Outcome.UNKNOWN):,}",
            "acked by the master alone, and lost": f"{len(lost):,}",
            "in the log": f"{len(history.log):,}, delivered again {history.repeated:,}",
            "read without a group": ", ".join(f"at the {of} {len(seen):,}" for of, seen in history.reads.items()),
            "acked in lease mode": f"{len(leasing.acked):,}, returned {leasing.returned:,}, "
            f"acked again {len(self._acked_again):,}, "
            f"by an acknowledgement without answer {len(leasing.unknown - leasing.acked.keys()):,}",
            "poison messages": self._poison.figure,
            "timers": f"{len(times.timers):,}, came {len(times.timer_log):,}",
            "ticks": f"{len(times.tick_log):,}",
            "transactions": f"{len(times.transactions):,}, messages {len(times.transaction_log):,}",
        }
        errors = self.messages.errors + self._times.errors + leasing.errors + self._poison.errors + self._readers.errors
        for error, seen in Counter(errors).most_common(6):
            figures[f"{seen} x"] = error[:160]
        return figures
