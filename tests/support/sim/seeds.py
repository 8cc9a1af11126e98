"""Play seeds in a temporary folder, in memory if the system has such a file system."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from support.sim.simulation import Outcome, simulate

__all__ = ["play", "totals"]

_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108  its files are in a folder with a random name


def play(seed: int, kinds: Sequence[str] = ()) -> Outcome:
    """Play ``seed``, with the given ``kinds`` of faults or those that the seed chooses."""
    parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="litemq-simulation-", dir=parent))
    gc.freeze()  # no collection looks at the modules again
    was_disabled, logging.root.manager.disable = logging.root.manager.disable, logging.CRITICAL
    try:
        return simulate(seed, folder, kinds)
    finally:
        logging.root.manager.disable = was_disabled
        shutil.rmtree(folder)
        gc.collect()


def totals(outcomes: Iterable[Outcome]) -> Counter[str]:
    """Return the sums of the counts."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total += outcome.counts
        total["seeds"] += 1
    return total
