"""Simulate a replicated group with faults: one run of real code in virtual time for each seed.

    python -m tools.simulate [--seeds 0-499] [--workers 2]
    python -m tools.simulate --seeds 7 --trace trace.txt

Each seed chooses the load (beside messages: timers, jobs, transactions or leases), the settings
(retention, ``replica_ack``, ``read_from``) and the faults. The totals of all seeds are printed, and
for each bad seed the violated invariants. A seed replays exactly: with ``--trace``, the events of
one seed are written to a file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PROGRESS = 100  # seeds between two lines


def play(seed: int) -> tuple[int, list[str], Counter[str], str]:
    """Play ``seed`` in a worker; return it with its faults, counts and digest."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.sim import seeds

    outcome = seeds.play(seed)
    return seed, outcome.faults, outcome.counts, outcome.digest


def trace(seed: int, path: Path) -> None:
    """Play ``seed``, and write its events to ``path``."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.sim import seeds

    outcome = seeds.play(seed)
    path.write_text("\n".join(outcome.events) + "\n")
    print(f"seed {seed}: {len(outcome.events)} events, digest {outcome.digest}")
    for fault in outcome.faults:
        print(fault)
    sys.exit(1 if outcome.faults else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate a replicated group with faults.")
    parser.add_argument("--seeds", default="0-499", help="a seed, or first-last; default: 0-499")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", type=Path, help="write the events of the seed to this file")
    arguments = parser.parse_args()
    if "PYTHONHASHSEED" not in os.environ:  # the order of sets is a part of a run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tools.simulate", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    from litemq.format import native  # late: the process above does not need it

    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if arguments.trace is not None:
        trace(seeds[0], arguments.trace)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and the workers end, too
    began, total, bad = time.monotonic(), Counter[str](), 0
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        for done, (seed, faults, counts, _) in enumerate(pool.map(play, seeds, chunksize=5), 1):
            total += counts
            if done % _PROGRESS == 0:
                print(f"{done} seeds, {bad} bad, {total['acked']} acked, {total['elections']} elections", flush=True)
            bad += bool(faults)
            for fault in faults:
                print(f"seed {seed}: {fault}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    print(f"{len(seeds)} seeds in {seconds:.0f} s ({len(seeds) / seconds:.2f} per second), {bad} bad")
    print(f"{'loops in C':>30} {'yes' if native.enabled else 'no':>12}")
    for name, count in sorted(total.items()):
        print(f"{name:>30} {count:>12}")
    if bad:
        print("replay a seed with: just simulate --seeds N --trace trace.txt")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
