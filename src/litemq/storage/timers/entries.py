"""Entries of bucket files: one when a timer begins, and one when it ends.

An entry (32 bytes, big-endian)::

    at  bytes  field
     0      8  due (ms)
     8      8  pending: log offset of the record that waits
    16      8  cause: log offset of the record of this entry; for a new timer, the pending one
    24      4  size of the pending record; 0: the timer has ended; highest bit: see rescheduled.py
    28      4  crc32c over bytes 0 … 28
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format.crc import crc32c_of_rows

__all__ = ["DAY_MINUTES", "ENTRY", "MINUTE_MS", "Entries", "Timer", "are_intact", "encode_entries", "live_timers"]

ENTRY: Final = np.dtype([("due", ">i8"), ("pending", ">i8"), ("cause", ">i8"), ("size", ">u4"), ("crc", ">u4")])
_CRC_AT: Final = 28

MINUTE_MS: Final = 60_000
DAY_MINUTES: Final = 1440

Entries = npt.NDArray[np.void]


class Timer(NamedTuple):
    """A pending record. Timers are ordered by due time, then by log offset."""

    due: int
    pending: int
    size: int


def encode_entries(rows: Sequence[tuple[int, int, int, int]] | npt.NDArray[np.int64]) -> Entries:
    """Encode rows of (due, pending, cause, size)."""
    entries = np.empty(len(rows), ENTRY)
    if len(rows):
        table = np.array(rows, np.int64)
        for number, name in enumerate(("due", "pending", "cause", "size")):
            entries[name] = table[:, number]
        entries["crc"] = _crcs(entries)
    return entries


def are_intact(entries: Entries) -> bool:
    """Return whether the checksums of all ``entries`` match."""
    return bool((entries["crc"] == _crcs(entries)).all())


def _crcs(entries: Entries) -> npt.NDArray[np.uint32]:
    rows = entries.view(np.uint8).reshape(entries.size, ENTRY.itemsize)[:, :_CRC_AT]
    return crc32c_of_rows(np.ascontiguousarray(rows))


def live_timers(entries: Entries) -> Entries:
    """Return the entries of timers that have not ended, in the order of timers.

    The last entry of each timer counts. Rescheduling a timer makes two entries with the same cause,
    an end and a begin; the sort is stable and keeps their order.
    """
    order = np.lexsort((entries["cause"], entries["pending"]))
    pending = entries["pending"][order]
    last = order[np.append(pending[1:] != pending[:-1], np.True_)] if order.size else order
    live = entries[last[entries["size"][last] > 0]]
    return live[np.lexsort((live["pending"], live["due"]))]
