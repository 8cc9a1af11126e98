"""Faults of all kinds against a cluster under a mixed load, and the check of its histories.

The load sends, consumes, reads, leases, returns and forgets messages, fails at some of them, fires,
moves and cancels timers, ticks, and decides transactions. Each part of it records a history, and a
checker knows what must hold. The seed determines the faults, their order and their durations.
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
from support.chaos_load import ChaosLoad
from support.cluster_chaos.faults import CATEGORIES, Faults
from support.cluster_chaos.histories import count_cut_off, masters_of_epochs, two_masters, unequal_replicas
from support.cluster_chaos.loads import Loads
from support.cluster_chaos.repairs import damage, wait_repaired
from support.cluster_chaos.schedule import Plan, Round, Timed, schedule
from support.cluster_chaos.site import GROUPS, Site, site
from support.hosts.disk import can_cut_power

__all__ = ["Findings", "chaos"]

_WHOLE_WITHIN_S: Final = 300.0
_REPAIRED_WITHIN_S: Final = 120.0
_PROGRESS_S: Final = 60.0
_SHORT_FORM_S: Final = 180.0  # has a fault of each category
_FULL_FORM_S: Final = 1800.0  # has power cuts


@dataclass
class Findings:
    """What the faults showed: figures to print, and violated promises."""

    figures: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass
class _Scenario:
    site: Site
    faults: Faults
    load: ChaosLoad
    findings: Findings
    on_progress: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)
    hits: Counter[str] = field(default_factory=Counter)  # by fault
    gaps: dict[str, float] = field(default_factory=dict)  # the longest without an ack, by faults of a round
    overlapping: int = 0

    async def run(self, plan: Plan) -> None:
        """Let one round of faults follow another. In between, both groups make progress."""
        until = self.began + plan.seconds
        for each in itertools.takewhile(lambda _: time.monotonic() < until, schedule(self.faults, plan)):
            self.load.acks.longest.clear()
            before = self.hits.copy()
            async with asyncio.TaskGroup() as group:
                for timed in each.faults:
                    group.create_task(self._disturb(timed))
            hits = self.hits - before
            self.overlapping += hits.total() > 1
            await self._wait_progress(each)
            self._note_gaps(" and ".join(hits))
            self._revive()
            await asyncio.sleep(each.pause)

    async def _disturb(self, timed: Timed) -> None:
        await asyncio.sleep(timed.after)
        async with self.faults.by_name[timed.fault].begin() as hit:
            lasts = timed.lasts if hit else 0.0
            self.on_progress(
                f"{time.monotonic() - self.began:.0f} s: {timed.fault} ({hit or 'nothing'}) for {lasts:.1f} s"
            )
            if hit:
                self.hits[timed.fault] += 1
            await asyncio.sleep(lasts)

    async def _wait_progress(self, after: Round) -> None:
        """Wait for acks of each group. How long that takes is a figure, no problem."""
        before = dict(self.load.acks.last)
        until = time.monotonic() + _PROGRESS_S
        while any(self.load.acks.last.get(group) == before.get(group) for group in GROUPS):
            if time.monotonic() > until:
                self.on_progress(f"no acks within {_PROGRESS_S:g} s after: {after}")
                return
            await asyncio.sleep(0.05)

    def _note_gaps(self, faults: str) -> None:
        for group, gap in self.load.acks.longest.items():
            if faults:
                self.gaps[faults] = max(gap, self.gaps.get(faults, 0.0))
            key = f"longest write gap of group {group}"
            longest = float(self.findings.figures.get(key, "0 s").split()[0])
            self.findings.figures[key] = f"{max(gap, longest):.1f} s"

    def _revive(self) -> None:
        """Start the processes that have ended by themselves; that they did is a problem."""
        for process in self.site.processes.values():
            if process.note_end():
                self.on_progress(process.ended[-1])
                process.start()

    def judge_coverage(self, plan: Plan, no_power: str) -> None:
        """Note which faults hit something. A run that is long enough has each category."""
        categories = Counter(self.faults.by_name[name].category for name in self.hits.elements())
        figures = self.findings.figures
        figures["faults"] = f"{self.hits.total()} of {len(self.hits)} kinds, {self.overlapping} times two at once"
        figures["faults by category"] = ", ".join(f"{name} {categories[name]}" for name in CATEGORIES)
        for name, gap in sorted(self.gaps.items(), key=lambda each: -each[1]):
            figures[name] = f"longest write gap {gap:.1f} s"
        if plan.only:
            return
        if plan.seconds >= _SHORT_FORM_S:
            missing = [name for name in CATEGORIES if not categories[name]]
            self.findings.problems += [f"no fault of the category {name} hit anything" for name in missing]
        if no_power and plan.seconds >= _FULL_FORM_S:
            self.findings.problems.append(f"power cuts were not tried: {no_power}")


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
        loads, faults = Loads(cluster.url), Faults(cluster, Random(plan.seed), has_power=not no_power)
        scenario = _Scenario(cluster, faults, loads.messages, findings, on_progress)
        try:
            async with loads.running():
                await scenario.run(plan)
                on_progress("the faults end, and the histories are completed")
                if missing := await cluster.wait_whole(_WHOLE_WITHIN_S):
                    findings.problems.append(f"not whole within {_WHOLE_WITHIN_S:g} s after the faults: {missing}")
        except (AssertionError, TimeoutError, LiteMQError) as error:
            findings.problems.append(f"the load failed: {type(error).__name__}: {error}")
        else:
            findings.problems += loads.problems(faults.clocks)
        findings.figures |= loads.figures()
        await _stop(cluster, faults, findings)
        scenario.judge_coverage(plan, no_power)
    return findings


async def _stop(cluster: Site, faults: Faults, findings: Findings) -> None:
    """Stop all brokers, once the groups are whole and repaired. Check the replicas."""
    flips = faults.disks.flips
    known, unknown = await wait_repaired(cluster, flips, _REPAIRED_WITHIN_S)
    findings.figures["flipped bits"] = f"{len(flips)}, not repaired yet {len(known)}"
    findings.problems += [f"I12: the flipped bit of {flip} was not found" for flip in unknown]
    if missing := await cluster.wait_whole(_WHOLE_WITHIN_S):
        findings.problems.append(f"not whole within {_WHOLE_WITHIN_S:g} s after the load: {missing}")
    for broker in cluster.brokers:
        broker.terminate()
    for broker in cluster.brokers:
        status = await asyncio.to_thread(broker.wait_stopped)
        if status:
            findings.problems.append(f"{broker.name} stopped with the exit status {status}")
    directories = {name: disk.path / "data" for name, disk in cluster.disks.items()}
    findings.problems += damage(directories, known)
    masters = masters_of_epochs([broker.log for broker in cluster.brokers])
    findings.problems += two_masters(masters)
    for group in GROUPS:
        findings.figures[f"epochs of group {group}"] = str(sum(of == group for of, _ in masters))
        findings.problems += unequal_replicas([directories[each.name] for each in cluster.replicas(group)])
    tails = count_cut_off([disk.path for disk in cluster.disks.values()])
    findings.figures["tails cut off"] = f"{tails}, besides those on wiped disks"
