"""The snapshots and crossings of retention in the log of a replicated group."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from litemq.proto.control_pb2 import Control, RetentionCrossed
from litemq.storage.state import QueueKey

__all__ = ["LogMarks", "Mark"]


class Mark(NamedTuple):
    """A complete snapshot at log offset ``snapshot``.

    If retention crossed the log before it, the log begins at ``log_start`` from then on.
    """

    end: int
    snapshot: int
    log_start: int
    start_offsets: dict[QueueKey, int]


class LogMarks:
    """The snapshots and crossings of a log that wait for their confirmation.

    The writer notes them, on the master and on its followers. Once they are confirmed, the
    maintenance takes them: no replica waits for another one to drop its segments.
    """

    def __init__(self) -> None:
        self._waiting: deque[Mark] = deque()
        self._crossing: tuple[int, RetentionCrossed] | None = None

    def note(self, control: Control, offset: int, end: int) -> None:
        """Note a control record at ``offset``, which ends by log offset ``end``."""
        change = control.WhichOneof("change")
        if change == "retention_crossed" and control.retention_crossed.log_start:
            self._crossing = offset, control.retention_crossed
        elif change == "snapshot_end":
            begin = control.snapshot_end.begin_offset
            log_start, start_offsets = 0, dict[QueueKey, int]()
            # Only a snapshot that was begun after the crossing knows what the log no longer has.
            if self._crossing is not None and self._crossing[0] < begin:
                crossed = self._crossing[1]
                log_start = crossed.log_start
                start_offsets = {QueueKey(queue.topic_id, queue.queue_id): queue.least for queue in crossed.queues}
                self._crossing = None
            self._waiting.append(Mark(end, begin, log_start, start_offsets))

    @property
    def pending_start(self) -> int:
        """The log's start once all marks are confirmed; 0 if no crossing waits for that."""
        return max([0, *(mark.log_start for mark in list(self._waiting))])

    def take(self, confirmed: int) -> list[Mark]:
        """Remove the marks that end by log offset ``confirmed``, and return them in order."""
        taken = []
        while self._waiting and self._waiting[0].end <= confirmed:
            taken.append(self._waiting.popleft())
        return taken
