"""Retention of an open store: cuts the log at a segment without losing what the state still needs.

Retention prepares without a lock, because reading segments takes long: it announces the cut, copies
the records before it that are still needed, and finds where each queue will start. Then it crosses
in one step, under the writer's lock: it checks that nothing before the cut is needed any more, and
appends the record of the crossing. If something has arrived in between, it prepares that and tries
again. From the announcement on, the broker copies a record before the cut that it decides to retry.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from litemq.errors import CorruptStoreError
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.batch import Placed, placed_batch
from litemq.storage.batches.half_batches import rollback_controls
from litemq.storage.half_copier import HalfCopier
from litemq.storage.reading import StoreReader
from litemq.storage.retention.archive_gate import ArchiveGate, lost_to_archives
from litemq.storage.retention.carry_forward import carry_dead_letters, carry_halves, carry_timers, carry_tries
from litemq.storage.retention.loss_report import LossReport
from litemq.storage.retention.retention import crossing_record, first_segment_to_keep, start_offsets_after
from litemq.storage.retention.topic_expiry import TopicExpiry
from litemq.storage.retention.unread_gate import UnreadGate
from litemq.storage.state import QueueKey
from litemq.storage.store_parts import StoreParts
from litemq.storage.writing import StoreWriter

__all__ = ["Retainer"]

_LOG = logging.getLogger(__name__)


class Retainer:
    """Drops old segments of an open store.

    ``snapshot`` and ``checkpoint`` make the state and the projections durable. ``pause`` lets other
    work happen between appends.
    """

    def __init__(
        self,
        parts: StoreParts,
        writer: StoreWriter,
        reader: StoreReader,
        halves: HalfCopier,
        *,
        snapshot: Callable[[], object],
        checkpoint: Callable[[], None],
        pause: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._log = parts.log
        self._writer = writer
        self._reader = reader
        self._halves = halves
        self._snapshot = snapshot
        self._checkpoint = checkpoint
        self._pause = pause
        self._retaining = threading.Lock()
        self._archive_gate = ArchiveGate(
            parts.log, parts.state, parts.clock, parts.config.archive_wait_ms, reader.read_entries
        )

        self._unread_gate = UnreadGate(parts.log, parts.state, parts.writing, reader.read_entries)
        self._losses = LossReport(parts.directory)
        self._expiring = threading.Lock()
        self._expiry = TopicExpiry(
            parts.state,
            parts.clock,
            parts.writing,
            reader.read_entries,
            writer.append_control,
            archive_wait_ms=parts.config.archive_wait_ms,
            keep_unread=parts.config.keep_unread,
        )

    @property
    def held_for_groups(self) -> dict[str, int]:
        """The unread messages that retention waited for last time, by group."""
        return self._unread_gate.held

    def report_losses(self) -> None:
        """Log the unread messages that were deleted, at most once a minute."""
        self._losses.log_if_due(self._parts.clock.elapsed_ns() / 1e9)

    @property
    def awaited(self) -> frozenset[str]:
        """The topics whose archive retention waited for last time."""
        return self._archive_gate.awaited

    def retain(self, *, older_than_ms: int | None, max_bytes: int | None, is_urgent: bool) -> int:
        """Drop old segments, and return the log's new start. See ``Maintenance.retain``."""
        parts, log = self._parts, self._log
        with self._retaining:
            log_start = first_segment_to_keep(log, older_than_ms, max_bytes)
            if parts.is_replica:  # it does not wait for its followers
                log_start = max(
                    (each.start for each in log.segments if each.start <= min(log_start, parts.confirmation.offset)),
                    default=log.start,
                )
                if log_start <= parts.marks.pending_start:
                    return log.start  # that crossing and its snapshot only wait for their confirmation
            if log_start > log.start:
                parts.confirmation.wait(log_start)
                log_start = self._archive_gate.start(log_start, is_urgent=is_urgent)
                if parts.config.keep_unread:
                    log_start = self._unread_gate.start(log_start)
            if log_start <= log.start:
                return log.start
            with parts.writing:
                parts.kept_from = max(parts.kept_from, log_start)
            start_offsets = self._start_offsets_after(log_start)
            crossing = self._cross(log_start, start_offsets)
            if crossing is None:
                return log.start
            self._report(crossing)
            self._snapshot()
            if not parts.is_replica:  # a replica drops them once the snapshot is confirmed
                self.drop(log_start, start_offsets)
            return log.start

    def expire(self) -> int | None:
        """Expire messages by their topics. See ``Store.expire_messages``."""
        with self._expiring:
            if self._parts.is_closed:
                return None
            crossing, next_at = self._expiry.expire()
        if crossing is not None:
            self._report(crossing)
        return next_at

    def wait_expired(self) -> None:
        """Wait for an expiry in progress. After ``is_closed``, no other begins."""
        with self._expiring:
            pass

    def _report(self, crossing: Control) -> None:
        self._losses.add(crossing)
        self.report_losses()
        for name, count in lost_to_archives(crossing, self._parts.state).items():
            _LOG.warning(
                "%s: dropping %d messages of %s that its archive lacks (archived: drop-with-record)",
                self._parts.directory,
                count,
                name,
            )

    def _start_offsets_after(self, log_start: int) -> dict[QueueKey, int]:
        """Return the start offset of each queue after the cut.

        A damaged record does not tell its queue. If there is one, ask the queues' entries whether
        the next record of each queue is before the cut, too.
        """
        damage: list[CorruptStoreError] = []
        start_offsets = start_offsets_after(self._log, log_start, damage.append)
        for error in damage:
            self._parts.damage.add(error)
        if damage:
            state = self._parts.state
            for key, end in list(state.end_offsets.items()):
                at = start_offsets.get(key, state.start_offsets.get(key, 0))
                while at < end and self._is_entry_before(key, at, log_start):
                    at += 1
                    start_offsets[key] = at
        return start_offsets

    def _is_entry_before(self, key: QueueKey, queue_offset: int, log_start: int) -> bool:
        entries = self._reader.read_entries(key, queue_offset, 1)
        return bool(entries.size) and int(entries["log_offset"][0]) < log_start

    def _cross(self, log_start: int, start_offsets: dict[QueueKey, int]) -> Control | None:
        """Carry forward what is needed, until the crossing can be recorded; return its record.

        Return ``None`` if unread messages are kept, and a group was set back to some meanwhile.
        """
        tried: set[int] = set()
        while True:
            self._carry_forward(log_start, tried)
            crossing = self._try_to_cross(log_start, start_offsets, tried)
            if crossing is not None:
                return crossing
            if self._parts.config.keep_unread and self._unread_gate.start(log_start) < log_start:
                return None

    def _carry_forward(self, log_start: int, tried: set[int]) -> None:
        """Append copies of the records before ``log_start`` that the store still needs.

        Add to ``tried`` the log offsets of the retries and dead letters: those that the state still
        has afterwards cannot be read.
        """
        parts, state, damaged = self._parts, self._parts.state.parts, self._on_damage
        read, append_control = self._reader.read_checked, self._writer.append_control

        def append(place: Callable[[], list[Placed]]) -> None:
            with parts.writing:
                placed = place()
                if placed:
                    self._writer.write(placed_batch(parts.state, placed), from_reserve=True)
            self._pause()

        self._halves.copy_before(log_start)
        with parts.writing:
            halves = state.halves.producers_before(log_start)
        for lost in carry_halves(state.halves, halves, read, damaged, append):
            append_control(lost)
        with parts.maintaining:  # nothing else reads or writes the files of the timers
            carry_timers(self._log, log_start, parts.timers, state.timer_batches, damaged, append, append_control)
        with parts.writing:
            tries, letters = state.tries.before(log_start), state.dead_letters.before(log_start)
        tried.update(letters, (predecessor for predecessor, _, _ in tries))
        carry_tries(state.tries, tries, read, damaged, append)
        dead_since = parts.clock.wall_ms() - parts.config.dead_letter_retention_ms
        dropped = carry_dead_letters(state.dead_letters, letters, dead_since, read, damaged, append)
        if dropped is not None:
            append_control(dropped)

    def _on_damage(self, error: CorruptStoreError) -> None:
        """Note a record that cannot be copied. A replica repairs it first: raise ``error``."""
        self._parts.damage.add(error)
        if self._parts.is_replica:
            raise error

    def _try_to_cross(self, log_start: int, start_offsets: dict[QueueKey, int], tried: set[int]) -> Control | None:
        """Record the crossing, unless the state still needs a record before ``log_start``.

        The retries and dead letters among ``tried`` cannot be read: they end here.
        """
        parts, state = self._parts, self._parts.state.parts
        with parts.writing:
            left = {predecessor for predecessor, _, _ in state.tries.before(log_start)}
            left.update(state.dead_letters.before(log_start))
            if left - tried or not state.halves.is_copied_before(log_start) or state.halves.producers_before(log_start):
                return None
            crossing = crossing_record(parts.state, log_start, start_offsets, parts.clock.wall_ms())
            if parts.config.keep_unread and crossing.retention_crossed.losses:
                return None
            if left:
                _LOG.error(
                    "%s: dropping the retries and dead letters whose records cannot be read: %d",
                    parts.directory,
                    len(left),
                )
            undecided = state.halves.undecided_before(log_start)
            for control in rollback_controls(undecided, "undecided when retention dropped their segment"):
                self._writer.append_control(control)
            self._writer.append_control(crossing)
            return crossing

    def drop(self, log_start: int, start_offsets: dict[QueueKey, int]) -> None:
        """Remove the segments before ``log_start``; the crossing and a snapshot are confirmed."""
        parts = self._parts
        with parts.maintaining:
            parts.files.log_start = log_start
            self._checkpoint()
            with parts.writing:
                self._log.drop_before(log_start)
            parts.files.log_start = None
            for key, offset in start_offsets.items():
                parts.queues.drop_before(key, offset)
            parts.finder.drop_before(log_start)
