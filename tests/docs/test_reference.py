"""The reference pages match the code."""

import subprocess
import sys
from pathlib import Path

from litemq import errors
from litemq.cli.main import app
from litemq.cli.rendering.exit_codes import EXIT_CODES

ROOT = Path(__file__).parents[2]


def test_the_pages_are_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, "tools/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_every_error_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    for name in errors.__all__:
        assert f"| {getattr(errors, name).code} | `{name}` |" in page


def test_every_exit_code_is_in_the_help() -> None:
    for code in EXIT_CODES:
        assert f"{code} " in (app.info.epilog or "")
