"""Repair of the log of an open replica with the bytes of another one."""

from __future__ import annotations

import logging
from contextlib import suppress

from litemq.errors import InvalidArgumentError, OffsetOutOfRangeError, StorageError
from litemq.storage.healing import ProjectionRepair
from litemq.storage.log.damage import log_offset_of
from litemq.storage.log.reader import Window, read_log
from litemq.storage.log.repair import Stretch, check_repair, stretch_at, write_repair
from litemq.storage.store_parts import StoreParts

__all__ = ["LogRepair"]

_LOG = logging.getLogger(__name__)


class LogRepair:
    """The known damage of an open replica's log, and its repair. Any thread may call."""

    def __init__(self, parts: StoreParts, projections: ProjectionRepair) -> None:
        self._parts = parts
        self._projections = projections

    def note(self, offset: int) -> None:
        """Note the damage in the segment of ``offset``, at which a follower's log ends.

        Raises:
            OffsetOutOfRangeError: ``offset`` is inside a record, not in a damaged stretch.
        """
        log, damage = self._parts.log, self._parts.damage
        if any(begin <= offset < end for begin, end in self.stretches()):
            return
        segment = log.segment_of(offset)
        for _ in read_log(log, segment.start, min(segment.end, log.end), on_damage=damage.add):
            pass
        if not any(begin <= offset < end for begin, end in self.stretches()):
            raise OffsetOutOfRangeError(f"no record begins at log offset {offset}")

    def stretches(self) -> list[Stretch]:
        """Return the damaged stretches that are known, in order. It may wait for the disk."""
        log, damage = self._parts.log, self._parts.damage
        found: list[Stretch] = []
        for error in damage.errors():
            begin = log_offset_of(error)
            if found and begin < found[-1].end:
                continue
            stretch = None
            with suppress(OffsetOutOfRangeError):  # retention has dropped it
                stretch = stretch_at(log, begin, log.end) if begin < log.end else None
            if stretch is None:  # or it was repaired meanwhile
                damage.remove(begin, begin + 1)
            else:
                found.append(stretch)
        return found

    def search(self, begin: int, max_bytes: int) -> int:
        """Check about ``max_bytes`` of the log from the record boundary ``begin`` on, and note its
        damage; return where the check ended. It may wait for the disk.

        Unconfirmed records are not checked: they may be cut off meanwhile.
        """
        parts = self._parts
        begin, end = max(begin, parts.log.start), parts.confirmation.offset
        for window in read_log(parts.log, begin, end, on_damage=parts.damage.add):
            reached = window.base + int(window.columns.starts[-1] + window.columns.sizes[-1])
            if reached - begin >= max_bytes:
                return reached
        return max(begin, end)

    def repair(self, begin: int, data: bytes) -> None:
        """Replace the damaged stretch at ``begin`` by ``data``. It may wait for the disk.

        Nothing is written unless ``data`` fills the stretch with intact records of its epochs.
        """
        parts = self._parts
        with parts.maintaining:
            if parts.is_closed:
                raise StorageError("the store is closed: open it, and repair its log again")
            stretch = next((known for known in self.stretches() if known.begin == begin), None)
            if stretch is None:
                raise InvalidArgumentError(f"log offset {begin} is not the start of a damaged stretch")
            segment = parts.log.segment_of(begin)
            columns = check_repair(stretch, data, segment.end, parts.files.epochs.entries)
            write_repair(parts.disk, segment, stretch, data)
            parts.damage.remove(*stretch)
            _LOG.warning("repaired the log from %d to %d with the bytes of another replica", *stretch)
            if columns is not None:
                self._projections.restore(Window(begin, columns))
