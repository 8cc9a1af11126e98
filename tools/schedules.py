"""Explore schedules of a broker and its store, and report the seeds that break a promise.

    python -m tools.schedules [--minutes 10] [--scenario nacks] [--seed 7]

Without ``--seed``, new seeds are tried in each scenario in turn, in two processes, until the time
is over. With it, only that seed is played, with its traceback.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[1]


def explore(scenarios: list[str], first: int, step: int, until: float) -> dict[str, list[int]]:
    """Play seeds ``first``, ``first + step`` …; return the count and the bad ones by scenario."""
    from support.schedules.scenarios import SCENARIOS  # tests/ is in the path only now

    logging.disable(logging.CRITICAL)
    found: dict[str, list[int]] = {name: [0] for name in scenarios}
    for seed in count(first, step):
        for name in scenarios:
            if time.monotonic() >= until:
                return found
            folder = Path(tempfile.mkdtemp(prefix="litemq-schedule-"))
            try:
                SCENARIOS[name](seed, folder / "store")
            except Exception as error:  # noqa: BLE001  every failure is a finding
                found[name].append(seed)
                print(f"{name}: seed {seed} is bad: {error}", file=sys.stderr, flush=True)
            finally:
                shutil.rmtree(folder)
            found[name][0] += 1
    return found


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from support.schedules.scenarios import SCENARIOS

    parser = argparse.ArgumentParser(description="Explore schedules of a broker and its store.")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), default=[])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--from-seed", type=int, default=0, help="first seed to try; default: 0")
    arguments = parser.parse_args()
    scenarios = arguments.scenario or list(SCENARIOS)
    if arguments.seed is not None:
        for name in scenarios:
            with tempfile.TemporaryDirectory(prefix="litemq-schedule-") as folder:
                SCENARIOS[name](arguments.seed, Path(folder) / "store")
            print(f"{name}: seed {arguments.seed} is good")
        return
    until = time.monotonic() + 60 * arguments.minutes
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers) as pool:
        parts = [
            pool.submit(explore, scenarios, arguments.from_seed + number, workers, until) for number in range(workers)
        ]
        results = [part.result() for part in parts]
    bad = 0
    for name in scenarios:
        seeds = sorted(seed for result in results for seed in result[name][1:])
        bad += len(seeds)
        explored = sum(result[name][0] for result in results)
        print(f"{name:<14} {explored:>7} seeds explored, {len(seeds)} bad" + (f": {seeds}" if seeds else ""))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
