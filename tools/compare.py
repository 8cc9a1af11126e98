"""Compare two revisions: figures of benchmark suites and start-up times, measured alternately.

    python tools/compare.py BEFORE [AFTER] [--suite broker --suite store] [--rounds 3]
    python tools/compare.py BEFORE [AFTER] --figure store:rebuild --figure delivery:lease_batched

Each revision is installed from ``git archive`` into a virtual environment of its own, with the
dependencies of this checkout's lock file. Every round measures both revisions, in alternating
order, so that a slow minute of the machine affects both. After each round, a table prints the
median of each figure, and the ratio after/before of each round. With ``--figure``, a round is one
run of each figure, in a process of its own: the closest comparison on a noisy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
STARTS = 10  # per round and revision
SLOW_START_S = 60.0
_MEASURE = """
import importlib, sys
from litemq.bench.suite import SUITES
figures = importlib.import_module(SUITES[sys.argv[1]]).figures(1.0)
print([figure for figure in figures if figure.name == sys.argv[2]][0].measure())
"""


def install(revision: str, folder: Path) -> Path:
    """Install ``revision`` into a new virtual environment below ``folder``; return its ``bin``."""
    source, environment = folder / "source", folder / "venv"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    uv = str(Path(sys.executable).with_name("uv"))  # pip refuses an extra that the lock file pins without its name
    pip = [uv, "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "dev.lock")], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", str(source)], check=True)
    return environment / "bin"


def suite_figures(commands: Path, suite: str, folder: Path) -> dict[str, list[float]]:
    """Run ``litemq bench suite``; return the runs of each figure."""
    command = [str(commands / "litemq"), "bench", "suite", suite, "--format", "json"]
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
    return {
        f"{suite}: {name} ({figure['unit']})": figure["runs"]
        for name, figure in json.loads(result.stdout)["figures"].items()
    }


def single_figure(commands: Path, figure: str, folder: Path) -> dict[str, list[float]]:
    """Measure one figure of a suite once, in a new process."""
    suite, _, name = figure.partition(":")
    command = [str(commands / "python"), "-c", _MEASURE, suite, name]
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, text=True)
    return {figure: [float(result.stdout.split()[-1])]}


def start_up_figures(commands: Path, folder: Path) -> dict[str, list[float]]:
    """Measure in ms: ``import litemq``, the import of both clients, ``litemq up`` until ready."""
    imports = {
        "start-up: import litemq (ms)": "import litemq",
        "start-up: import both clients (ms)": "import litemq; litemq.AsyncClient, litemq.Client",
    }
    figures = {name: [_import_ms(commands, program) for _ in range(STARTS)] for name, program in imports.items()}
    figures["start-up: litemq up until ready (ms)"] = [_up_ms(commands, folder) for _ in range(STARTS)]
    return figures


def _import_ms(commands: Path, program: str) -> float:
    began = time.perf_counter()
    subprocess.run([str(commands / "python"), "-c", program], check=True)
    return 1000 * (time.perf_counter() - began)


def _up_ms(commands: Path, folder: Path) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as data:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nameserver = free.getsockname()[1]
        options = ["--port", "0", "--nameserver-port", str(nameserver), "--data", data]
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(commands / "litemq"), "up", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            for line in process.stdout or ():
                if "ready" in line:
                    return 1000 * (time.perf_counter() - began)
            raise SystemExit("litemq up exited before it was ready")
        finally:
            process.terminate()  # a background job may ignore SIGINT
            process.wait(SLOW_START_S)


def measure(what: str, commands: Path, folder: Path) -> dict[str, list[float]]:
    """Measure a suite, one of its figures, or the start-up."""
    if ":" in what:
        return single_figure(commands, what, folder)
    return start_up_figures(commands, folder) if what == "start-up" else suite_figures(commands, what, folder)


def compare(before: str, after: str, subjects: list[str], rounds: int) -> None:
    """Measure both revisions in ``rounds`` alternating rounds and print the table."""
    runs: dict[str, dict[str, list[list[float]]]] = {}
    with tempfile.TemporaryDirectory(prefix="litemq-compare-") as scratch:
        folder = Path(scratch)
        revisions = {"before": install(before, folder / "before"), "after": install(after, folder / "after")}
        for number in range(rounds):
            order = ("before", "after") if number % 2 == 0 else ("after", "before")
            for subject in subjects:
                for which in order:
                    print(f"round {number + 1} of {rounds}: {subject}, {which}", file=sys.stderr, flush=True)
                    for name, values in measure(subject, revisions[which], folder).items():
                        runs.setdefault(name, {"before": [], "after": []})[which].append(values)
            _print_table(runs)


def _print_table(runs: dict[str, dict[str, list[list[float]]]]) -> None:
    print(f"{'figure':<60} {'before':>10} {'after':>10} {'ratio':>7}  ratio of each round")
    for name, both in runs.items():
        old, new = (median(value for values in both[which] for value in values) for which in ("before", "after"))
        ratios = [median(b) / median(a) for a, b in zip(both["before"], both["after"], strict=True) if median(a)]
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:<60} {old:>10.4g} {new:>10.4g} {new / old if old else float('nan'):>7.3f}  {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare two revisions by their benchmark figures and start-up times.")
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument(
        "--suite", action="append", default=[], help="suite to compare; repeatable; default: broker, delivery, store"
    )
    parser.add_argument(
        "--figure", action="append", default=[], help="figure to compare alone, such as store:rebuild; repeatable"
    )
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)
    subjects = arguments.suite or ([] if arguments.figure else ["broker", "delivery", "store"])
    subjects = [*subjects, "start-up"] if subjects else []
    compare(arguments.before, arguments.after, [*subjects, *arguments.figure], arguments.rounds)


if __name__ == "__main__":
    main()
