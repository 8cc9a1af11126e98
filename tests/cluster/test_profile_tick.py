"""``just profile-tick`` in short: every instrument reports the broker and its client."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_table_has_figures() -> None:
    command = [sys.executable, "-m", "tools.profile_tick", "--rates", "500", "--seconds", "1"]
    report = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for process in ("broker", "client"):
        for title in ("µs of CPU", "context switches", "system calls", "µs of CPU by function"):
            table = report.partition(f"| {process}: {title}")[2].partition("\n\n")[0]
            total = re.search(r"\| all \| ([\d.]+) \|", table)
            assert total is not None, report
            assert float(total[1]) > 0, report
    assert "| event loop |" in report
    assert "| flusher |" in report
    assert "fdatasync" in report
