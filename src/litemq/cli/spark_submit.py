"""The ``litemq`` command as a program for ``spark-submit``, which takes a file and no module."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts a program's folder first, where our modules would be found under wrong names.
    here = str(Path(__file__).parent)
    sys.path[:] = [place for place in sys.path if place != here]
    from litemq.cli.main import run

    run()
