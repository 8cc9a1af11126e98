"""The write path of a follower: its master's records, byte for byte."""

from __future__ import annotations

from litemq.storage.log.chunks import check_chunk
from litemq.storage.log.reader import Window
from litemq.storage.projections.replay import replay_into_queues, replay_into_state
from litemq.storage.store_parts import StoreParts

__all__ = ["LogFollower"]


class LogFollower:
    """Appends the records of a master's log, and applies them to the projections."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def append(self, begin: int, data: bytes) -> int:
        """Append ``data``, whole records of one epoch and one segment; return the log's end.

        They begin at log offset ``begin``, which is the log's end or the start of the next segment.
        Nothing is written unless every record is intact, belongs to its offset, and has an epoch
        that is not older than the last one.

        Raises:
            RecordFormatError: A record is damaged, or is not the next one.
            OffsetOutOfRangeError: The log does not continue at ``begin``, or the segment is too
                short.
        """
        parts = self._parts
        log = parts.log
        window = Window(begin, check_chunk(begin, data))
        with parts.writing:
            before = log.end
            try:
                dirty = parts.files.append(window)
                replay_into_queues(window, begin, parts.queues)
                replay_into_state(window, parts.state, parts.changes, parts.timers, on_control=parts.marks.note)
                parts.on_written(dirty, is_wanted=True)
            except BaseException:
                if log.end != before:
                    log.fail("a write was interrupted")
                raise
            return log.end
