"""Entries of rescheduled timers in bucket files, which have another due time than their record.

Such entries are marked. After a crash, the files may lack the end of a timer, and the records of
the log do not have the due time of a rescheduled one. The state decides for each marked entry
whether it still applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from litemq.storage.timers.entries import Entries

__all__ = ["MOVED", "resolve_moved"]

MOVED: Final = 1 << 31  # the mark, a bit of an entry's size


def resolve_moved(live: Entries, moved: Mapping[int, int]) -> Entries:
    """Remove the stale entries of rescheduled timers from ``live``, and the marks of the others.

    ``moved`` has the due times of all rescheduled timers that have not ended.
    """
    uncertain = (live["size"] & MOVED) > 0
    if moved:
        uncertain |= np.isin(live["pending"], np.fromiter(moved, np.int64, len(moved)))
    if not uncertain.any():
        return live
    kept = ~uncertain
    for number in np.flatnonzero(uncertain).tolist():
        kept[number] = moved.get(int(live["pending"][number])) == int(live["due"][number])
    live = live[kept]
    live["size"] &= MOVED - 1
    return live
