"""Baselines of the bare machine, measured along with the figures, since a shared machine varies."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from typing import Final

__all__ = ["bare_sync_p99", "plain_loop_ns"]

_CHUNK_BYTES: Final = 12 * 1024
_ITERATIONS: Final = 2_000_000


def bare_sync_p99(seconds: float) -> float:
    """Measure the p99 (ms) of writing and syncing 12 KiB, about 1 ms of load."""
    durations: list[float] = []
    chunk = secrets.token_bytes(_CHUNK_BYTES)
    with tempfile.TemporaryFile() as file:
        os.posix_fallocate(file.fileno(), 0, 64 << 20)
        until = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < until:
            os.pwrite(file.fileno(), chunk, len(durations) * len(chunk) % (32 << 20))
            os.fdatasync(file.fileno())
            durations.append((time.perf_counter() - begin) * 1000)
            time.sleep(0.001)
    return sorted(durations)[int(len(durations) * 0.99)]


def plain_loop_ns() -> float:
    """Measure one iteration (ns) of an empty Python loop, as the speed of the processor."""
    begin = time.perf_counter_ns()
    total = 0
    for number in range(_ITERATIONS):
        total += number
    return (time.perf_counter_ns() - begin) / _ITERATIONS
