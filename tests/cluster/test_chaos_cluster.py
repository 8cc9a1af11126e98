"""The short form of ``just chaos-cluster``: no invariant fails, whatever the faults are.

Its three minutes have a fault of each category. ``LITEMQ_CHAOS_SECONDS`` sets another duration. How
long things take is never judged.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = float(os.environ.get("LITEMQ_CHAOS_SECONDS", "180"))


def test_chaos_of_a_replicated_cluster() -> None:
    command = [sys.executable, "-m", "tools.chaos_cluster", f"--minutes={_SECONDS / 60}", "--seed=7"]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if "cannot create network namespaces" in ended.stderr:
        # In CI, a missing right is a mistake of the settings. A kernel without them is not.
        assert os.environ.get("CI") != "true" or "the kernel has no" in ended.stderr, ended.stderr
        pytest.skip(ended.stderr.strip())
    print(ended.stdout)  # noqa: T201
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr[-5000:]}"
    assert "\n0 problems" in ended.stdout
