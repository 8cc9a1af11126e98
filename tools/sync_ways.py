"""Compare ways to make a record of a small tick durable.

    python -m tools.sync_ways [--rounds 6]

``write + fdatasync`` is what the broker does; ``RWF_DSYNC`` writes and syncs in one call. Both take
turns, so that a slow minute of the disk affects both. Prints the wall time (p50, p99) and the CPU
time of one operation.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Final

import numpy as np

_RECORD_BYTES: Final = 2416
_PER_ROUND: Final = 300
_PAUSE_S: Final = 0.0005


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare ways to make a record of a small tick durable.")
    parser.add_argument("--rounds", type=int, default=6, help="of 300 operations each; default: 6")
    rounds = parser.parse_args().rounds
    record = os.urandom(_RECORD_BYTES)
    with tempfile.TemporaryFile() as file:
        fd = file.fileno()
        os.posix_fallocate(fd, 0, 2 * (rounds + 1) * _PER_ROUND * _RECORD_BYTES)

        def write_and_sync(offset: int) -> None:
            os.pwrite(fd, record, offset)
            os.fdatasync(fd)

        def write_through(offset: int) -> None:
            os.pwritev(fd, [record], offset, os.RWF_DSYNC)

        ways: dict[str, Callable[[int], None]] = {"write + fdatasync": write_and_sync, "RWF_DSYNC": write_through}
        wall: dict[str, list[float]] = {name: [] for name in ways}
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        offset = 0
        for _ in range(rounds):
            for name, way in ways.items():
                for _ in range(_PER_ROUND):
                    begin, used = time.perf_counter(), time.thread_time()
                    way(offset)
                    cpu[name].append(1e6 * (time.thread_time() - used))
                    wall[name].append(1e6 * (time.perf_counter() - begin))
                    offset += _RECORD_BYTES
                    time.sleep(_PAUSE_S)
    for name in ways:
        p50, p99 = np.percentile(wall[name], (50, 99))
        print(f"{name:18} {p50:6.0f} µs p50 {p99:6.0f} µs p99 {np.median(cpu[name]):6.0f} µs CPU")


if __name__ == "__main__":
    main()
