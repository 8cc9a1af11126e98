"""What retention may not take yet, because an archive lacks it.

Where a topic says so, retention waits for its archive: until that has come (``block``), or until what it lacks has reached an age
(``drop-with-record``). Segments go whole: what one topic needs keeps what stands beside it. Topics without an archive hold nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.clock import Clock
from litemq.errors import CorruptStoreError
from litemq.proto.control_pb2 import Control
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.retention.retention import first_segment_to_keep
from litemq.storage.state import QueueKey, State
from litemq.types import Archived

__all__ = ["ArchiveGate", "lost_to_archives"]

_LOG = logging.getLogger(__name__)


class _Unarchived(NamedTuple):
    """A queue of an archived topic, and where in the log its first message stands that the archive lacks."""

    key: QueueKey
    log_offset: int
    keeps_from: int  # a log offset: what is older may go all the same


def lost_to_archives(crossing: Control, state: State) -> dict[str, int]:
    """How many messages of which topics go, says a record of retention, that their archives lack."""
    lost: dict[str, int] = {}
    for loss in crossing.retention_crossed.unarchived:
        name = state.topics[loss.topic_id].name
        lost[name] = lost.get(name, 0) + loss.to_offset - loss.from_offset
    return lost


class ArchiveGate:
    """Asked by retention, under its lock."""

    def __init__(
        self, log: CommitLog, state: State, clock: Clock, wait_ms: int, read_entries: Callable[[QueueKey, int, int], npt.NDArray[np.void]]
    ) -> None:
        self._log = log
        self._state = state
        self._clock = clock
        self._wait_ms = wait_ms
        self._read_entries = read_entries
        self.awaited: frozenset[str] = frozenset()  # the topics that held something when it was last asked

    def start(self, log_start: int, *, is_urgent: bool) -> int:
        """Where the log may begin, ``log_start`` at most. Where it is urgent, only ``block`` holds."""
        lacking = self._state.unarchived()
        topics = {key.topic_id for key, _ in lacking}
        keeps_from = {topic_id: self._keeps_from(topic_id, log_start, is_urgent=is_urgent) for topic_id in topics}
        waiting = [_Unarchived(key, self._log_offset_of(key, first), keeps_from[key.topic_id]) for key, first in lacking]
        log_start, held = _start_for(self._log, log_start, waiting)
        awaited = frozenset(self._state.topics[topic_id].name for topic_id in held)
        if awaited - self.awaited:  # said once, however long it takes
            _LOG.warning(
                "retention waits for the archive of %s: is it running? `litemq topic archive TOPIC` shows how far it is",
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

    def _log_offset_of(self, key: QueueKey, queue_offset: int) -> int:
        """Where a message stands in the log, or an offset before it."""
        try:
            entries = self._read_entries(key, queue_offset, 1)
        except CorruptStoreError:
            return self._log.start
        return int(entries["log_offset"][0]) if entries.size else self._log.end


def _start_for(log: CommitLog, log_start: int, waiting: Iterable[_Unarchived]) -> tuple[int, set[int]]:
    """Where the log has to begin so that what archives lack stays; with the topics for which that is earlier than ``log_start``."""
    held: dict[int, int] = {}
    for key, log_offset, keeps_from in waiting:
        needed = max(log_offset, keeps_from)
        if needed < log_start:
            held[key.topic_id] = min(needed, held.get(key.topic_id, log_start))
    return (log.segment_of(min(held.values())).start if held else log_start), set(held)
