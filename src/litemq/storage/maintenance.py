"""Maintenance of a store: checkpoints, snapshots, disk watermarks and retention."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import sleep
from typing import Final

from litemq.errors import DiskFullError
from litemq.storage.batches.batch import Placed, placed_batch
from litemq.storage.half_copier import HalfCopier
from litemq.storage.maintenance_thread import MaintenanceThread
from litemq.storage.projections.snapshot import snapshot_begin, snapshot_rest
from litemq.storage.reading import StoreReader
from litemq.storage.retention.archive_gate import ArchiveGate, lost_to_archives
from litemq.storage.retention.carry_forward import carry_dead_letters, carry_halves, carry_timers, carry_tries
from litemq.storage.retention.retention import crossing_record, first_segment_to_keep, start_offsets_after
from litemq.storage.store_parts import WRITE_BEHIND_S, StoreParts
from litemq.storage.writing import StoreWriter

__all__ = ["Maintenance"]

_STATE_INTERVAL_S: Final = 0.2
_RETENTION_INTERVAL_S: Final = 60
_PAUSE_S: Final = 0.0005
# More than a broker loads: the broker cannot load timers while retention holds the lock.
_LOADED_AHEAD_MS: Final = 180_000
_LOG = logging.getLogger(__name__)


class Maintenance:
    """Writes the projections of an open store, and keeps its log within its limits."""

    def __init__(self, parts: StoreParts, writer: StoreWriter, reader: StoreReader, halves: HalfCopier) -> None:
        self._parts = parts
        self._config = parts.config
        self._log = parts.log
        self._writer = writer
        self._reader = reader
        self._halves = halves
        wait_ms = parts.config.archive_wait_ms
        self._archive_gate = ArchiveGate(parts.log, parts.state, parts.clock, wait_ms, reader.read_entries)
        self._snapshot_at = max(0, parts.files.projections.snapshot)
        self._checkpoint_at = self._retention_at = self._now()
        self._thread: MaintenanceThread | None = None

    def start(self) -> None:
        """Start the maintenance thread, unless ``checkpoint_interval_ms`` is 0."""
        if self._config.checkpoint_interval_ms:
            self._thread = MaintenanceThread(
                self._run, min(_STATE_INTERVAL_S, self._config.checkpoint_interval_ms / 1000)
            )

    def stop(self) -> None:
        """End the maintenance thread after the work in progress."""
        if self._thread is not None:
            self._thread.stop()

    def _now(self) -> float:
        return self._parts.clock.elapsed_ns() / 1e9

    def _run(self) -> None:
        """Do the work that is due. The maintenance thread calls this at each interval."""
        if self._log.failure is not None:
            return
        now = self._now()
        if now - self._checkpoint_at < self._config.checkpoint_interval_ms / 1000:
            with self._parts.maintaining:
                self._parts.state_writer.commit_if_due(self._parts.flusher.flushed)
            return
        self._checkpoint_at = now
        self.checkpoint(whole=False)
        self.watch_disk()
        if self._log.end - self._snapshot_at >= self._config.snapshot_every_bytes:
            self.snapshot()
        if now - self._retention_at >= _RETENTION_INTERVAL_S:
            self._retention_at = now
            self._retain_as_configured()

    # Projections ---------------------------------------------------------------------------------

    def checkpoint(self, *, max_seconds: float = WRITE_BEHIND_S, whole: bool = True) -> None:
        """Make the projections durable up to the flushed offset, and write the checkpoint.

        Write queue entries for at most ``max_seconds``. If ``whole`` is false, ``state.db`` may
        lag.
        """
        parts = self._parts
        with parts.maintaining:
            flushed = parts.flusher.flushed
            applied = parts.queues.write_behind(flushed, max_seconds)
            parts.finder.index_to(flushed, parts.damage.add)
            parts.timers.write_behind(flushed)
            (parts.state_writer.commit if whole else parts.state_writer.commit_if_due)(flushed)
            try:
                parts.disk.sync_all(parts.directory)
            except OSError as error:
                # After a failed sync, the contents of the disk are unknown.
                self._log.fail(f"a sync failed: {error}")
                raise
            parts.timers.seal(flushed)
            self._log.cool()
            parts.files.projections = parts.files.projections._replace(
                queues_applied=applied,
                index_applied=parts.finder.indexed,
                timers_applied=flushed,
                state_applied=parts.state_writer.applied,
            )
            parts.files.checkpoint()

    def snapshot(self) -> int:
        """Write the state into the log, wait until it is durable, and return its log offset."""
        parts = self._parts
        with parts.maintaining:
            with parts.writing:
                state = parts.state.copy()
                begin = int(self._writer.append_control(snapshot_begin(self._log.end)).log_offsets[0])
            # Other threads may append in between. Their records are after ``as_of``, so a replay
            # applies them to the snapshot's rows.
            for control in snapshot_rest(state.rows(), begin, self._config.max_record_bytes // 2):
                end = self._writer.append_control(control).end
            parts.flusher.wait(end)
            self._snapshot_at = begin
            parts.files.projections = parts.files.projections._replace(snapshot=begin)
            return begin

    # Disk space ----------------------------------------------------------------------------------

    def watch_disk(self) -> None:
        """Check the disk: drop old segments early if it fills up, refuse producers if it is full.

        The limits are ``disk_clean_percent`` and ``disk_refuse_percent``.
        """
        parts, log, config = self._parts, self._log, self._config
        used = parts.disk.used_fraction(parts.directory) * 100
        if used >= config.disk_clean_percent or len(log.segments) > 1:
            try:
                log.reserve.fill()
            except DiskFullError as error:
                _LOG.warning("%s: cannot reserve a segment for the broker's own records", error)
        while used >= config.disk_clean_percent and len(log.segments) > 2:
            before = log.start
            if self.retain(max_bytes=log.segments[-1].end - log.segments[1].start, is_urgent=True) == before:
                break
            _LOG.warning("%s: the disk was %.0f%% full; dropped the oldest segment early", parts.directory, used)
            used = parts.disk.used_fraction(parts.directory) * 100
        if used < config.disk_refuse_percent:
            parts.refused = None
        elif parts.refused is None:
            refused = (
                f"the disk of {parts.directory} is {used:.0f}% full, and messages are refused from "
                f"{config.disk_refuse_percent:g}% (disk_refuse_percent): free disk space"
            )
            awaited = sorted(self._archive_gate.awaited)
            if awaited:
                refused += f"; retention waits for the archive of {', '.join(awaited)} (archived: block)"
            parts.refused = refused
            _LOG.error("%s", refused)

    def _retain_as_configured(self) -> None:
        kept = self._config.retention_ms
        older_than = None if kept is None else self._parts.clock.wall_ms() - kept
        self.retain(older_than_ms=older_than, max_bytes=self._config.max_log_bytes)

    def retain(
        self,
        *,
        older_than_ms: int | None = None,
        max_bytes: int | None = None,
        is_urgent: bool = False,
    ) -> int:
        """Drop old segments, and return the log's new start.

        A segment is dropped if all its records were stored before ``older_than_ms``, or if it is
        more than ``max_bytes`` from the end. The log records the drop first, and the state keeps
        everything it knows. Segments that an archive lacks are kept; if ``is_urgent``, only those
        of topics with ``archived: block``.
        """
        parts, log = self._parts, self._log
        with parts.maintaining:
            log_start = first_segment_to_keep(log, older_than_ms, max_bytes)
            if log_start > log.start:
                parts.flusher.wait(log_start)
                log_start = self._archive_gate.start(log_start, is_urgent=is_urgent)
            if log_start <= log.start:
                return log.start
            self._carry_forward(log_start)
            start_offsets = start_offsets_after(log, log_start)
            crossing = crossing_record(parts.state, log_start, start_offsets)
            self._writer.append_control(crossing)
            for name, count in lost_to_archives(crossing, parts.state).items():
                _LOG.warning(
                    "%s: dropping %d messages of %s that its archive lacks (archived: drop-with-record)",
                    parts.directory,
                    count,
                    name,
                )
            self.snapshot()
            parts.files.log_start = log_start
            self.checkpoint()
            with parts.writing:
                log.drop_before(log_start)
            parts.files.log_start = None
            for key, offset in start_offsets.items():
                parts.queues.drop_before(key, offset)
            parts.finder.drop_before(log_start)
            return log.start

    def _carry_forward(self, log_start: int) -> None:
        """Append copies of the records before ``log_start`` that the store still needs."""
        parts, state, damaged = self._parts, self._parts.state.parts, self._parts.damage.add
        read, append_control = self._reader.read_checked, self._writer.append_control
        self._halves.end_before(log_start)

        def append(place: Callable[[], list[Placed]]) -> None:
            with parts.writing:
                placed = place()
                if placed:
                    self._writer.write(placed_batch(parts.state, placed), from_reserve=True)
            self._yield_to_others()

        with parts.writing:
            halves = state.halves.producers_before(log_start)
        for lost in carry_halves(state.halves, halves, read, damaged, append):
            append_control(lost)
        carry_timers(self._log, log_start, parts.timers, state.timer_batches, damaged, append, append_control)
        with parts.writing:
            tries, letters = state.tries.before(log_start), state.dead_letters.before(log_start)
        carry_tries(state.tries, tries, read, damaged, append)
        dead_since = parts.clock.wall_ms() - self._config.dead_letter_retention_ms
        dropped = carry_dead_letters(state.dead_letters, letters, dead_since, read, damaged, append)
        if dropped is not None:
            append_control(dropped)

    def _yield_to_others(self) -> None:
        """Let other threads write, and write the checkpoint that is due.

        Carrying many records forward takes minutes.
        """
        sleep(_PAUSE_S)
        now = self._now()
        if self._thread is not None and now - self._checkpoint_at >= self._config.checkpoint_interval_ms / 1000:
            self._checkpoint_at = now
            self._parts.timers.load(self._parts.clock.wall_ms() + _LOADED_AHEAD_MS)
            self.checkpoint(whole=False)
