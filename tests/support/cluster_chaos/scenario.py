"""Faults of all kinds against a cluster under a mixed load, and the check of its histories.

The load sends, consumes, leases, returns and forgets messages, fires, moves and cancels timers,
ticks, and decides transactions. Each part of it records a history, and a checker knows what must
hold. The seed determines the faults, their order and their durations.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from litemq.errors import LiteMQError
from support import chaos_load, time_chaos
from support.attack.lease_load import LeaseLoad
from support.chaos_load import TOPIC, ChaosLoad
from support.cluster_chaos.faults import Faults
from support.cluster_chaos.histories import count_cut_off, masters_of_epochs, two_masters, unequal_replicas
from support.cluster_chaos.schedule import Plan, schedule
from support.cluster_chaos.site import GROUPS, Site, site
from support.history import History, Name, Outcome, problems
from support.hosts.disk import can_cut_power
from support.time_chaos import TimeChaos
from support.time_history import time_problems

__all__ = ["Findings", "chaos"]

_WHOLE_WITHIN_S: Final = 300.0
_SETTLE_S: Final = 300.0
_PROGRESS_S: Final = 60.0
_PAUSES: Final = (0.4, 0.4, 0.4)  # about 160 messages per second and producer


@dataclass
class Findings:
    """What the faults showed: figures to print, and violated promises."""

    figures: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass
class _Loads:
    """The loads, each with its history."""

    messages: ChaosLoad
    times: TimeChaos
    leasing: LeaseLoad

    @property
    def stored(self) -> set[Name]:
        return {name for name, _ in self.messages.history.log}


@dataclass
class _Scenario:
    site: Site
    load: ChaosLoad
    findings: Findings
    on_progress: Callable[[str], None]
    faults: Counter[str] = field(default_factory=Counter)
    gaps: dict[str, float] = field(default_factory=dict)  # the longest without an ack, by fault

    async def run(self, faults: Faults, plan: Plan) -> None:
        """Let one fault follow another. In between, both groups make progress."""
        begin = time.monotonic()
        rounds = itertools.takewhile(lambda _: time.monotonic() - begin < plan.seconds, schedule(faults, plan))
        for name, lasts, pause in ((each.fault, each.lasts, each.pause) for each in rounds):
            self.load.acks.longest.clear()
            async with faults.by_name[name].begin() as hit:
                self.on_progress(f"{time.monotonic() - begin:.0f} s: {name} ({hit}) for {lasts:.1f} s")
                await asyncio.sleep(lasts)
            self.faults[name] += 1
            await self._wait_progress(name)
            self._note_gaps(name)
            self._revive()
            await asyncio.sleep(pause)

    async def _wait_progress(self, after: str) -> None:
        """Wait for acks of each group. How long that takes is a figure, no problem."""
        before = dict(self.load.acks.last)
        until = time.monotonic() + _PROGRESS_S
        while any(self.load.acks.last.get(group) == before.get(group) for group in GROUPS):
            if time.monotonic() > until:
                self.on_progress(f"no acks within {_PROGRESS_S:g} s after: {after}")
                return
            await asyncio.sleep(0.05)

    def _note_gaps(self, fault: str) -> None:
        for group, gap in self.load.acks.longest.items():
            self.gaps[fault] = max(gap, self.gaps.get(fault, 0.0))
            key = f"longest write gap of group {group}"
            longest = float(self.findings.figures.get(key, "0 s").split()[0])
            self.findings.figures[key] = f"{max(gap, longest):.1f} s"

    def _revive(self) -> None:
        """Start the processes that have ended by themselves; that they did is a problem."""
        for process in self.site.processes.values():
            if process.note_end():
                self.on_progress(process.ended[-1])
                process.start()


async def chaos(folder: Path, plan: Plan, on_progress: Callable[[str], None]) -> Findings:
    """Run the load and the faults; check the histories."""
    findings = Findings(figures={"logs": str(folder)})
    no_power = can_cut_power(folder)
    if no_power:
        findings.figures["power cuts"] = f"not tried: {no_power}"
    with site(folder, has_power=not no_power, on_problem=findings.problems.append) as cluster:
        if missing := await cluster.wait_whole(_WHOLE_WITHIN_S):
            findings.problems.append(f"the cluster did not start: {missing}")
            return findings
        loads = _Loads(ChaosLoad(cluster.url), TimeChaos(cluster.url), LeaseLoad(TOPIC))
        loads.messages.history.unsafe = frozenset({2})  # an ack of its master alone
        scenario = _Scenario(cluster, loads.messages, findings, on_progress)
        faults = Faults(cluster, Random(plan.seed), has_power=not no_power)
        try:
            await _disturb(scenario, loads, faults, plan)
        except (AssertionError, TimeoutError, LiteMQError) as error:
            findings.problems.append(f"the load failed: {type(error).__name__}: {error}")
        else:
            loads.times.history.wrong_stamps = faults.clocks.stamps
            _check_histories(findings, loads)
        await _stop(cluster, findings)
        _check_replicas(cluster, findings)
        findings.figures["faults"] = f"{scenario.faults.total()} of {len(scenario.faults)} kinds"
        for name, gap in sorted(scenario.gaps.items(), key=lambda each: -each[1]):
            findings.figures[f"{scenario.faults[name]} x {name}"] = f"longest write gap {gap:.1f} s"
    return findings


async def _disturb(scenario: _Scenario, loads: _Loads, faults: Faults, plan: Plan) -> None:
    """Run the faults under the loads, heal everything, and complete the histories."""
    async with loads.messages.client() as mq:
        async with (
            chaos_load.running(
                loads.messages,
                lives=20,
                settle=_SETTLE_S,
                pauses=_PAUSES,
                durabilities=("replicas", "replicas", "disk"),
            ),
            time_chaos.running(loads.times, settle=_SETTLE_S),
        ):
            consumers = [asyncio.create_task(loads.leasing.consume(mq)) for _ in range(2)]
            await scenario.run(faults, plan)
            scenario.on_progress("the faults end, and the histories are completed")
            if missing := await scenario.site.wait_whole(_WHOLE_WITHIN_S):
                scenario.findings.problems.append(f"not whole within {_WHOLE_WITHIN_S:g} s after the faults: {missing}")
        lag = await loads.leasing.wait_finished(mq, loads.stored, _SETTLE_S)
        if lag:
            scenario.findings.problems.append(f"{lag} messages are not finished in lease mode")
        for consumer in consumers:
            consumer.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)


async def _stop(cluster: Site, findings: Findings) -> None:
    """Stop all brokers, once the groups are whole: the load has ended."""
    if missing := await cluster.wait_whole(_WHOLE_WITHIN_S):
        findings.problems.append(f"not whole within {_WHOLE_WITHIN_S:g} s after the load: {missing}")
    for broker in cluster.brokers:
        broker.terminate()
    for broker in cluster.brokers:
        status = await asyncio.to_thread(broker.wait_stopped)
        if status:
            findings.problems.append(f"{broker.name} stopped with the exit status {status}")


def _check_replicas(cluster: Site, findings: Findings) -> None:
    masters = masters_of_epochs([broker.log for broker in cluster.brokers])
    findings.problems += two_masters(masters)
    for group in GROUPS:
        findings.figures[f"epochs of group {group}"] = str(sum(of == group for of, _ in masters))
        folders = [cluster.disks[each.name].path / "data" for each in cluster.replicas(group)]
        findings.problems += unequal_replicas(folders)
    tails = count_cut_off([disk.path for disk in cluster.disks.values()])
    findings.figures["tails cut off"] = f"{tails}, besides those on wiped disks"


def _check_histories(findings: Findings, loads: _Loads) -> None:
    load, times, leasing = loads.messages, loads.times, loads.leasing
    history = load.history
    times.history.late_within_ms = 1 << 40  # how late depends on the faults; never, or early, does not
    findings.problems += problems(history)
    findings.problems += time_problems(times.history)
    findings.problems += [
        f"{name} is in the log, and was never acknowledged" for name in sorted(leasing.missing(loads.stored))[:5]
    ]
    findings.figures |= {
        "sent": f"{len(history.outcomes):,}, acked {history.count(Outcome.ACKED):,}, "
        f"refused {history.count(Outcome.REFUSED):,}, unknown {history.count(Outcome.UNKNOWN):,}",
        "acked by the master alone, and lost": f"{len(_lost(history)):,}",
        "in the log": f"{len(history.log):,}, delivered again {history.repeated:,}",
        "acked in lease mode": f"{len(leasing.acked):,}, returned {leasing.returned:,}, "
        f"acked again {leasing.acked.total() - len(leasing.acked):,}, "
        f"by an acknowledgement without answer {len(leasing.unknown - leasing.acked.keys()):,}",
        "timers": f"{len(times.history.timers):,}, came {len(times.history.timer_log):,}",
        "ticks": f"{len(times.history.tick_log):,}",
        "transactions": f"{len(times.history.transactions):,}, messages {len(times.history.transaction_log):,}",
    }
    for error, times_seen in Counter(load.errors + times.errors + leasing.errors).most_common(6):
        findings.figures[f"{times_seen} x"] = error[:160]


def _lost(history: History) -> set[Name]:
    acked = {name for name, outcome in history.outcomes.items() if outcome is Outcome.ACKED}
    return acked - {name for name, _ in history.log}
