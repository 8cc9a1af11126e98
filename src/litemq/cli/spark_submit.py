"""Entry point of the ``litemq`` command for ``spark-submit``, which takes a file, not a module."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the program's directory first in sys.path, where our modules have wrong names.
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    from litemq.cli.main import run

    run()
