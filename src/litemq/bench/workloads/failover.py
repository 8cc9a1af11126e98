"""Failover workload: the master of a group under load is killed or stopped, round after round."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from litemq import AsyncClient
from litemq.bench.replica_group import GroupSettings, ReplicaGroup, running_group
from litemq.bench.workloads.group_watch import GroupWatch, master_of, watching
from litemq.bench.workloads.kept_state import KeptState
from litemq.bench.workloads.steady_acks import SteadyAcks, sending
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["STEPS", "EndMaster", "FailoverRounds", "kill_master", "stop_master"]

_RATE: Final = 10_000
_TOPIC: Final = "load"
_BEFORE: Final = 1_000  # acknowledged messages before a round begins
_AFTER_S: Final = 0.5
_CLOSE_MS: Final = 1_000  # after Ctrl-C, no server may be left that could answer
_CONTACT_MS: Final = 30_000  # a busy machine is not a broker that does not answer
_RENEWAL_S: Final = 0.5  # of the lease: a kill comes at any moment between two renewals

# Segments of the log, and so the space that a replica needs, are small and few: rounds send
# gigabytes.
_FLAGS: Final = ("--file-size", "256MB", "--max-log-size", "1GB")

# Ends the mastership of a replica, by its broker id. Returns whether its process ends: a planned
# switch leaves it running.
EndMaster = Callable[[ReplicaGroup, str], Awaitable[bool]]

STEPS: Final = {
    "lease_over": "from the kill until the NameServer sees that the lease is over",
    "elected": "from there until the next master is elected",
    "registered": "from there until it serves clients and is registered",
    "first_ack": "from there to the first acknowledgement",
}


async def kill_master(group: ReplicaGroup, master: str) -> bool:
    """Kill the master (SIGKILL)."""
    group.replicas[master].kill()
    return True


async def stop_master(group: ReplicaGroup, master: str) -> bool:
    """Stop the master (SIGTERM), which releases its lease."""
    group.replicas[master].terminate()
    return True


@dataclass(slots=True)
class _Rounds:
    """The results of some rounds, in seconds."""

    to_first_ack: list[float] = field(default_factory=list)  # from the kill, or the signal
    pause: list[float] = field(default_factory=list)  # between two acknowledgements
    rejoin: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in STEPS})
    lost: Counter[str] = field(default_factory=Counter)


class FailoverRounds:
    """Rounds with one group. Each ends once the former master is in sync again.

    The load is 10,000 msg/s at level ``replicas``, from this process.
    """

    def __init__(self, rounds: int, scale: float, settings: GroupSettings, end_master: EndMaster) -> None:
        self._rounds = rounds
        self._rate = max(200, _RATE * min(1.0, scale))
        self._settings = settings
        self._end_master = end_master
        self.last = _Rounds()

    def measure(self) -> None:
        """Measure all rounds; ``last`` has the results."""
        settings = self._settings
        with running_group(GroupSettings(settings.lease_s, settings.nameserver, (*_FLAGS, *settings.replica))) as group:
            self.last = run(self._measure(group))

    def first_ack(self) -> float:
        """Measure, and return the median time (s) from the kill to the next acknowledgement."""
        self.measure()
        return statistics.median(self.last.to_first_ack)

    def pause(self) -> float:
        """Measure, and return the median of the longest pauses (s) between two acknowledgements."""
        self.measure()
        return statistics.median(self.last.pause)

    def step(self, name: str) -> float:
        """Return the median of one of ``STEPS`` (s)."""
        return statistics.median(self.last.steps[name])

    async def _measure(self, group: ReplicaGroup) -> _Rounds:
        found, acked = _Rounds(), 0
        async with (
            AsyncClient(group.url, shutdown_timeout_ms=_CLOSE_MS) as mq,
            AsyncClient(group.url, shutdown_timeout_ms=_CLOSE_MS, contact_timeout_ms=_CONTACT_MS) as other,
            watching(group) as watch,
        ):
            await other.admin.create_topic(_TOPIC, queues=4)
            for number in range(self._rounds):
                state = KeptState(other, f"round-{number}", self._settings.lease_s)
                async with sending(mq, _TOPIC, self._rate) as load:
                    await self._round(group, watch, load, state, found)
                await mq.flush()
                if load.failed:
                    raise LiteMQError(f"{load.failed} sends failed: {load.first_error}")
                acked += len(load.acked_at)
                found.lost["messages"] += await _count_missing(other, acked)
        return found

    async def _round(
        self, group: ReplicaGroup, watch: GroupWatch, load: SteadyAcks, state: KeptState, found: _Rounds
    ) -> None:
        await load.wait_acked(0.0, _BEFORE)
        await state.make()
        view = await watch.wait_in_sync(len(group.replicas))
        await asyncio.sleep(random.uniform(0, _RENEWAL_S))
        master = group.replicas[master_of(view)]
        began = time.monotonic()
        is_ending = await self._end_master(group, master_of(view))
        election = await watch.follow_election(view.epoch)
        await load.wait_acked(election.elected + _AFTER_S)
        last, first = load.longest_pause(began)
        found.pause.append(first - last)
        found.to_first_ack.append(first - began)
        times = [began, election.lease_over, election.elected, election.registered, first]
        for name, (begin, end) in zip(STEPS, pairwise(times), strict=True):
            found.steps[name].append(end - begin)
        if is_ending:
            master.wait_ended()
        restarted = time.monotonic()
        if is_ending:
            master.start()
        await watch.wait_in_sync(len(group.replicas))
        found.rejoin.append(time.monotonic() - restarted)
        found.lost += await state.count_lost()


async def _count_missing(mq: AsyncClient, acked: int) -> int:
    """Return how many messages fewer there are than were acknowledged."""
    stored = sum(queue.next for queue in (await mq.admin.describe_topic(_TOPIC)).queues)
    return max(0, acked - stored)
