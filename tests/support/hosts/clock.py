"""The clock of a host, right or wrong: ``python clock.py FILE ARGUMENT …`` runs ``litemq`` by it.

The file has the error of the wall clock and the rate of elapsed time. A test changes both while the
process runs.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
from pathlib import Path
from typing import Any, Final

from litemq.clock import Clock, SystemClock

__all__ = ["HostClock", "WrongClock"]

# The error (ms) and the rate. Eight aligned bytes are copied at once: no reader sees half of them.
_LAYOUT: Final = struct.Struct("<if")


class HostClock:
    """The settings of a host's clock in ``file``, which processes on the host read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set_right()

    def set(self, error_ms: int, rate: float) -> None:
        """Let the wall clock be off by ``error_ms``, and elapsed time pass at ``rate``."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT)
        try:
            os.pwrite(descriptor, _LAYOUT.pack(error_ms, rate), 0)
        finally:
            os.close(descriptor)

    def set_right(self) -> None:
        self.set(0, 1.0)


class WrongClock:
    """The clock ``true`` with the error and the rate in ``file``. Any thread may read it.

    A new rate counts from the last reading on, so elapsed time is continuous and never goes back.
    """

    def __init__(self, file: Path, true: Clock) -> None:
        with file.open("rb") as opened:
            self._settings = mmap.mmap(opened.fileno(), _LAYOUT.size, prot=mmap.PROT_READ)
        self._true = true
        self._lock = threading.Lock()
        self._read_at = self._elapsed = true.elapsed_ns()

    def wall_ms(self) -> int:
        error_ms, _ = _LAYOUT.unpack_from(self._settings)
        return int(self._true.wall_ms() + error_ms)

    def elapsed_ns(self) -> int:
        with self._lock:
            now = self._true.elapsed_ns()
            _, rate = _LAYOUT.unpack_from(self._settings)
            self._elapsed += round((now - self._read_at) * rate)
            self._read_at = now
            return self._elapsed


class _TrueClock(SystemClock):
    """The host's clocks, also once those of ``SystemClock`` are replaced."""

    _wall_ms = SystemClock.wall_ms
    _elapsed_ns = SystemClock.elapsed_ns

    def wall_ms(self) -> int:
        return self._wall_ms()

    def elapsed_ns(self) -> int:
        return self._elapsed_ns()


def _run_litemq(file: Path) -> None:
    """Run the command line of ``litemq`` with the clock in ``file``."""
    from litemq.__main__ import main

    clock = WrongClock(file, _TrueClock())
    replaced: Any = SystemClock
    replaced.wall_ms = lambda _clock: clock.wall_ms()
    replaced.elapsed_ns = lambda _clock: clock.elapsed_ns()
    main()


if __name__ == "__main__":
    clock_file = Path(sys.argv.pop(1))
    _run_litemq(clock_file)
