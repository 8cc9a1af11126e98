"""Searches the model of a replicated group for schedules that break an invariant.

::

    python tests/model/cluster.py list                    the variants of the rules
    python tests/model/cluster.py walk VARIANT            random schedules of one variant
    python tests/model/cluster.py bfs VARIANT             every schedule within small bounds
    python tests/model/cluster.py all --runs 20000        every variant: as expected, or not

The first violation is shortened and printed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from model.protocol import (
    BACKUP_BOUNDS,
    BACKUP_VARIANTS,
    BOUNDS,
    RECOVERY_BOUNDS,
    RECOVERY_VARIANTS,
    REPLICAS,
    RESTORE_BOUNDS,
    RESTORE_VARIANTS,
    SAFE,
    VARIANTS,
    Event,
    Rules,
    Violation,
    World,
)

__all__ = ["Finding", "heal", "hunt", "search_all", "shorten", "walk"]

_ALL: Final = VARIANTS | RECOVERY_VARIANTS | BACKUP_VARIANTS | RESTORE_VARIANTS
_STEPS: Final = 160
_HEAL_EVERY: Final = 20  # runs
_WEIGHTS: Final = {
    "append": 3.0,
    "flush": 6.0,
    "fetch": 10.0,
    "hear": 3.0,
    "report": 8.0,
    "deliver_report": 8.0,
    "begin": 8.0,
    "follow": 5.0,
    "store_change": 3.0,
    "answer": 3.0,
    "start": 3.0,
    "elect": 1.2,
    "shrink": 1.2,
    "choose": 2.0,
    "expand": 2.0,
    "reread": 2.0,
    "kill": 0.35,
    "power": 0.35,
    "wipe": 0.25,
    "backup": 1.5,
    "restore_disk": 2.0,
    "resign": 0.25,
    "recover": 1.0,
    "restore": 0.5,
}
# What a group does by itself, in this order.
_HEALING: Final = (
    "start",
    "store_change",
    "answer",
    "begin",
    "follow",
    "fetch",
    "flush",
    "hear",
    "report",
    "deliver_report",
    "choose",
    "expand",
)


class Finding(NamedTuple):
    """The result of a search: ``problem`` is ``None`` if nothing was found in all ``runs``."""

    problem: str | None
    schedule: list[Event]
    runs: int
    acked: int
    elections: int


def walk(
    rules: Rules, seed: int, steps: int = _STEPS, bounds: dict[str, int] = BOUNDS
) -> tuple[list[Event], str | None, World]:
    """Run one random schedule; return its events, the violation if any, and the world."""
    chosen = random.Random(seed)
    world, schedule = World(rules, bounds), []
    for _ in range(steps):
        events = world.enabled()
        if not events:
            break
        [event] = chosen.choices(events, [_WEIGHTS[str(event[0])] for event in events])
        schedule.append(event)
        try:
            world.do(event)
        except Violation as violation:
            return schedule, str(violation), world
    return schedule, None, world


def heal(world: World) -> int | None:
    """Return the number of events until the group, left alone, confirms one more record.

    ``None``: it does not come back by itself.
    """
    world = world.copy()
    world.left = {"records": 1, "elections": 0, "crashes": 0, "wipes": 0, "changes": 9}
    sent: tuple[int, int] | None = None
    for step in range(400):
        if sent is not None and sent in world.acked.values():
            return step
        events = world.enabled()
        event = next((each for what in _HEALING for each in events if each[0] == what), None)
        masters = [n for n, node in enumerate(world.nodes) if node.is_master and node.epoch == world.epoch]
        if event is None and masters and sent is None:
            sent, event = (world.epoch, world.next_value), ("append", masters[0])
        if event is None:
            stores = {world.name(number) for number in range(REPLICAS)}
            gone = (e for e in events if e[0] == "shrink" and e[1] in masters and e[2] not in stores)
            event = next(gone, None)
        if event is None and not masters:
            candidates = [number for number in range(REPLICAS) if world.may_elect(number)]
            if not candidates:
                return None
            best = max(candidates, key=lambda n: (world.nodes[n].last_epoch, len(world.nodes[n].log)))
            world.left["elections"], world.left["records"], sent = 1, 1, None
            event = ("elect", best, world.isr | {world.name(best)})
        if event is None:
            stale = [n for n, node in enumerate(world.nodes) if node.is_master and node.epoch < world.epoch]
            if not stale:
                return None
            event = ("resign", stale[0])
        world.do(event)
    return None


def _bounds_of(variant: str) -> dict[str, int]:
    if variant in BACKUP_VARIANTS:
        return BACKUP_BOUNDS
    if variant in RESTORE_VARIANTS:
        return RESTORE_BOUNDS
    return RECOVERY_BOUNDS if variant in RECOVERY_VARIANTS else BOUNDS


def _replay(rules: Rules, schedule: list[Event], bounds: dict[str, int]) -> tuple[list[Event], str | None]:
    world, done = World(rules, bounds), []
    for event in schedule:
        if event in world.enabled():
            done.append(event)
            try:
                world.do(event)
            except Violation as violation:
                return done, str(violation)
    return done, None


def shorten(rules: Rules, schedule: list[Event], bounds: dict[str, int] = BOUNDS) -> tuple[list[Event], str]:
    """Leave out events as long as the schedule still breaks an invariant."""
    schedule, problem = _replay(rules, schedule, bounds)
    size = max(1, len(schedule) // 2)
    while size:
        at, is_shorter = 0, False
        while at < len(schedule):
            shorter, other = _replay(rules, schedule[:at] + schedule[at + size :], bounds)
            if other is None:
                at += size
            else:
                schedule, problem, is_shorter = shorter, other, True
        if not is_shorter:
            size //= 2
    return schedule, problem or ""


def hunt(variant: str, runs: int, seed: int = 1, steps: int = _STEPS) -> Finding:
    """Run random schedules of ``variant`` until one breaks an invariant, or does not heal."""
    rules, bounds, acked, elections = _ALL[variant], _bounds_of(variant), 0, 0
    for run in range(runs):
        schedule, problem, world = walk(rules, seed + run, steps, bounds)
        acked += len(world.acked)
        elections += len(world.begun)
        if problem is not None:
            short, problem = shorten(rules, schedule, bounds)
            return Finding(f"seed {seed + run}: {problem}", short, run + 1, acked, elections)
        if run % _HEAL_EVERY == 0 and variant in SAFE and heal(world) is None:
            return Finding(f"seed {seed + run}: the group does not come back", schedule, run + 1, acked, elections)
    return Finding(None, [], runs, acked, elections)


def search_all(runs: int, seed: int = 1) -> list[str]:
    """Hunt every variant; print the result, and return the variants that are not as expected."""
    wrong = []
    for variant in _ALL:
        begin = time.monotonic()
        found = hunt(variant, runs, seed)
        _print(variant, found, time.monotonic() - begin, with_schedule=False)
        if (found.problem is None) != (variant in SAFE | {"recovery", "backup", "restore"}):
            wrong.append(variant)
    return wrong


def _print(variant: str, found: Finding, seconds: float, *, with_schedule: bool) -> None:
    counts = f"{found.runs} runs, {found.acked} records acked, {found.elections} epochs begun, {seconds:.0f} s"
    if found.problem is None:
        print(f"{variant}: no violation ({counts})")
        return
    print(f"{variant}: VIOLATION after {len(found.schedule)} events, {found.problem} ({counts})")
    if with_schedule:
        _print_schedule(found.schedule)


def _print_schedule(schedule: list[Event]) -> None:
    for event in schedule:
        print("   ", *[sorted(part) if isinstance(part, frozenset) else part for part in event])


def _search_everything(variant: str, bounds: dict[str, int], most: int) -> bool:
    """Visit every state of ``variant`` within ``bounds``, at most ``most``."""
    first = World(_ALL[variant], bounds)
    seen = {first.key()}
    waiting: deque[tuple[World, list[Event]]] = deque([(first, [])])
    while waiting and len(seen) <= most:
        world, path = waiting.popleft()
        for event in world.enabled():
            other = world.copy()
            try:
                other.do(event)
            except Violation as violation:
                print(f"{variant}: VIOLATION in state {len(seen)}: {violation}")
                _print_schedule([*path, event])
                return False
            if other.key() not in seen:
                seen.add(other.key())
                waiting.append((other, [*path, event]))
    print(f"{variant}: {len(seen)} states within {bounds}, none bad" + (" (stopped there)" if waiting else ""))
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "walk", "bfs", "all"])
    parser.add_argument("variant", nargs="?", default="proposed", choices=_ALL)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bounds", default="records=1,elections=2,crashes=1,wipes=0,changes=1")
    parser.add_argument("--most", type=int, default=1_500_000, help="states of bfs")
    options = parser.parse_args()
    if options.what == "list":
        for name, rules in _ALL.items():
            differs = [f"{key}={value}" for key, value in rules._asdict().items() if value != Rules()._asdict()[key]]
            print(f"{name:26}", ", ".join(differs) or "as decided")
        return 0
    if options.what == "bfs":
        bounds = {key: int(value) for key, value in (part.split("=") for part in options.bounds.split(","))}
        return int(not _search_everything(options.variant, bounds, options.most))
    if options.what == "walk":
        begin = time.monotonic()
        found = hunt(options.variant, options.runs, options.seed)
        _print(options.variant, found, time.monotonic() - begin, with_schedule=True)
        return int(found.problem is not None)
    wrong = search_all(options.runs, options.seed)
    print(f"NOT as expected: {', '.join(wrong)}" if wrong else "as expected")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
