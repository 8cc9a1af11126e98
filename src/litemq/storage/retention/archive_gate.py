"""The archive gate: keeps messages from retention until they are archived.

A topic's setting decides how long retention waits for its archive: until the messages are archived
(``block``), or until they reach an age (``drop-with-record``). Retention drops whole segments, so a
topic that waits also keeps other topics' messages of the same segment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from litemq.clock import Clock
from litemq.proto.control_pb2 import Control
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.retention.entries import ReadEntries, log_offset_of
from litemq.storage.retention.retention import first_segment_to_keep
from litemq.storage.state import QueueKey, State
from litemq.types import Archived

__all__ = ["ArchiveGate", "lost_to_archives"]

_LOG = logging.getLogger(__name__)


class _Unarchived(NamedTuple):
    """A queue with unarchived messages."""

    key: QueueKey
    log_offset: int  # of the first unarchived message
    keeps_from: int  # a log offset: older messages may be dropped even if unarchived


def lost_to_archives(crossing: Control, state: State) -> dict[str, int]:
    """Return the number of unarchived messages that ``crossing`` drops, by topic."""
    lost: dict[str, int] = {}
    for loss in crossing.retention_crossed.unarchived:
        name = state.topics[loss.topic_id].name
        lost[name] = lost.get(name, 0) + loss.to_offset - loss.from_offset
    return lost


class ArchiveGate:
    """Limits how far retention may go. Retention calls it under its lock."""

    def __init__(
        self,
        log: CommitLog,
        state: State,
        clock: Clock,
        wait_ms: int,
        read_entries: ReadEntries,
    ) -> None:
        self._log = log
        self._state = state
        self._clock = clock
        self._wait_ms = wait_ms
        self._read_entries = read_entries
        self.awaited: frozenset[str] = frozenset()  # the topics that retention waited for in the last ``start``

    def start(self, log_start: int, *, is_urgent: bool) -> int:
        """Return the log offset up to which retention may drop, at most ``log_start``.

        If ``is_urgent``, only topics with the setting ``block`` are waited for.
        """
        lacking = self._state.unarchived()
        topics = {key.topic_id for key, _ in lacking}
        keeps_from = {topic_id: self._keeps_from(topic_id, log_start, is_urgent=is_urgent) for topic_id in topics}
        waiting = [
            _Unarchived(key, log_offset_of(self._log, self._read_entries, key, first), keeps_from[key.topic_id])
            for key, first in lacking
        ]
        log_start, held = _start_for(self._log, log_start, waiting)
        awaited = frozenset(self._state.topics[topic_id].name for topic_id in held)
        if awaited - self.awaited:  # warn once, however long it takes
            _LOG.warning(
                "retention waits for the archive of %s: check that it is running (see `litemq topic archive TOPIC`)",
                ", ".join(sorted(awaited)),
            )
        self.awaited = awaited
        return log_start

    def _keeps_from(self, topic_id: int, log_start: int, *, is_urgent: bool) -> int:
        topic = self._state.topics[topic_id]
        if topic.archived != Archived.DROP_WITH_RECORD:
            return 0
        if is_urgent:
            return log_start
        return first_segment_to_keep(self._log, self._clock.wall_ms() - (topic.archive_wait_ms or self._wait_ms), None)


def _start_for(log: CommitLog, log_start: int, waiting: Iterable[_Unarchived]) -> tuple[int, set[int]]:
    """Return the start of the log that keeps the unarchived messages, and the topics that need it.

    The start is at most ``log_start``.
    """
    held: dict[int, int] = {}
    for key, log_offset, keeps_from in waiting:
        needed = max(log_offset, keeps_from)
        if needed < log_start:
            held[key.topic_id] = min(needed, held.get(key.topic_id, log_start))
    return (log.segment_of(min(held.values())).start if held else log_start), set(held)
