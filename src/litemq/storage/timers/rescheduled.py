"""Timers that are due at another time than their record says, among the entries of bucket files.

Their entries are marked, because the files may lack that one has ended: at a crash they may know less than the state does, and what is told again
from the log does not say when a moved timer was due. So of each marked entry the state is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from litemq.storage.timers.entries import Entries

__all__ = ["MOVED", "true_timers"]

MOVED: Final = 1 << 31  # the mark, in a size


def true_timers(live: Entries, moved: Mapping[int, int]) -> Entries:
    """Timers that wait, as entries say, without those that wait elsewhere or have ended; ``moved`` has the due times of all that were moved and wait.

    They come without the mark.
    """
    asked = (live["size"] & MOVED) > 0
    if moved:
        asked |= np.isin(live["pending"], np.fromiter(moved, np.int64, len(moved)))
    if not asked.any():
        return live
    kept = ~asked
    for number in np.flatnonzero(asked).tolist():
        kept[number] = moved.get(int(live["pending"][number])) == int(live["due"][number])
    live = live[kept]
    live["size"] &= MOVED - 1
    return live
