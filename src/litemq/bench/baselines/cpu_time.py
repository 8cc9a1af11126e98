"""The CPU time of a process."""

from __future__ import annotations

from pathlib import Path

__all__ = ["cpu_seconds"]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the threads of process ``pid`` have used, in seconds. Linux only."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
