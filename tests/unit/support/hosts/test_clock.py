"""A host's clock is wrong as its file says, and its elapsed time never goes back."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from litemq.clock import FakeClock
from support.hosts import clock as clock_program
from support.hosts.clock import HostClock, WrongClock


def test_the_wall_clock_has_the_error_of_the_file(tmp_path: Path) -> None:
    true, host = FakeClock(wall_ms=5_000_000), HostClock(tmp_path / "clock")
    clock = WrongClock(host.file, true)
    assert clock.wall_ms() == 5_000_000
    host.set(-3_600_000, 1.0)
    assert clock.wall_ms() == 1_400_000
    host.set_right()
    assert clock.wall_ms() == 5_000_000


def test_elapsed_time_passes_at_the_rate_of_the_file_and_has_no_steps(tmp_path: Path) -> None:
    true, host = FakeClock(elapsed_ns=7), HostClock(tmp_path / "clock")
    clock = WrongClock(host.file, true)
    seen = [clock.elapsed_ns()]
    for rate in (1.0, 2.0, 0.5, 1.0):
        host.set(400, rate)
        seen.append(clock.elapsed_ns())
        true.advance(1)
        seen.append(clock.elapsed_ns())
    assert seen[0] == 7
    passed = [after - before for before, after in pairwise(seen)]
    assert passed == [0, 10**9, 0, 2 * 10**9, 0, 5 * 10**8, 0, 10**9]


def test_the_program_runs_the_command_line(tmp_path: Path) -> None:
    host = HostClock(tmp_path / "clock")
    host.set(-3_600_000, 1.0)
    command = [sys.executable, "-P", str(clock_program.__file__), str(host.file), "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("litemq ")
