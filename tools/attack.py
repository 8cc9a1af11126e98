"""Attack a cluster under a long mixed load, and report what was lost, duplicated or stalled.

    python -m tools.attack [--minutes 15] [--period 60] [--seed 1] [--without-measures]

In each period, a broker is killed, and one attack runs, in turn: damaged projections, malformed
frames from 200 connections, no file descriptors, a full disk. The full disk needs a mount, so the
program runs in a mount namespace of its own, if the system allows that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
_IS_INSIDE = "LITEMQ_OWN_MOUNTS"


def enter_namespace() -> None:
    """Start this program again in a mount namespace, which ends with it."""
    if _IS_INSIDE in os.environ:
        return
    try:
        may_mount = subprocess.run([*_NAMESPACE, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        may_mount = False
    os.environ[_IS_INSIDE] = "1" if may_mount else "0"
    if may_mount:
        os.execvp(_NAMESPACE[0], [*_NAMESPACE, sys.executable, "-m", "tools.attack", *sys.argv[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a cluster under a long mixed load.")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--period", type=float, default=60, help="seconds between kills; default: 60")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--without-measures", action="store_true", help="do not judge latency, memory and descriptors, only print them"
    )
    arguments = parser.parse_args()
    enter_namespace()
    tests = str(ROOT / "tests")
    sys.path.insert(0, tests)
    os.environ["PYTHONPATH"] = tests  # for the clients in their own processes
    os.environ["LITEMQ_BROKER_DISK_CLEAN_PERCENT"] = "100"  # a full disk must not count as permission to delete
    from litemq.net.event_loop import run
    from support.attack.scenario import attack

    with tempfile.TemporaryDirectory(prefix="litemq-attack-", ignore_cleanup_errors=True) as folder:
        findings = run(
            attack(
                Path(folder),
                seconds=arguments.minutes * 60,
                period=arguments.period,
                seed=arguments.seed,
                on_progress=lambda text: print(text, file=sys.stderr, flush=True),
            )
        )
    for name, figure in findings.figures.items():
        print(f"{name:<40}{figure}")
    found = findings.problems + ([] if arguments.without_measures else findings.excesses)
    for problem in found:
        print(f"problem: {problem}")
    print(f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
