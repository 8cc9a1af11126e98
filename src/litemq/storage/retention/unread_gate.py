"""The gate of unread messages: keeps them from retention, if ``keep_unread`` is set."""

from __future__ import annotations

from contextlib import AbstractContextManager

from litemq.storage.log.commitlog import CommitLog
from litemq.storage.retention.entries import ReadEntries, log_offset_of
from litemq.storage.retention.unread import count_unread, unread
from litemq.storage.state import State

__all__ = ["UnreadGate"]


class UnreadGate:
    """Limits how far retention may go. Retention calls it under its lock."""

    def __init__(
        self,
        log: CommitLog,
        state: State,
        writing: AbstractContextManager[object],
        read_entries: ReadEntries,
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
            log_offset = log_offset_of(self._log, self._read_entries, each.key, each.begin)
            if log_offset < log_start:
                least = min(least, log_offset)
                held[each.group] = held.get(each.group, 0) + messages
        self.held = held
        return log_start if least == log_start else self._log.segment_of(least).start
