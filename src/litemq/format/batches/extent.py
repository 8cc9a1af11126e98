"""The extent of stored records: how many, their queue offsets, and when the first may expire."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from litemq.errors import RecordFormatError
from litemq.format import native
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import Buffer, Problem

__all__ = ["Extent", "find_extent"]

_NEVER: Final = (1 << 63) - 1


class Extent(NamedTuple):
    """The extent of stored records of one queue, in the order of their offsets.

    ``expires`` is the earliest ``expire_at`` of a record that has one, ``stored`` the earliest
    store time (ms) of one that has none; 2**63 - 1 if there is no such record.
    """

    size: int
    first: int
    last: int
    expires: int
    stored: int


def find_extent(records: Buffer) -> Extent:
    """Return the extent of ``records``. Raise ``RecordFormatError`` unless they fill the buffer."""
    if native.enabled:
        found = native.loops.extent(records, STORED_LIMITS.max_record_bytes)
        if found is not None:
            return Extent(*found)
    scanned = scan(records, limits=STORED_LIMITS)
    if scanned.stop is not ScanStop.END or not scanned.starts.size:
        raise RecordFormatError(Problem.SIZE.value, scanned.end, "the bytes must be complete records")
    header = RecordColumns(records, scanned.starts).header
    offsets, expire_at = header["queue_offset"].astype(np.int64), header["expire_at"].astype(np.int64)
    times = header["store_timestamp"].astype(np.int64)
    return Extent(
        int(offsets.size),
        int(offsets[0]),
        int(offsets[-1]),
        int(expire_at[expire_at != 0].min(initial=_NEVER)),
        int(times[expire_at == 0].min(initial=_NEVER)),
    )
