"""The ``litemq`` command as a program for ``spark-submit``, which takes a file and no module."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts a program's folder first, where our modules would be found under wrong names.
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    from litemq.cli.main import run

    run()
