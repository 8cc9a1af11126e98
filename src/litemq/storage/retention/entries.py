"""Look-ups of queue entries for the gates of retention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.state import QueueKey

__all__ = ["ReadEntries", "log_offset_of"]

ReadEntries = Callable[[QueueKey, int, int], npt.NDArray[np.void]]


def log_offset_of(log: CommitLog, read_entries: ReadEntries, key: QueueKey, queue_offset: int) -> int:
    """Return the log offset of a message; if its entry is damaged, the start of the log."""
    try:
        entries = read_entries(key, queue_offset, 1)
    except CorruptStoreError:
        return log.start
    return int(entries["log_offset"][0]) if entries.size else log.end
