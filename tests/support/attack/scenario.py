"""The long mixed load of two brokers, with a kill in each period and one attack after the other.

The load sends, consumes, returns and forgets messages, fires, moves and cancels timers, ticks, and
decides transactions. Each part of it records a history, and a checker knows what must hold.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from support import chaos_load, time_chaos
from support.attack.bystander import Bystander, Sample
from support.attack.damage import damage_projections
from support.attack.lease_load import LeaseLoad
from support.chaos_cluster import cluster, until_ready
from support.chaos_load import TOPIC, ChaosLoad
from support.history import Name, Outcome, problems
from support.hostile import Hostile
from support.processes import ServerProcess
from support.time_chaos import TimeChaos
from support.time_history import time_problems

__all__ = ["Findings", "Scenario", "attack"]

BYSTANDER_TOPIC: Final = "steady"
HOSTILE_CONNECTIONS: Final = 200
MAX_LOG_BYTES_PER_FRAME: Final = 1024
MAX_STALL_S: Final = 0.25
MAX_GROWTH: Final = 1.1
MAX_MEMORY: Final = 256 << 20  # of a broker at any moment, also while the disk is full
_SETTLE_S: Final = 300.0
_WARM_UP_S: Final = 10.0
_PAUSES: Final = (0.4, 0.4, 0.4)  # about 160 messages per second and producer
_DISK_BYTES: Final = 2 << 30
_DESCRIPTORS: Final = 512  # of the broker that is attacked
_MIB: Final = 1 << 20
_SAMPLE_S: Final = 0.25


class Resources(NamedTuple):
    """What a broker takes: anonymous memory in bytes, and descriptors."""

    memory: int
    descriptors: int

    def __str__(self) -> str:
        return f"{self.memory / _MIB:.0f} MiB, {self.descriptors} descriptors"


@dataclass
class Findings:
    """What the attacks showed: figures to print, and violated promises."""

    figures: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    # Too long, or too much: this depends on the machine and on the length of the run, too.
    excesses: list[str] = field(default_factory=list)


@dataclass
class Scenario:
    """A running cluster under load. Attacks go against broker ``a``."""

    names: ServerProcess
    brokers: dict[str, ServerProcess]
    directory: Path
    has_small_disk: bool
    chance: Random
    on_progress: Callable[[str], None]
    findings: Findings = field(default_factory=Findings)
    kills: int = 0
    # When another client must not notice an attack, by the monotonic clock.
    windows: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    most_memory: Counter[str] = field(default_factory=Counter)  # in bytes, by attack

    @property
    def target(self) -> ServerProcess:
        return self.brokers["a"]

    async def kill(self, name: str, while_down: Callable[[], None] = lambda: None) -> None:
        """Kill a broker and start it again."""
        broker = self.brokers[name]
        broker.kill()
        while_down()
        broker.start()
        await until_ready(broker)
        self.kills += 1

    # The attacks ----------------------------------------------------------------------------------

    async def damage(self, seconds: float) -> None:
        """Kill the broker, damage its projections, and start it again."""
        await asyncio.sleep(seconds / 2)
        done: list[str] = []
        await self.kill(
            "a", lambda: done.extend(damage_projections(self.directory / "disk" / "a", self.chance, count=3))
        )
        before = self.findings.figures.get("damaged files", "")
        self.findings.figures["damaged files"] = "; ".join(filter(None, (before, *done)))
        await asyncio.sleep(seconds / 2)

    async def send_malformed_frames(self, seconds: float) -> None:
        """Send frames that no client sends, from many connections."""
        logged = self.target.log_bytes
        reports = await self._unnoticed("malformed frames", "malformed", HOSTILE_CONNECTIONS, seconds)
        sent = sum(report["sent"] for report in reports)
        per_frame = (self.target.log_bytes - logged) / max(1, sent)
        self.findings.figures["malformed frames"] = f"{sent:,}, {per_frame:.0f} bytes logged for each"
        if not sent or per_frame > MAX_LOG_BYTES_PER_FRAME:
            self.findings.problems.append(f"{sent} malformed frames, {per_frame:.0f} bytes logged for each")

    async def use_up_descriptors(self, seconds: float) -> None:
        """Open more connections than the broker has descriptors."""
        reports = await self._unnoticed("no descriptors", "hold", 2 * _DESCRIPTORS, seconds)
        self.findings.figures["connections for 512 descriptors"] = str(max(report["most"] for report in reports))

    async def fill_disk(self, seconds: float) -> None:
        """Fill the disk, kill the broker while it is full, and free it after the restart."""
        ballast = self.directory / "disk" / "ballast"
        _fill(ballast)
        try:
            await asyncio.sleep(seconds / 2)
            await self.kill("a")
            await asyncio.sleep(seconds / 2)
        finally:
            ballast.unlink()

    async def _unnoticed(self, name: str, kind: str, connections: int, seconds: float) -> list[dict[str, Any]]:
        """Run hostile clients twice. They must neither stall others nor leave anything behind.

        The first round loads code and fills caches. The second must not take more memory.
        """
        await until_ready(self.target)
        descriptors = self.target.descriptors()
        reports, memory = [], []
        for _ in range(2):
            begin = time.monotonic()
            with Hostile(kind, self.target.port, TOPIC, connections) as hostile:
                hostile.wait_begun()
                await asyncio.sleep(seconds / 2)
                reports.append(await asyncio.to_thread(hostile.end))
            self.windows.setdefault(name, []).append((begin, time.monotonic()))
            await asyncio.sleep(2)  # until the ends of all connections are handled
            memory.append(self.resources().memory)
        before, after = Resources(memory[0], descriptors), Resources(memory[1], self.target.descriptors())
        self.findings.figures[f"after {name}"] = f"{after}; before: {before}"
        self._compare(name, before, after)
        return reports

    # What it takes --------------------------------------------------------------------------------

    def resources(self, broker: str = "a") -> Resources:
        return Resources(self.brokers[broker].memory()[1], self.brokers[broker].descriptors())

    def _compare(self, name: str, before: Resources, after: Resources) -> None:
        for what, old, new in zip(before._fields, before, after, strict=True):
            if new > old * MAX_GROWTH:
                self.findings.excesses.append(f"{what} grew by more than 10% with {name}: {old:,} to {new:,}")

    @asynccontextmanager
    async def _watched_memory(self, name: str) -> AsyncIterator[None]:
        """Note the most memory that broker ``a`` takes meanwhile."""

        async def watch() -> None:
            while True:
                with suppress(OSError):  # it is being killed
                    self.most_memory[name] = max(self.most_memory[name], self.resources().memory)
                await asyncio.sleep(_SAMPLE_S)

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()

    def _judge_memory(self) -> None:
        for name, most in self.most_memory.items():
            self.findings.figures[f"most memory, {name}"] = f"{most / _MIB:.0f} MiB"
            if most > MAX_MEMORY:
                self.findings.excesses.append(f"{name} made the broker take {most / _MIB:.0f} MiB")

    async def run(self, seconds: float, period: float) -> None:
        """Attack in turn, with a kill in each period."""
        attacks: list[Callable[[float], Awaitable[None]]] = [
            self.damage,
            self.send_malformed_frames,
            self.use_up_descriptors,
        ]
        if self.has_small_disk:
            attacks.append(self.fill_disk)
        else:
            self.findings.figures["full disk"] = "not tried: this process may not mount a small disk"
        await asyncio.sleep(_WARM_UP_S)
        at_the_start = self.resources()
        began = time.monotonic()
        for number in range(max(1, int(seconds // period))):
            kills, begin = self.kills, time.monotonic()
            this_attack = attacks[number % len(attacks)]
            name = this_attack.__name__.replace("_", " ")
            self.on_progress(f"{begin - began:.0f} s: {name}")
            async with self._watched_memory(name):
                await this_attack(period / 3)
            if kills == self.kills:
                await self.kill("ab"[number // len(attacks) % 2])
            await asyncio.sleep(max(0.0, begin + period - time.monotonic()))
        self.on_progress("the load ends, and its histories are completed")
        self.findings.figures["attacked for"] = f"{time.monotonic() - began:.0f} s, {self.kills} kills"
        await until_ready(*self.brokers.values())
        at_the_end = self.resources()
        self.findings.figures["at the start, under load"] = str(at_the_start)
        self.findings.figures["at the end, under load"] = str(at_the_end)
        # The load adds to the state. The other broker has the same load, and is not attacked.
        other = self.resources("b")
        self.findings.figures["the other broker then"] = str(other)
        self._compare("all attacks", Resources(*map(max, at_the_start, other)), at_the_end)
        self._judge_memory()

    def judge_bystander(self, samples: list[Sample], control: list[Sample]) -> None:
        """Report the longest answer of another client during each attack.

        ``control`` is of the broker that is not attacked: the machine delays it, too.
        """
        for name, windows in self.windows.items():
            inside = _within(samples, windows)
            if not inside:
                self.findings.problems.append(f"the bystander sent nothing during {name}")
                continue
            longest, late = max(sample.took for sample in inside), max(sample.late for sample in inside)
            other = max((sample.took for sample in _within(control, windows)), default=0.0)
            lost = sum(not sample.is_answered for sample in inside)
            self.findings.figures[f"bystander, {name}"] = (
                f"{len(inside):,} requests, longest answer {longest * 1e3:.0f} ms, "
                f"at the other broker {other * 1e3:.0f} ms, delay of its own {late * 1e3:.0f} ms, {lost} lost"
            )
            if lost:
                self.findings.problems.append(f"the bystander lost its connection during {name}")
            if longest > MAX_STALL_S:
                self.findings.excesses.append(f"{name} stalled the bystander for {longest * 1e3:.0f} ms")


async def attack(
    directory: Path, *, seconds: float, period: float, seed: int, on_progress: Callable[[str], None]
) -> Findings:
    """Run the load and the attacks; check the histories."""
    disk = directory / "disk"
    disk.mkdir(parents=True)
    has_small_disk = _mount(disk)
    with cluster(directory, disk, a_descriptors=_DESCRIPTORS) as (names, brokers):
        scenario = Scenario(names, brokers, directory, has_small_disk, Random(seed), on_progress)
        url = f"litemq://{names.address}"
        load, chaos, leasing = ChaosLoad(url), TimeChaos(url), LeaseLoad(TOPIC)
        async with load.client() as mq:
            await mq.admin.create_topic(BYSTANDER_TOPIC, queues=1)
            with (
                Bystander(scenario.target.port, BYSTANDER_TOPIC) as bystander,
                Bystander(brokers["b"].port, BYSTANDER_TOPIC) as control,
            ):
                async with chaos_load.running(load, lives=20, settle=_SETTLE_S, pauses=_PAUSES):
                    consumers = [asyncio.create_task(leasing.consume(mq)) for _ in range(2)]
                    async with time_chaos.running(chaos, settle=_SETTLE_S):
                        await scenario.run(seconds, period)
                    samples = [await asyncio.to_thread(each.end) for each in (bystander, control)]
                    scenario.judge_bystander(*samples)
            stored = {name for name, _ in load.history.log}
            lag = await leasing.wait_finished(mq, stored, _SETTLE_S)
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)
        if lag:
            scenario.findings.problems.append(f"{lag} messages are not finished in lease mode")
        _check(scenario.findings, load, chaos, leasing, stored)
        return scenario.findings


def _within(samples: list[Sample], windows: list[tuple[float, float]]) -> list[Sample]:
    """Return the samples that begin and end in one of ``windows``."""
    return [
        sample
        for sample in samples
        if any(begin <= sample.at and sample.at + sample.took <= end for begin, end in windows)
    ]


def _check(findings: Findings, load: ChaosLoad, chaos: TimeChaos, leasing: LeaseLoad, stored: set[Name]) -> None:
    history = load.history
    chaos.history.late_within_ms = round(1000 * _SETTLE_S)  # how late depends on the machine; never, or early, does not
    findings.problems += problems(history)
    findings.problems += time_problems(chaos.history)
    missing = leasing.missing(stored)
    findings.problems += [f"{name} is in the log, and was never acknowledged" for name in sorted(missing)[:5]]
    findings.figures |= {
        "sent": f"{len(history.outcomes):,}, acked {history.count(Outcome.ACKED):,}, "
        f"refused {history.count(Outcome.REFUSED):,}, unknown {history.count(Outcome.UNKNOWN):,}",
        "in the log": f"{len(history.log):,}, delivered again {history.repeated:,}",
        "acked in lease mode": f"{len(leasing.acked):,}, returned {leasing.returned:,}, "
        f"acked again {leasing.acked.total() - len(leasing.acked):,}, "
        f"by an acknowledgement without answer {len(leasing.unknown - leasing.acked.keys()):,}",
        "timers": f"{len(chaos.history.timers):,}, came {len(chaos.history.timer_log):,}",
        "ticks": f"{len(chaos.history.tick_log):,}",
        "transactions": f"{len(chaos.history.transactions):,}, messages {len(chaos.history.transaction_log):,}",
    }
    for error, times in Counter(load.errors + chaos.errors + leasing.errors).most_common(6):
        findings.figures[f"{times} x"] = error[:160]


def _mount(folder: Path) -> bool:
    """Mount a small disk at ``folder``; return whether this process may."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder)]
    return os.environ.get("LITEMQ_OWN_MOUNTS") == "1" and subprocess.run(command, check=False).returncode == 0


def _fill(ballast: Path) -> None:
    """Take all space that is left."""
    size = 0
    with ballast.open("wb") as file:
        step = _DISK_BYTES
        while step >= 4096:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError:
                step //= 2
