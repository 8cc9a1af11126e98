"""The log of a data directory, open for writing: lock, recover, begin an epoch, then append.

::

    DIR/lock          held while the directory is open
    DIR/abort         exists while the directory is open; after a crash it is still there
    DIR/checkpoint    the progress of the log and its projections
    DIR/epochs        the writers of the log
    DIR/commitlog/    the segments
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.checkpoint import Checkpoint, CheckpointFile
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.epochs import EpochFile
from litemq.storage.log.flush import Flusher
from litemq.storage.log.recovery import find_segments, recover_log

__all__ = ["LogDirectory", "Projections"]

_LOG = logging.getLogger(__name__)


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
    ) -> None:
        """Open the log of ``directory``.

        ``flushed_at_least(directory)`` returns an offset that another file knows to be flushed. It
        is called while the directory is locked.
        """
        self._disk = disk
        self._flushed_at_least = flushed_at_least
        self._hides_projections = False
        self._clock = clock
        self._directory = Path(directory)
        self._abort = self._directory / "abort"
        self._closed = False
        # The log's start after retention: the checkpoint has it before segments are removed.
        self.log_start: int | None = None
        try:
            disk.make_directory(self._directory / "commitlog")
            self._lock = DirectoryLock(self._directory)
            try:
                self._open(config, host or socket.gethostname())
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise StorageError(
                f"cannot open {self._directory}: {error.strerror or error} ({error.filename or 'no file named'})"
            ) from error

    def _open(self, config: StoreConfig, host: str) -> None:
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
            raise StorageError(
                f"{self._directory}: its segments have {before.segment_bytes} bytes, not {config.segment_bytes}, and "
                f"the size cannot be changed: set storage.file_size = {before.segment_bytes}"
            )
        segments = find_segments(self._disk, segments_in, config.segment_bytes)
        if segments and segments[0].start > before.log_start and self._checkpoints.latest is not None:
            reason = f"the segment is missing; the first segment is {segments[0].start:020d}"
            raise CorruptStoreError(str(segments_in), before.log_start, reason)
        self._segment_bytes = config.segment_bytes
        flushed = before.flushed if self._checkpoints.latest is not None else None
        if flushed is not None and segments:
            known = self._flushed_at_least(self._directory)
            if flushed < known <= segments[-1].end:  # a shorter log was restored: then it knows nothing
                flushed = known
        self.recovered = recover_log(
            self._disk, segments_in, segments, flushed, epoch=before.epoch, clean=clean and flushed is not None
        )
        if not clean:
            checked, end = self.recovered.records_checked, self.recovered.offset
            _LOG.info(
                "%s: recovered after a crash; checked %d records, the log ends at %d", self._directory, checked, end
            )
        self._mark_open()
        self.epochs = EpochFile(self._disk, self._directory / "epochs")
        at_least = max(before.epoch, self.recovered.last_epoch) + 1
        self.epoch = self.epochs.begin(self.recovered.offset, host, at_least=at_least)
        self.store_timestamp = max(before.store_timestamp, self.recovered.last_store_timestamp)
        self.log = CommitLog(self._disk, segments_in, segments, self.recovered.offset, config.segment_bytes)
        self.flusher = Flusher(self.log)
        self.checkpoint()

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

    def checkpoint(self) -> None:
        """Write a checkpoint with the current flushed offset."""
        flushed = self.flusher.flushed
        hidden = Projections(snapshot=self.projections.snapshot)
        self._checkpoints.write(
            Checkpoint(
                flushed=flushed,
                confirmed=flushed,
                **(hidden if self._hides_projections else self.projections)._asdict(),
                epoch=self.epoch.number,
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
