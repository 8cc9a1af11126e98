"""Maintenance of a store: checkpoints, snapshots, disk watermarks and retention."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from time import sleep
from typing import Final

from litemq.errors import DiskFullError, StorageError
from litemq.storage.files.disk import is_temporary
from litemq.storage.full_disk import FullDisk
from litemq.storage.half_copier import HalfCopier
from litemq.storage.log.records import read_stamp
from litemq.storage.maintenance_thread import MaintenanceThread
from litemq.storage.projections.snapshot import snapshot_begin, snapshot_rest
from litemq.storage.reading import StoreReader
from litemq.storage.retainer import Retainer
from litemq.storage.retention.early_drops import EarlyDrops
from litemq.storage.retention.retention import first_segment_to_keep
from litemq.storage.retention.unread import describe_counts
from litemq.storage.store_parts import WRITE_BEHIND_S, StoreParts
from litemq.storage.writing import StoreWriter

__all__ = ["Maintenance"]

_STATE_INTERVAL_S: Final = 0.2
_MAX_REST: Final = 60  # checkpoint intervals; other programs may fill the disk meanwhile
_RETENTION_INTERVAL_S: Final = 60
_PAUSE_S: Final = 0.0005
_CLEAN_AGAIN_S: Final = 60.0  # after a failure: each try adds a snapshot to the log
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
        self._retainer = Retainer(
            parts,
            writer,
            reader,
            halves,
            snapshot=self.snapshot,
            checkpoint=lambda: self._checkpoint_before_drop(),
            pause=lambda: self._yield_to_others(),
        )
        self._snapshotting = threading.Lock()
        self._snapshot_at = max(0, parts.files.projections.snapshot)
        self._checkpoint_at = self._retention_at = self._now()
        self._clean_again_at = 0.0
        self._early_drops = EarlyDrops(parts.directory, parts.config.disk_clean_percent)
        self._has_reserve = True  # or it is not needed yet
        self._thread: MaintenanceThread | None = None

    def start(self) -> None:
        """Start the maintenance thread, unless ``checkpoint_interval_ms`` is 0."""
        if self._config.checkpoint_interval_ms:
            self._thread = MaintenanceThread(
                self._run, min(_STATE_INTERVAL_S, self._config.checkpoint_interval_ms / 1000)
            )

    def stop(self) -> None:
        """End the maintenance thread and an expiry after the work in progress."""
        self._retainer.wait_expired()
        if self._thread is not None:
            self._thread.stop()

    def _now(self) -> float:
        return self._parts.clock.elapsed_ns() / 1e9

    def _run(self) -> float:
        """Do the work that is due. The maintenance thread calls this at each interval.

        Return the seconds for which nothing is to be done unless the log grows.
        """
        if self._log.failure is not None:
            return 0.0
        now = self._now()
        if now - self._checkpoint_at < self._config.checkpoint_interval_ms / 1000:
            with self._parts.maintaining:
                self._parts.state_writer.commit_if_due(self._parts.applied_offset)
            return 0.0
        self._checkpoint_at = now
        self.watch_disk()  # first: on a full disk, the checkpoint fails until old segments are gone
        self.checkpoint(whole=False)
        self.take_marks()
        if self._parts.follows:
            return self._rest()
        self.watch_unread()
        self._retainer.report_losses()
        if self._log.end - self._snapshot_at >= self._config.snapshot_every_bytes:
            self.snapshot()
        if now - self._retention_at >= _RETENTION_INTERVAL_S:
            self._retention_at = now
            self._retain_as_configured()
        return self._rest()

    def _rest(self) -> float:
        """Return for how long the thread may rest, and let the writer wake it."""
        parts, thread, end = self._parts, self._thread, self._log.end
        done = parts.files.projections
        if (
            thread is None
            or end != min(done.queues_applied, done.index_applied, done.timers_applied, done.state_applied)
            or parts.full_disk is not None
            or parts.unread_refusal is not None
        ):
            return 0.0
        parts.wake_maintenance = thread.wake
        if self._log.end != end:  # written before the writer could know
            parts.wake_maintenance = None
            return 0.0
        return _MAX_REST * self._config.checkpoint_interval_ms / 1000

    # Projections ---------------------------------------------------------------------------------

    def checkpoint(self, *, max_seconds: float = WRITE_BEHIND_S, whole: bool = True) -> None:
        """Make the projections durable up to the confirm offset, and write the checkpoint.

        Write queue entries for at most ``max_seconds``. If ``whole`` is false, ``state.db`` may
        lag.
        """
        parts = self._parts
        with parts.maintaining:
            confirmed = parts.applied_offset
            applied = parts.queues.write_behind(confirmed, max_seconds)
            parts.finder.index_to(confirmed, parts.damage.add)
            parts.timers.write_behind(confirmed)
            (parts.state_writer.commit if whole else parts.state_writer.commit_if_due)(confirmed)
            try:
                parts.disk.sync_all(parts.directory)
            except OSError as error:
                if not is_temporary(error):  # after a failed sync, the contents of the disk are unknown
                    self._log.fail(f"a sync failed: {error}")
                raise
            parts.timers.seal(confirmed)
            self._log.cool()
            parts.files.projections = parts.files.projections._replace(
                queues_applied=applied,
                index_applied=parts.finder.indexed,
                timers_applied=confirmed,
                state_applied=parts.state_writer.applied,
            )
            parts.files.checkpoint()

    def _checkpoint_before_drop(self) -> None:
        """Write a checkpoint. On a full disk, give up a reserved segment for its space.

        Old segments are dropped after it, and the reserve is filled again.
        """
        try:
            self.checkpoint()
        except DiskFullError:
            if not self._log.reserve.release():
                raise
            self.checkpoint()

    def snapshot(self) -> int:
        """Write the state into the log, wait until it is durable, and return its log offset.

        A replica does not wait: ``take_marks`` follows.
        """
        parts = self._parts
        with self._snapshotting:  # the records of two snapshots must not mix
            with parts.writing:
                state = parts.state.copy()
                begin = int(self._writer.append_control(snapshot_begin(self._log.end)).log_offsets[0])
            # Other threads may append in between. Their records are after ``as_of``, so a replay
            # applies them to the snapshot's rows.
            for control in snapshot_rest(state.rows(), begin, self._config.max_record_bytes // 2):
                end = self._writer.append_control(control).end
        if parts.is_replica:
            self._snapshot_at = max(begin, self._snapshot_at)
        else:
            parts.confirmation.wait(end)
            self._set_snapshot(begin)
        return begin

    def _set_snapshot(self, begin: int) -> None:
        """Let the next checkpoint name the snapshot at ``begin``, which is confirmed."""
        parts = self._parts
        with parts.maintaining:
            self._snapshot_at = max(begin, self._snapshot_at)
            parts.files.projections = parts.files.projections._replace(snapshot=begin)

    def take_marks(self) -> None:
        """Use the confirmed snapshots of a replica's log, and drop what retention has crossed."""
        parts = self._parts
        for mark in parts.marks.take(parts.confirmation.offset):
            self._set_snapshot(mark.snapshot)
            if mark.log_start > self._log.start:
                self._retainer.drop(mark.log_start, mark.start_offsets)

    # Disk space ----------------------------------------------------------------------------------

    def watch_disk(self) -> None:
        """Check the disk: drop old segments early if it fills up, refuse producers if it is full.

        The limits are ``disk_clean_percent`` (100: drop nothing) and ``disk_refuse_percent``.
        """
        parts, log, config = self._parts, self._log, self._config
        used = parts.disk.used_fraction(parts.directory) * 100
        if used >= min(config.disk_clean_percent, config.disk_refuse_percent) or len(log.segments) > 1:
            try:
                log.reserve.fill()
                self._has_reserve = True
            except DiskFullError as error:
                if self._has_reserve:  # once, not at every interval
                    _LOG.warning("%s: cannot reserve a segment for the broker's own records", error)
                self._has_reserve = False
        while (
            used >= config.disk_clean_percent < 100
            and len(log.segments) > 2
            and self._now() >= self._clean_again_at
            and not parts.follows
        ):
            before = max(log.start, parts.marks.pending_start)
            oldest = read_stamp(log, before)
            try:
                self.retain(max_bytes=log.segments[-1].end - log.segments[1].start, is_urgent=True)
            except (StorageError, OSError) as error:
                _LOG.warning("%s: cannot drop the oldest segment: %s", parts.directory, error)
                self._clean_again_at = self._now() + _CLEAN_AGAIN_S
                break
            after = max(log.start, parts.marks.pending_start)  # a replica drops it once that is confirmed
            if after == before:
                break
            self._early_drops.add(after - before, oldest.store_timestamp if oldest is not None else None, used)
            used = parts.disk.used_fraction(parts.directory) * 100
        self._early_drops.log_if_due(self._now())
        if used < config.disk_refuse_percent:
            if parts.full_disk is not None:
                _LOG.info("the disk of %s is %.0f%% full: messages are accepted again", parts.directory, used)
            parts.full_disk = None
            return
        is_news = parts.full_disk is None
        awaited = tuple(sorted(self._retainer.awaited))
        parts.full_disk = FullDisk(parts.directory, used, config.disk_refuse_percent, awaited)
        if is_news:
            _LOG.error("%s", parts.disk_refusal)

    def watch_unread(self) -> None:
        """If unread messages are kept, refuse producers while they fill the log."""
        parts, config = self._parts, self._config
        if not config.keep_unread or config.max_log_bytes is None:
            return
        kept = first_segment_to_keep(self._log, None, config.max_log_bytes)
        if (
            kept > self._log.start
            and max(self.retain(max_bytes=config.max_log_bytes), parts.marks.pending_start) < kept
        ):
            refusal = (
                f"the log of {parts.directory} has reached storage.max_log_size ({config.max_log_bytes} bytes) with "
                f"unread messages of {describe_counts(self._retainer.held_for_groups)} (retention.keep_unread): let "
                "the consumers catch up, delete groups that are not used any more, or raise storage.max_log_size"
            )
            if parts.unread_refusal is None:
                _LOG.error("%s", refusal)
            parts.unread_refusal = refusal
        elif parts.unread_refusal is not None:
            _LOG.info("%s: the log has space again: messages are accepted", parts.directory)
            parts.unread_refusal = None

    def _retain_as_configured(self) -> None:
        kept = self._config.retention_ms
        older_than = None if kept is None else self._parts.clock.wall_ms() - kept
        self.retain(older_than_ms=older_than, max_bytes=self._config.max_log_bytes)

    def expire(self) -> int | None:
        """Expire messages by their topics. See ``Store.expire_messages``."""
        return self._retainer.expire()

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
        return self._retainer.retain(older_than_ms=older_than_ms, max_bytes=max_bytes, is_urgent=is_urgent)

    def _yield_to_others(self) -> None:
        """Let other threads write, and write the checkpoint that is due.

        Carrying many records forward takes minutes.
        """
        sleep(_PAUSE_S)
        now = self._now()
        if self._thread is not None and now - self._checkpoint_at >= self._config.checkpoint_interval_ms / 1000:
            self._checkpoint_at = now
            with self._parts.maintaining, suppress(DiskFullError):  # retention may free the disk
                self._parts.timers.load(self._parts.clock.wall_ms() + _LOADED_AHEAD_MS)
                self.checkpoint(whole=False)
