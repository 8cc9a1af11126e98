"""Failover workload: rounds in which a group under load loses its master or changes it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

from litemq import AsyncClient
from litemq.bench.etcd_members import EtcdMember, leader_of
from litemq.bench.replica_group import GROUP, GroupSettings, ReplicaGroup, ServerProcess, running_group
from litemq.bench.workloads.group_watch import GroupWatch, master_of, watching
from litemq.bench.workloads.kept_state import KeptState
from litemq.bench.workloads.steady_acks import SteadyAcks, compare_acked, sending
from litemq.errors import ChangeRefusedError, LiteMQError
from litemq.net.event_loop import run

__all__ = [
    "STEPS",
    "Ended",
    "FailoverRounds",
    "Fault",
    "Rounds",
    "kill_master",
    "kill_with_etcd_leader",
    "stop_master",
    "switch_master",
]

_RATE: Final = 10_000
_BEFORE: Final = 1_000  # acknowledged messages before a round begins
_AFTER_S: Final = 0.5
_SWITCH_WITHIN_S: Final = 60.0
_CLOSE_MS: Final = 1_000  # after Ctrl-C, no server may be left that could answer
_CONTACT_MS: Final = 30_000  # a busy machine is not a broker that does not answer
_RENEWAL_S: Final = 0.5  # of the lease: a kill comes at any moment between two renewals

# Segments of the log, and so the space that a replica needs, are small and few: rounds send
# gigabytes.
_FLAGS: Final = ("--file-size", "256MB", "--max-log-size", "1GB")


class Ended(NamedTuple):
    """When the mastership began to end, and the processes that the round starts again."""

    began: float
    processes: Sequence[ServerProcess | EtcdMember] = ()


# Ends the mastership of a replica, by its broker id.
Fault = Callable[[ReplicaGroup, AsyncClient, str], Awaitable[Ended]]

STEPS: Final = {
    "lease_over": "from the kill until the NameServer sees that the lease is over",
    "elected": "from there until the next master is elected",
    "registered": "from there until it serves clients and is registered",
    "first_ack": "from there to the first acknowledgement",
}


async def kill_master(group: ReplicaGroup, _mq: AsyncClient, master: str) -> Ended:
    """Kill the master (SIGKILL)."""
    began = time.monotonic()
    group.replicas[master].kill()
    return Ended(began, [group.replicas[master]])


async def kill_with_etcd_leader(group: ReplicaGroup, _mq: AsyncClient, master: str) -> Ended:
    """Kill the master together with the leader of etcd, as if they were on the same host."""
    leader = await asyncio.to_thread(leader_of, group.etcd)
    began = time.monotonic()
    leader.kill()
    group.replicas[master].kill()
    return Ended(began, [leader, group.replicas[master]])


async def stop_master(group: ReplicaGroup, _mq: AsyncClient, master: str) -> Ended:
    """Stop the master (SIGTERM), which releases its lease."""
    began = time.monotonic()
    group.replicas[master].terminate()
    return Ended(began, [group.replicas[master]])


async def switch_master(_group: ReplicaGroup, mq: AsyncClient, _master: str) -> Ended:
    """Let the master hand over to another replica, as ``litemq cluster switch`` does.

    If it goes on as the master, because the other one does not get everything within a second, the
    pause of that attempt counts, too.
    """
    began = time.monotonic()
    while True:
        try:
            await mq.admin.switch_master(GROUP)
        except ChangeRefusedError:
            if time.monotonic() > began + _SWITCH_WITHIN_S:
                raise
        else:
            return Ended(began)


@dataclass(slots=True)
class Rounds:
    """The results of some rounds, in seconds."""

    to_first_ack: list[float] = field(default_factory=list)  # from the kill, or the signal
    pause: list[float] = field(default_factory=list)  # between two acknowledgements
    rejoin: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in STEPS})
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, other: Rounds) -> None:
        """Add the rounds of another run."""
        self.to_first_ack += other.to_first_ack
        self.pause += other.pause
        self.rejoin += other.rejoin
        for name, times in other.steps.items():
            self.steps[name] += times
        self.lost += other.lost


class FailoverRounds:
    """Rounds with one group. Each ends once the former master is in sync again.

    The load is 10,000 msg/s at level ``replicas``, from this process.
    """

    def __init__(self, rounds: int, scale: float, settings: GroupSettings, fault: Fault) -> None:
        self._rounds = rounds
        self._rate = max(200, _RATE * min(1.0, scale))
        self._settings = settings
        self._fault = fault
        self.last = Rounds()  # those of the last run
        self.all = Rounds()  # those of all runs

    def measure(self) -> None:
        """Measure the rounds of a run."""
        settings = self._settings
        with running_group(replace(settings, replica=(*_FLAGS, *settings.replica))) as group:
            self.last = run(self._measure(group))
        self.all.add(self.last)

    async def _measure(self, group: ReplicaGroup) -> Rounds:
        found = Rounds()
        async with (
            AsyncClient(group.url, shutdown_timeout_ms=_CLOSE_MS) as mq,
            AsyncClient(group.url, shutdown_timeout_ms=_CLOSE_MS, contact_timeout_ms=_CONTACT_MS) as other,
            watching(group) as watch,
        ):
            for number in range(self._rounds):
                topic = f"load-{number}"
                await other.admin.create_topic(topic, queues=4)
                state = KeptState(other, f"round-{number}", self._settings.lease_s)
                async with sending(mq, topic, self._rate) as load:
                    await self._round(group, other, watch, load, state, found)
                await mq.flush()
                await asyncio.sleep(0)  # until the last callbacks have run
                if load.failed:
                    raise LiteMQError(f"{load.failed} sends failed: {load.first_error}")
                lost, duplicates = await compare_acked(other, load)
                found.lost.update(messages=lost, duplicates=duplicates)
                found.lost += await state.count_lost()
        return found

    async def _round(
        self,
        group: ReplicaGroup,
        mq: AsyncClient,
        watch: GroupWatch,
        load: SteadyAcks,
        state: KeptState,
        found: Rounds,
    ) -> None:
        await load.wait_acked(0.0, _BEFORE)
        await state.make()
        view = await watch.wait_in_sync(len(group.replicas))
        await asyncio.sleep(random.uniform(0, _RENEWAL_S))
        began, ended = await self._fault(group, mq, master_of(view))
        election = await watch.follow_election(view.epoch)
        await load.wait_acked(election.elected + _AFTER_S)
        last, first = load.longest_pause(began)
        found.pause.append(first - last)
        found.to_first_ack.append(first - began)
        times = [began, election.lease_over, election.elected, election.registered, first]
        for name, (begin, end) in zip(STEPS, pairwise(times), strict=True):
            found.steps[name].append(end - begin)
        for process in ended:
            process.wait_ended()
        restarted = time.monotonic()
        for process in ended:
            process.start()
        await watch.wait_in_sync(len(group.replicas))
        found.rejoin.append(time.monotonic() - restarted)
        for member in group.etcd:
            await asyncio.to_thread(member.wait_healthy)
