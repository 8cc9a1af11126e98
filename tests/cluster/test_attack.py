"""One minute of ``just attack``: kills, damaged projections, malformed frames, no descriptors and
a full disk, under a mixed load. Nothing is lost or duplicated.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_attack() -> None:
    command = [sys.executable, "-m", "tools.attack", "--minutes=1", "--period=15", "--without-measures"]
    ended = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    print(ended.stdout)  # noqa: T201
    assert ended.returncode == 0, ended.stdout
    assert "0 problems" in ended.stdout
