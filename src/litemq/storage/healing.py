"""Repair of damaged projections: rebuilds the queues and the timers from the log."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.storage.log.reader import Window, read_log
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

    Damage in the log itself is repaired by ``LogRepair``, and only in a replica.
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

    def restore(self, window: Window) -> None:
        """Rebuild the projections that skipped records of ``window`` while they were damaged.

        The caller holds ``maintaining``. The state and the timers of a replica skip no record.
        """
        parts = self._parts
        comparison = _QueueComparison(parts)
        replay_into_queues(window, parts.log.start, comparison)
        if not comparison.is_same:
            _LOG.warning("the queues lack repaired records; rebuilding them from the log")
            self._rebuild_queues()
        parts.finder.restore(window)

    def rebuild_timers(self, error: CorruptStoreError) -> None:
        """Rebuild all timers from the log after ``error`` in their files.

        The caller holds ``maintaining``. If the log of a replica is damaged, raise instead: its
        repair comes first.
        """
        _LOG.warning("%s; rebuilding the timers from the log", error)
        parts, log = self._parts, self._parts.log
        if parts.is_replica:
            self._refuse_damage()
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

    def _refuse_damage(self) -> None:
        """Read the log, note its first damaged record and raise."""
        parts = self._parts
        try:
            for _ in read_log(parts.log, parts.log.start, parts.confirmation.offset):
                pass
        except CorruptStoreError as error:
            parts.damage.add(error)
            raise


class _QueueComparison:
    """Compares the entries of records with those in the queues."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self.is_same = True

    def add(self, key: QueueKey, first: int, entries: npt.NDArray[np.void]) -> None:
        parts = self._parts
        start = parts.state.start_offsets.get(key, 0)
        topic = parts.state.topics.get(key.topic_id)
        expected = entries[max(0, start - first) :]  # retention has given up those before
        if topic is None or topic.deleted or expected.size == 0:
            return
        try:
            stored = parts.queue_reader.entries(key, max(first, start), expected.size, parts.log.end)
        except DamagedQueueError:
            self.is_same = False
        else:
            self.is_same &= stored.astype(QUEUE_ENTRY).tobytes() == expected.astype(QUEUE_ENTRY).tobytes()
