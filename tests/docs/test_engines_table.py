"""The table of engine features matches the contract suite."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, "tools/engines_table.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_it_has_both_engines_and_what_is_not_there_yet() -> None:
    page = (ROOT / "docs" / "reference" / "engines.md").read_text()
    assert "| | `memory://` | `litemq://` |" in page
    assert "| Durability `replicas` | not yet | only in a [replicated group](../howto/replicas.md) |" in page
