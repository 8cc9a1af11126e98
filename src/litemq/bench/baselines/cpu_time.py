"""The CPU time of a process, and how often its threads wake up."""

from __future__ import annotations

from pathlib import Path

__all__ = ["count_wakeups", "cpu_seconds"]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the threads of process ``pid`` have used, in seconds. Linux only."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def count_wakeups(pid: int) -> int:
    """Return how often the threads of process ``pid`` have waited and gone on. Linux only."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        found += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return found
