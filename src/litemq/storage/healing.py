"""Repair of damaged projections: rebuilds the queues and the timers from the log."""

from __future__ import annotations

import logging

from litemq.errors import CorruptStoreError
from litemq.storage.log.reader import read_log
from litemq.storage.log.records import corrupt_at
from litemq.storage.projections.replay import QueueReplay, replay_into_queues, replay_into_timers
from litemq.storage.queues.queue_reader import DamagedQueueError
from litemq.storage.state import QueueKey
from litemq.storage.store_parts import WRITE_BEHIND_S, StoreParts, open_buckets, open_queues
from litemq.storage.timers.timer_store import TimerStore

__all__ = ["ProjectionRepair"]

_LOG = logging.getLogger(__name__)


class ProjectionRepair:
    """Rebuilds the projections of an open store while it serves.

    Damage in the log itself is never repaired.
    """

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def repair_queues(self, key: QueueKey, first: int, max_messages: int, error: DamagedQueueError) -> None:
        """Rebuild the queues if the entry at offset ``first`` still does not lead to its record.

        Raise ``CorruptStoreError`` if the record itself is damaged.
        """
        parts = self._parts
        with parts.maintaining:
            if (key, first) not in parts.queues.holes and not self._finds_hole(key, first):
                try:
                    parts.queue_reader.read(key, first, max_messages, 1, parts.confirmation.offset)
                except DamagedQueueError:
                    _LOG.warning("%s; rebuilding the queues from the log", error)
                    self._rebuild_queues()
            hole = parts.queues.holes.get((key, first))
            if hole is not None:
                # Most likely the first damaged record after the record before it.
                known = parts.damage.first_from(hole)
                raise known or corrupt_at(parts.log, hole, f"the record at offset {first} is lost") from error

    def _finds_hole(self, key: QueueKey, first: int) -> bool:
        """Return whether the entry at offset ``first`` marks a damaged record of the log.

        A rebuild before this start has left the mark. If so, note the hole.
        """
        parts = self._parts
        confirmed = parts.confirmation.offset
        try:
            entries = parts.queue_reader.entries(key, first, 1, confirmed)
        except DamagedQueueError:
            return False
        if entries.size == 0 or entries["size"][0] or not entries["log_offset"][0]:
            return False
        begin = int(entries["log_offset"][0])
        damage: list[CorruptStoreError] = []
        for window in read_log(parts.log, begin, confirmed, on_damage=damage.append):
            header = window.columns.header
            ours = (header["topic_id"] == key.topic_id) & (header["queue_id"] == key.queue_id)
            if (header["queue_offset"][ours] == first).any():
                return False
            if damage or ours.any():
                break
        if damage:
            parts.queues.holes[key, first] = begin
            parts.damage.add(damage[0])
        return bool(damage)

    def _rebuild_queues(self) -> None:
        """Rebuild all queues from the log while the old queues serve.

        Intact entries are overwritten with the same bytes.
        """
        parts, log = self._parts, self._parts.log
        queues = open_queues(parts.disk, parts.directory, parts.state)
        rebuild = QueueReplay(queues, parts.state, log.start, whole=True)
        reached = log.start
        while reached < parts.confirmation.offset:
            until = parts.confirmation.offset
            for window in read_log(log, reached, until, on_damage=parts.damage.add):
                replay_into_queues(window, reached, rebuild)
                queues.write_behind(window.base, WRITE_BEHIND_S)
            reached = until
        with parts.writing:
            # The rest may be unconfirmed: its entries stay in memory until it is.
            for window in read_log(log, reached, log.end, on_damage=parts.damage.add):
                replay_into_queues(window, reached, rebuild)
            rebuild.finish()
            parts.queues = parts.queue_reader.queues = queues

    def rebuild_timers(self, error: CorruptStoreError) -> None:
        """Rebuild all timers from the log after ``error`` in their files.

        The caller holds ``maintaining``.
        """
        _LOG.warning("%s; rebuilding the timers from the log", error)
        parts, log = self._parts, self._parts.log
        buckets = open_buckets(parts.disk, parts.directory)
        buckets.clear()
        timers = TimerStore(buckets)
        reached = log.start
        while reached < parts.confirmation.offset:
            until = parts.confirmation.offset
            for window in read_log(log, reached, until, on_damage=parts.damage.add):
                replay_into_timers(window, reached, timers)
                timers.write_behind(window.base)
            reached = until
        with parts.writing:
            # The rest may be unconfirmed: its entries stay in memory until it is.
            for window in read_log(log, reached, log.end, on_damage=parts.damage.add):
                replay_into_timers(window, reached, timers)
            timers.load_moved(parts.state.parts.moved_timers, log.start)
            parts.timers = timers
