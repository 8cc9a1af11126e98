"""What the machine itself does in the same minute: without it, figures of a shared machine say little."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from typing import Final

__all__ = ["bare_sync_p99", "plain_loop_ns"]

_CHUNK_BYTES: Final = 12 * 1024
_TURNS: Final = 2_000_000


def bare_sync_p99(seconds: float) -> float:
    """What the disk alone takes, in ms, for as much as ten messages of a millisecond."""
    took: list[float] = []
    chunk = secrets.token_bytes(_CHUNK_BYTES)
    with tempfile.TemporaryFile() as file:
        os.posix_fallocate(file.fileno(), 0, 64 << 20)
        until = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < until:
            os.pwrite(file.fileno(), chunk, len(took) * len(chunk) % (32 << 20))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begin) * 1000)
            time.sleep(0.001)
    return sorted(took)[int(len(took) * 0.99)]


def plain_loop_ns() -> float:
    """What a turn of a plain loop in Python takes: twice as much, and everything takes twice as long."""
    begin = time.perf_counter_ns()
    total = 0
    for number in range(_TURNS):
        total += number
    return (time.perf_counter_ns() - begin) / _TURNS
