"""Disturb NameServers, etcd and replicated groups, and check that the cluster keeps its promises.

    python -m tools.chaos_cluster [--minutes 3] [--seed 1] [--only partition] [--keep FOLDER]

Each host is a network namespace, so the program needs the rights of root, or those of a user
namespace of its own. Three NameServers share three members of etcd; two groups have three replicas
each. Faults of processes, of the network, of disks and of clocks follow each other under a mixed
load, sometimes two at once. Then everything is healed, and the recorded histories are checked. Data
and logs stay if there is a problem, or with ``--keep``. Only root cuts the power of disks; a run of
30 minutes or more fails without.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_IS_INSIDE = "LITEMQ_OWN_NETWORKS"


def enter_namespace() -> None:
    """Start this program again in a mount namespace, which ends with it."""
    if _IS_INSIDE in os.environ:
        return
    for name, path in (("network namespaces", "/proc/self/ns/net"), ("TUN devices", "/dev/net/tun")):
        if not Path(path).exists():
            sys.exit(f"cannot create network namespaces that are connected: the kernel has no {name} ({path})")
    if missing := [program for program in ("etcd", "ip", "unshare") if shutil.which(program) is None]:
        sys.exit(f"not installed: {', '.join(missing)}. Debian has them in etcd-server, iproute2 and util-linux")
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", "--mount", *as_root]
    probe = subprocess.run([*command, "--net", "true"], check=False, stderr=subprocess.PIPE, text=True)
    if probe.returncode:
        sys.exit(f"cannot create network namespaces: {probe.stderr.strip()}. Run this program as root")
    os.environ[_IS_INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, "-m", "tools.chaos_cluster", *sys.argv[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(description="Disturb a replicated cluster under a long mixed load.")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="text in the categories and names of the faults to use, such as disk:"
    )
    parser.add_argument("--keep", type=Path, help="new folder for data and logs, which stay")
    arguments = parser.parse_args()
    enter_namespace()
    sys.path.insert(0, str(ROOT / "tests"))
    from litemq.format import native
    from litemq.net.event_loop import run
    from support.cluster_chaos.scenario import chaos
    from support.cluster_chaos.schedule import Plan

    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="litemq-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(arguments.minutes * 60, arguments.seed, arguments.only)
    findings = run(chaos(folder, plan, lambda text: print(text, file=sys.stderr, flush=True)))
    if arguments.keep is None and not findings.problems:
        shutil.rmtree(folder)
    print(f"{'loops in C':<40} {'yes' if native.enabled else 'no'}")
    for name, figure in findings.figures.items():
        print(f"{name:<40} {figure}")
    for problem in findings.problems:
        print(f"problem: {problem}")
    print(f"{len(findings.problems)} problems")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
