"""The gate of unread messages: keeps them from retention, if ``keep_unread`` is set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.retention.unread import count_unread, unread
from litemq.storage.state import QueueKey, State

__all__ = ["UnreadGate"]


class UnreadGate:
    """Limits how far retention may go. Retention calls it under its lock."""

    def __init__(
        self,
        log: CommitLog,
        state: State,
        writing: AbstractContextManager[object],
        read_entries: Callable[[QueueKey, int, int], npt.NDArray[np.void]],
    ) -> None:
        self._log = log
        self._state = state
        self._writing = writing  # while it is held, the state does not change
        self._read_entries = read_entries
        self.held: dict[str, int] = {}  # unread messages that retention waited for in the last ``start``, by group

    def start(self, log_start: int) -> int:
        """Return the log offset up to which retention may drop, at most ``log_start``."""
        with self._writing:
            found = [
                (each, count_unread(self._state, each, self._state.end_offsets[each.key]))
                for each in unread(self._state)
            ]
        held: dict[str, int] = {}
        least = log_start
        for each, messages in found:
            log_offset = self._log_offset(each.key, each.begin)
            if log_offset < log_start:
                least = min(least, log_offset)
                held[each.group] = held.get(each.group, 0) + messages
        self.held = held
        return log_start if least == log_start else self._log.segment_of(least).start

    def _log_offset(self, key: QueueKey, queue_offset: int) -> int:
        """Return the log offset of a message; if its entry is damaged, the start of the log."""
        try:
            entries = self._read_entries(key, queue_offset, 1)
        except CorruptStoreError:
            return self._log.start
        return int(entries["log_offset"][0]) if entries.size else self._log.end
