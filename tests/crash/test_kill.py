"""A writer that is killed 200 times loses no acknowledged record."""

import subprocess
import sys
from pathlib import Path


def test_200_kills(tmp_path: Path) -> None:
    program = Path(__file__).with_name("kill_rounds.py")
    result = subprocess.run(
        [sys.executable, str(program), str(tmp_path), "--rounds", "200"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("200 rounds")
