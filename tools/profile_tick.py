"""Profile a broker and its client at steady rates: where a message spends CPU time.

    python -m tools.profile_tick [--rates 200 2000 20000] [--durability disk] [--seconds 8]

For each rate, a new broker gets the load of ``litemq bench latency``, and each of the two processes
is measured three times, so that no instrument disturbs the others:

- CPU time and context switches by thread, from ``/proc``, without any instrument;
- CPU time by function, by sampling with py-spy;
- system calls, with ``strace -c``.

The figures are per message that the broker stored. The first lines give the pace of the machine at
each time, for the comparison of reports. Linux only; it needs Debian's strace.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq import Client
from litemq.bench.clusters import RunningBroker, running_broker
from litemq.errors import TopicNotFoundError

_START_S: Final = 60.0
_LONGEST_S: Final = 3600.0  # of a load; it is ended earlier
_WARM_UP_S: Final = 2.0
_SAMPLES_PER_S: Final = 400
_FUNCTIONS: Final = 14  # shown for each process
_CALLS: Final = 8
_SWITCHES: Final = re.compile(r"^(non)?voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
_EXECUTORS: Final = re.compile(r"[-_]\d+$")
Threads = dict[int, tuple[int, int]]  # CPU nanoseconds and context switches, by thread id


class Costs(defaultdict[str, float]):
    """Costs by name; a name without costs has 0."""

    def __init__(self) -> None:
        super().__init__(float)

    @property
    def total(self) -> float:
        return sum(self.values())


@dataclass
class Profile:
    """The costs of one process, per message."""

    cpu_us: Costs = field(default_factory=Costs)  # by thread
    switches: Costs = field(default_factory=Costs)  # by thread
    functions: Costs = field(default_factory=Costs)  # µs, by thread and function
    calls: Costs = field(default_factory=Costs)  # by system call


def main() -> int:
    parser = argparse.ArgumentParser(description="Profile a broker and its client at steady rates.")
    parser.add_argument("--rates", type=int, nargs="+", default=[200, 2_000, 20_000], help="messages per second")
    parser.add_argument("--durability", choices=["memory", "disk"], default="disk")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement; default: 8")
    arguments = parser.parse_args()
    if min(arguments.rates) < 1 or arguments.seconds < 1:
        parser.error("choose rates of at least 1 message per second, and at least 1 second")
    missing = [name for name in ("strace", "py-spy") if _tool(name) is None]
    if missing:
        print(f"not found: {', '.join(missing)}. Install Debian's strace and the developers' packages", file=sys.stderr)
        return 2
    profiles = {}
    for rate in arguments.rates:
        print(f"Before {rate:,} msg/s, a plain loop in Python took {pace():.0f} ns a turn.")
        profiles[rate] = profile(rate, arguments.durability, arguments.seconds)
    for index, process in enumerate(("broker", "client")):
        report(process, {rate: both[index] for rate, both in profiles.items()})
    return 0


def pace() -> float:
    """Return the nanoseconds of a turn of a plain loop."""
    turns = 5_000_000
    begin = time.perf_counter_ns()
    total = 0
    for number in range(turns):
        total += number
    return (time.perf_counter_ns() - begin) / turns


def profile(rate: int, durability: str, seconds: float) -> tuple[Profile, Profile]:
    """Return the profiles of a broker and of its client at ``rate``."""
    with (
        running_broker() as broker,
        Client(broker.url) as mq,
        load(broker, rate, durability) as client,
    ):
        wait_for_messages(mq, client)
        time.sleep(_WARM_UP_S)
        pids = broker.pid, client.pid
        profiles = Profile(), Profile()
        names = [thread_names(pid) for pid in pids]
        before, stored = [threads(pid) for pid in pids], count_messages(mq)
        time.sleep(seconds)
        after, messages = [threads(pid) for pid in pids], count_messages(mq) - stored
        for each, then, now, named in zip(profiles, before, after, names, strict=True):
            for number, (cpu, switches) in now.items():
                cpu_before, switches_before = then.get(number, (0, 0))
                each.cpu_us[named.get(number, "other")] += (cpu - cpu_before) / 1e3 / messages
                each.switches[named.get(number, "other")] += (switches - switches_before) / messages
        for each, samples in zip(profiles, sample(pids, seconds), strict=True):
            # The sampler takes some waits for work, so each thread's samples share its CPU time.
            for thread, functions in samples.items():
                for function, count in functions.items():
                    each.functions[f"{thread}: {function}"] = each.cpu_us[thread] * count / functions.total()
        for each, calls in zip(profiles, count_calls(mq, pids, seconds), strict=True):
            each.calls.update(calls)
    return profiles


@contextlib.contextmanager
def load(broker: RunningBroker, rate: int, durability: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``litemq bench latency`` against ``broker`` until the end of the block."""
    options = [f"--rate={rate}", f"--durability={durability}", f"--seconds={_LONGEST_S}", f"--url={broker.url}"]
    with subprocess.Popen(
        [sys.executable, "-m", "litemq", "bench", "latency", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
            check_runs(process)
        finally:
            process.kill()


def check_runs(process: subprocess.Popen[bytes]) -> None:
    """Raise ``SystemExit`` with the error of the load if it has ended."""
    if process.poll() is not None:
        error = process.stderr.read().decode() if process.stderr is not None else ""
        raise SystemExit(f"the load ended early, with exit code {process.returncode}\n{error}")


# The instruments ----------------------------------------------------------------------------------


def _tool(name: str) -> str | None:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def threads(pid: int) -> Threads:
    """Return what each thread of a process has used."""
    found: Threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            cpu = int((task / "schedstat").read_text().split()[0])
            switches = sum(int(count) for _, count in _SWITCHES.findall((task / "status").read_text()))
            found[int(task.name)] = cpu, switches
    return found


def thread_names(pid: int) -> dict[int, str]:
    """Return the names of the threads of a process: Python's, or else the system's."""
    names = {
        int(task.name): _plain((task / "comm").read_text().strip()) for task in Path(f"/proc/{pid}/task").iterdir()
    }
    names = {number: name if name == "flusher" else "other" for number, name in names.items()}
    command = [_tool("py-spy") or "", "dump", "--json", "--pid", str(pid)]
    dumped = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return names | {each["os_thread_id"]: _plain(each["thread_name"] or "") for each in dumped}


def _plain(thread: str) -> str:
    """Return the name of a thread as the table shows it."""
    name = _EXECUTORS.sub("", thread).removeprefix("litemq-")
    return {"MainThread": "event loop", "asyncio": "executor", "": "other"}.get(name, name)


def sample(pids: tuple[int, int], seconds: float) -> list[dict[str, Counter[str]]]:
    """Return the samples of each process, by thread and function."""
    with tempfile.TemporaryDirectory(prefix="litemq-profile-") as folder:
        files = [Path(folder) / str(pid) for pid in pids]
        options = ["--format=raw", "--threads", f"--rate={_SAMPLES_PER_S}", f"--duration={max(1, round(seconds))}"]
        running = [
            subprocess.Popen(
                [_tool("py-spy") or "", "record", *options, "--pid", str(pid), "--output", str(file)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for pid, file in zip(pids, files, strict=True)
        ]
        for process in running:
            process.wait()
        return [_count(file.read_text()) for file in files]


def _count(stacks: str) -> dict[str, Counter[str]]:
    """Count the samples of each function: the innermost one of ``litemq``, or else of the stack."""
    found: dict[str, Counter[str]] = {}
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        own = [frame for frame in frames if "litemq/" in frame] or frames or ["?"]
        name, _, path = own[-1].partition(" (")
        where = re.sub(r":\d+\)$", "", path.rpartition("litemq/")[2])
        label = re.sub(r'^thread \(\w+\): |"', "", thread)
        found.setdefault(_plain(label), Counter())[f"{name} ({where})"] += int(count)
    return found


def wait_for_messages(mq: Client, process: subprocess.Popen[bytes]) -> None:
    """Wait until the load has begun."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        check_runs(process)
        with contextlib.suppress(TopicNotFoundError):
            if count_messages(mq):
                return
        time.sleep(0.05)
    raise SystemExit(f"the load sent nothing in {_START_S:g} s")


def count_messages(mq: Client) -> int:
    """Return the number of messages in the topic of the load."""
    return sum(queue.next for queue in mq.admin.describe_topic("bench").queues)


def count_calls(mq: Client, pids: tuple[int, int], seconds: float) -> list[dict[str, float]]:
    """Return the system calls of each process, per message."""
    found = []
    for pid in pids:  # in turn: a traced peer is slow
        with tempfile.NamedTemporaryFile(prefix="litemq-strace-") as file:
            command = [_tool("strace") or "", "-c", "-f", "-U", "name,calls", "-o", file.name, "-p", str(pid)]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracing:
                stored = count_messages(mq)
                time.sleep(seconds)
                messages = count_messages(mq) - stored
                tracing.terminate()
            rows = [line.split() for line in Path(file.name).read_text().splitlines()]
        counts = {name: int(count) for name, count in (row for row in rows if len(row) == 2) if count.isdigit()}
        found.append({name: count / messages for name, count in counts.items() if name != "total"})
    return found


# The report ---------------------------------------------------------------------------------------


def report(process: str, profiles: dict[int, Profile]) -> None:
    """Print the tables of one process, with a column for each rate."""
    rates = "".join(f" {rate:,} msg/s |" for rate in profiles)
    rule = "|---|" + "---|" * len(profiles)
    tables: tuple[tuple[str, list[Costs], int, str], ...] = (
        ("µs of CPU per message", [each.cpu_us for each in profiles.values()], 99, "{:.1f}"),
        ("context switches per message", [each.switches for each in profiles.values()], 99, "{:.2f}"),
        ("system calls per message", [each.calls for each in profiles.values()], _CALLS, "{:.2f}"),
        ("µs of CPU by function", [each.functions for each in profiles.values()], _FUNCTIONS, "{:.1f}"),
    )
    for title, columns, limit, form in tables:
        print(f"\n| {process}: {title} |{rates}\n{rule}")
        print("| all |" + "".join(f" {form.format(column.total)} |" for column in columns))
        together = Costs()
        for column in columns:
            for name, cost in column.items():
                together[name] += cost
        for name in sorted(together, key=together.__getitem__, reverse=True)[:limit]:
            print(f"| {name} |" + "".join(f" {form.format(column[name])} |" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
