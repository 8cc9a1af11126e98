"""The log of a data directory, open for writing: lock, recover, begin an epoch, then append.

The log of a replica begins no epoch when it is opened: an election decides who begins the next one.

::

    DIR/lock          held while the directory is open
    DIR/abort         exists while the directory is open; after a crash it is still there
    DIR/checkpoint    the progress of the log and its projections
    DIR/epochs        the writers of the log
    DIR/store_id      the id of a replica's directory, its group and its broker_id
    DIR/copying       exists while the log is an incomplete copy of another one
    DIR/commitlog/    the segments
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, IncompleteCopyError, RecordFormatError, StorageError
from litemq.storage.config import StoreConfig, other_segments
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.checkpoint import Checkpoint, CheckpointFile
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.confirmation import Confirmation, GroupConfirmation
from litemq.storage.log.epochs import Epoch, EpochFile, find_epochs
from litemq.storage.log.flush import Flusher
from litemq.storage.log.reader import Window
from litemq.storage.log.recovery import find_segments, last_epoch, recover_log
from litemq.storage.log.segment import Segment
from litemq.storage.log.store_id import open_store_id, refuse_replica
from litemq.storage.log.truncation import keep_cut_off, truncate_log

__all__ = ["COPY_MARKER", "LogDirectory", "Projections", "refuse_incomplete_copy"]

COPY_MARKER: Final = "copying"
_LOG = logging.getLogger(__name__)


def refuse_incomplete_copy(directory: Path) -> None:
    """Raise ``IncompleteCopyError`` if the log of ``directory`` is still being copied."""
    if (directory / COPY_MARKER).exists():
        raise IncompleteCopyError(
            f"{directory} has an incomplete copy of its master's log: start the replica to complete it, "
            "or empty the directory to begin again"
        )


class Projections(NamedTuple):
    """The log offset that each projection has reached, for the checkpoint."""

    queues_applied: int = 0
    index_applied: int = 0
    timers_applied: int = 0
    state_applied: int = 0
    snapshot: int = -1


class LogDirectory:
    """The log of one data directory, from opening to closing."""

    def __init__(
        self,
        directory: Path,
        config: StoreConfig,
        clock: Clock,
        *,
        disk: Disk = DISK,
        host: str | None = None,
        flushed_at_least: Callable[[Path], int] = lambda _directory: 0,
        is_replica: bool = False,
        group: str = "",
        is_copy: bool = False,
    ) -> None:
        """Open the log of ``directory``.

        ``flushed_at_least(directory)`` returns an offset that another file knows to be flushed. It
        is called while the directory is locked. The log of a replica begins no epoch, and what it
        confirms is decided elsewhere. It belongs to ``group``, if that is known. Only if
        ``is_copy``, the log may be an incomplete copy.
        """
        self._disk = disk
        self._flushed_at_least = flushed_at_least
        self._hides_projections = False
        self._clock = clock
        self._directory = Path(directory)
        self._abort = self._directory / "abort"
        self._closed = False
        self.begun_epoch = 0  # of a replica: the highest that may have records anywhere
        # The log's start after retention: the checkpoint has it before segments are removed.
        self.log_start: int | None = None
        try:
            disk.make_directory(self._directory / "commitlog")
            self._lock = DirectoryLock(self._directory)
            try:
                if not is_copy:
                    refuse_incomplete_copy(self._directory)
                if not is_replica:
                    refuse_replica(self._directory)
                self.store_id = open_store_id(disk, self._directory, group) if is_replica else b""
                self._open(config, host or socket.gethostname(), is_replica=is_replica)
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            file = "" if error.filename in (None, str(self._directory)) else f" ({error.filename})"
            raise StorageError(
                f"cannot open {self._directory}: {error.strerror or error}{file}. Choose another storage.data_path, or "
                "grant write permission"
            ) from error

    def _open(self, config: StoreConfig, host: str, *, is_replica: bool) -> None:
        segments_in = self._directory / "commitlog"
        self._checkpoints = CheckpointFile(self._disk, self._directory / "checkpoint")
        before = self._checkpoints.latest or Checkpoint()
        self.projections = Projections(
            before.queues_applied, before.index_applied, before.timers_applied, before.state_applied, before.snapshot
        )
        clean = not self._abort.exists()
        if self._checkpoints.damaged_slots:
            has_slot = self._checkpoints.latest is not None
            instead = "using the other slot" if has_slot else "so is the other; reading the whole log"
            slot = self._checkpoints.damaged_slots[0]
            _LOG.warning("%s: slot %d is torn or damaged; %s", self._directory / "checkpoint", slot, instead)
        if before.segment_bytes not in (0, config.segment_bytes):
            raise other_segments(self._directory, before.segment_bytes, config.segment_bytes)
        segments = find_segments(self._disk, segments_in, config.segment_bytes)
        if segments and segments[0].start > before.log_start and self._checkpoints.latest is not None:
            reason = f"the segment is missing; the first segment is {segments[0].start:020d}"
            raise CorruptStoreError(str(segments_in), before.log_start, reason)
        self._segment_bytes = config.segment_bytes
        flushed, epoch = (before.flushed if self._checkpoints.latest is not None else None), before.epoch
        if flushed is not None and segments:
            known = self._flushed_at_least(self._directory)
            if flushed < known <= segments[-1].end:  # a shorter log was restored: then it knows nothing
                epoch = last_epoch(segments, flushed, known, epoch)
                flushed = known
        if not segments:
            self._warn_if_too_small(config.segment_bytes)
        self.recovered = recover_log(
            self._disk, segments_in, segments, flushed, epoch=epoch, clean=clean and flushed is not None
        )
        if not clean:
            checked, end = self.recovered.records_checked, self.recovered.offset
            _LOG.info(
                "%s: recovered after a crash; checked %d records, the log ends at %d", self._directory, checked, end
            )
        self._mark_open()
        end = self.recovered.offset
        self._recovered_epoch = max(epoch, self.recovered.last_epoch)
        self.store_timestamp = max(before.store_timestamp, self.recovered.last_store_timestamp)
        self.log = CommitLog(self._disk, segments_in, segments, end, config.segment_bytes)
        self.epochs = EpochFile(self._disk, self._directory / "epochs")
        if is_replica:
            self._derive_epochs()
            self.epoch = Epoch(self._recovered_epoch, end, host)
        else:
            self.epoch = self.epochs.begin(end, host, at_least=self._recovered_epoch + 1)
        self.flusher = Flusher(self.log)
        self.confirmation = Confirmation(self.log, self.flusher)
        if is_replica:
            self.confirmation = GroupConfirmation(self.log, self.flusher, min(before.confirmed, end))
        self.checkpoint()

    def _warn_if_too_small(self, segment_bytes: int) -> None:
        """Say before the first message that there is no space for it."""
        free = self._disk.free_bytes(self._directory)
        if free < segment_bytes:
            _LOG.warning(
                "%s: messages will be refused, since the disk has %d free bytes, and the first segment needs %d: "
                "free disk space, or choose a smaller storage.file_size",
                self._directory,
                free,
                segment_bytes,
            )

    def _derive_epochs(self) -> None:
        """Make ``epochs`` agree with the log: only epochs with a record count among replicas.

        A power cut may have lost the records of an epoch that this store began. Other replicas may
        have them, so it must not begin that epoch again, also after further restarts.
        """
        end = self.log.end
        self.begun_epoch = max([0, *(epoch.number for epoch in self.epochs.entries)])
        self.epochs.hide(end)
        latest = self.epochs.latest
        if end > self.log.start and (latest is None or latest.number != self._recovered_epoch):
            self.epochs.replace(find_epochs(self.log, self.log.start, end))

    def recorded_epochs(self) -> list[Epoch]:
        """Return the epochs that have records, each with the log offset of its first one."""
        recorded: list[Epoch] = []
        for epoch in self.epochs.entries:
            start = epoch.start_offset
            if self.log.start <= start < self.log.end and self.log.is_blank_at(start):
                start = self.log.segment_of(start).end
            if recorded and recorded[-1].start_offset >= start:
                recorded.pop()
            if start < self.log.end:
                recorded.append(epoch._replace(start_offset=start))
        return recorded

    def begin_epoch(self, number: int, start_offset: int, host: str = "") -> None:
        """Note durably that the next record, at ``start_offset``, is the first of an epoch."""
        self.epochs.hide(self.log.end)  # a write that failed has left an epoch without a record
        self.epoch = self.epochs.begin(start_offset, host, at_least=number)
        self.begun_epoch = max(self.begun_epoch, number)

    def append(self, window: Window) -> list[Segment]:
        """Write the records of a checked chunk of a master's log; return the dirty segments.

        Raises:
            RecordFormatError: The epoch of the records is older than that of the last one.
            OffsetOutOfRangeError: The log does not continue there, or the segment is too short.
        """
        begin, columns = window
        self.log.check_next(begin, int(columns.starts[-1] + columns.sizes[-1]))
        epoch = int(columns.header["epoch"][0])
        last = self.last_epoch
        if epoch < last:
            raise RecordFormatError("stale epoch", 0, f"{epoch} after {last}")
        if epoch > last:
            self.begin_epoch(epoch, begin)
        offsets = columns.starts + begin
        dirty = self.log.write(columns.buffer, columns.starts, columns.sizes, offsets, from_reserve=True)
        self.store_timestamp = max(self.store_timestamp, int(columns.header["store_timestamp"][-1]))
        return dirty

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 if there is none."""
        return self._epoch_at(self.log.end)

    def _epoch_at(self, offset: int) -> int:
        """Return the epoch of the last record before ``offset``."""
        begun = [epoch.number for epoch in self.epochs.entries if epoch.start_offset < offset]
        if offset < self.recovered.offset:  # the log is cut below its end at the opening
            return begun[-1] if begun else 0
        return max([self._recovered_epoch, *begun[-1:]])

    def _mark_open(self) -> None:
        self._disk.open(self._abort, create=True)
        self._disk.sync_directory(self._directory)

    def hide_projections(self) -> None:
        """The projections are being built elsewhere: no checkpoint may promise them here."""
        self.projections = Projections(snapshot=self.projections.snapshot)
        self._hides_projections = True

    def show_projections(self) -> None:
        """The projections are in place: the next checkpoint tells their progress."""
        self._hides_projections = False

    def cut(self, offset: int) -> int:
        """Remove the records from log offset ``offset`` on, and release the directory.

        Keep them in ``cut-off-…``, and return their size in bytes. The next opening continues at
        ``offset``, also if a power cut interrupts this: until all is removed, it is cut again.
        """
        self.flusher.close()
        self.checkpoint(flushed=offset)
        size = self.keep_from(offset)
        truncate_log(self._disk, self._directory / "commitlog", list(self.log.segments), offset, clean=False)
        self.epochs.cut(offset)
        self._release()
        return size

    def keep_from(self, offset: int) -> int:
        """Copy the records from log offset ``offset`` on to ``cut-off-…``; return their size."""
        size = 0
        for segment in self.log.segments:
            if segment.end > offset:
                begin = max(offset, segment.start)
                count = min(segment.end, self.log.end) - begin
                if count > 0:
                    keep_cut_off(self._disk, self._directory / "commitlog", begin, count, segment.read)
                    size += count
        return size

    def checkpoint(self, *, flushed: int | None = None) -> None:
        """Write a checkpoint with the current flushed offset, or with ``flushed``."""
        flushed = self.flusher.flushed if flushed is None else flushed
        hidden = Projections(snapshot=self.projections.snapshot)
        self._checkpoints.write(
            Checkpoint(
                flushed=flushed,
                confirmed=min(flushed, self.confirmation.offset),
                **(hidden if self._hides_projections else self.projections)._asdict(),
                epoch=self._epoch_at(flushed),
                store_timestamp=self.store_timestamp,
                written_at=self._clock.wall_ms(),
                log_start=self.log_start if self.log_start is not None else self.log.start,
                segment_bytes=self._segment_bytes,
            )
        )

    def abandon(self) -> None:
        """Release the directory as a crash would: no checkpoint, and ``abort`` stays."""
        self._release()

    def close(self) -> None:
        """Flush, write a last checkpoint and release the directory.

        If the log has failed, ``abort`` stays, and the next opening recovers.
        """
        if self._closed:
            return
        try:
            self.flusher.close()
            if self.log.failure is None:
                self.checkpoint()
                if self._abort.exists():
                    self._disk.unlink(self._abort)
                self._disk.sync_directory(self._directory)
        finally:
            self._release()

    def _release(self) -> None:
        if not self._closed:
            self._closed = True
            self.flusher.close()
            self.log.fail("the store was closed")
            self._lock.release()
