"""What bucket files hold: one entry for each timer that begins to wait, and one when it waits no longer.

An entry (32 bytes, big-endian)::

    at  bytes  field
     0      8  due (ms)
     8      8  pending: log offset of the record that waits
    16      8  cause: log offset of the record that says so; at the beginning the pending one itself
    24      4  size of the pending record; 0: it waits no longer. The highest bit: see moved.py
    28      4  crc32c over bytes 0 … 28
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format.crc import crc32c_of_rows

__all__ = ["DAY_MINUTES", "ENTRY", "MINUTE_MS", "Entries", "Timer", "are_whole", "entries_of", "live_timers"]

ENTRY: Final = np.dtype([("due", ">i8"), ("pending", ">i8"), ("cause", ">i8"), ("size", ">u4"), ("crc", ">u4")])
_CRC_AT: Final = 28

MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 1440

Entries = npt.NDArray[np.void]


class Timer(NamedTuple):
    """A record that waits; timers are in the order of their due times, and of their places in the log."""

    due: int
    pending: int
    size: int


def entries_of(rows: Sequence[tuple[int, int, int, int]] | npt.NDArray[np.int64]) -> Entries:
    """Entries of (due, pending, cause, size)."""
    entries = np.empty(len(rows), ENTRY)
    if len(rows):
        table = np.array(rows, np.int64)
        for number, name in enumerate(("due", "pending", "cause", "size")):
            entries[name] = table[:, number]
        entries["crc"] = _crcs(entries)
    return entries


def are_whole(entries: Entries) -> bool:
    """Whether all are as they were written."""
    return bool((entries["crc"] == _crcs(entries)).all())


def _crcs(entries: Entries) -> npt.NDArray[np.uint32]:
    rows = entries.view(np.uint8).reshape(entries.size, ENTRY.itemsize)[:, :_CRC_AT]
    return crc32c_of_rows(np.ascontiguousarray(rows))


def live_timers(entries: Entries) -> Entries:
    """Those that still wait, in the order of timers: what was said last of each counts.

    Who moves a timer says two things of it at once, that it ends at one time and begins at another, in this order, which stays.
    """
    order = np.lexsort((entries["cause"], entries["pending"]))
    pending = entries["pending"][order]
    last = order[np.append(pending[1:] != pending[:-1], np.True_)] if order.size else order
    live = entries[last[entries["size"][last] > 0]]
    return live[np.lexsort((live["pending"], live["due"]))]
