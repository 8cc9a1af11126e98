"""What must not go with its segment: records that still wait are found, and appended again before the segment goes.

The copy has the old record as its origin: the same record tells that the old one waits no longer, and that this one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.storage.commitlog import CommitLog
from litemq.storage.log_reader import read_log
from litemq.types import RecordKind

__all__ = ["PendingRecords", "pending_before"]

Longs = npt.NDArray[np.int64]

_BYTES_AT_ONCE: Final = 4 << 20


class PendingRecords(NamedTuple):
    """Records that wait for their time, by column: where they stand, their sizes, their due times, and the queues that they were sent to."""

    log_offsets: Longs
    sizes: Longs
    dues: Longs
    queue_ids: Longs

    def those(self, which: npt.NDArray[np.bool_]) -> PendingRecords:
        """Some of them."""
        return PendingRecords(*(column[which] for column in self))

    def chunks(self) -> Iterator[PendingRecords]:
        """All of them, as many at a time as one append should have."""
        at = 0
        while at < self.sizes.size:
            until = at + max(1, int(np.searchsorted(np.cumsum(self.sizes[at:]), _BYTES_AT_ONCE)))
            yield PendingRecords(*(column[at:until] for column in self))
            at = until


def pending_before(log: CommitLog, log_start: int, damaged: Callable[[CorruptStoreError], None]) -> PendingRecords:
    """The records before a log offset that were to wait, whether they still do or not."""
    found: list[list[Longs]] = [[np.empty(0, np.int64)] for _ in PendingRecords._fields]
    for window in read_log(log, log.start, log_start, damaged=damaged):
        header = window.columns.header
        which = np.flatnonzero((header["kind"] == RecordKind.PENDING) & (header["consume_count"] == 0))
        if which.size:
            for column, name in zip(found, ("commitlog_offset", "size", "delay_time", "queue_id"), strict=True):
                column.append(header[name][which].astype(np.int64))
    return PendingRecords(*map(np.concatenate, found))
