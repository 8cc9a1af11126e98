"""A data directory's log, opened for writing: lock, recover, begin an epoch, and only then append.

::

    DIR/lock          held while the directory is open
    DIR/abort         exists while the directory is open: whoever finds it knows that the last stop was no clean one
    DIR/checkpoint    how far everything got
    DIR/epochs        who wrote from where on
    DIR/commitlog/    the segments
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import NamedTuple

from litemq.clock import Clock
from litemq.storage.checkpoint import Checkpoint, CheckpointFile
from litemq.storage.commitlog import CommitLog
from litemq.storage.config import StoreConfig
from litemq.storage.epochs import EpochFile
from litemq.storage.files import DISK, Disk
from litemq.storage.flush import Flusher
from litemq.storage.lock import DirectoryLock
from litemq.storage.recovery import LogEnd, find_segments, recover_log

__all__ = ["LogDirectory", "Projections"]

_LOG = logging.getLogger(__name__)


class Projections(NamedTuple):
    """How far what is derived from the log got, for the checkpoint."""

    queues_applied: int = 0
    snapshot: int = -1


class LogDirectory:
    """The log of one data directory, from opening to closing."""

    def __init__(self, directory: Path, config: StoreConfig, clock: Clock, *, disk: Disk = DISK, host: str | None = None) -> None:
        self._disk = disk
        self._clock = clock
        self._directory = directory
        segments_in = directory / "commitlog"
        disk.make_directory(segments_in)
        self._lock = DirectoryLock(directory)
        try:
            self._abort = directory / "abort"
            self._checkpoints = CheckpointFile(disk, directory / "checkpoint")
            self.recovered = self._recover(segments_in, config)
            self._mark_open()
            self.epochs = EpochFile(disk, directory / "epochs")
            before = self._checkpoints.latest or Checkpoint()
            self.projections = Projections(before.queues_applied, before.snapshot)
            at_least = max(before.epoch, self.recovered.last_epoch) + 1
            self.epoch = self.epochs.begin(self.recovered.offset, host or socket.gethostname(), at_least=at_least)
            self.store_timestamp = max(before.store_timestamp, self.recovered.last_store_timestamp)
            self.log = CommitLog(disk, segments_in, self._segments, self.recovered.offset, config.segment_bytes)
            self.flusher = Flusher(self.log)
            self.checkpoint()
        except BaseException:
            self._lock.release()
            raise

    def _recover(self, segments_in: Path, config: StoreConfig) -> LogEnd:
        clean = not self._abort.exists()
        latest = self._checkpoints.latest
        for slot in self._checkpoints.damaged_slots:
            _LOG.warning("%s: slot %d was torn or damaged; the other one is used", self._directory / "checkpoint", slot)
        self._segments = find_segments(self._disk, segments_in, config.segment_bytes)
        flushed = latest.flushed if latest is not None else None
        end = recover_log(self._disk, segments_in, self._segments, flushed, config.stored_limits, clean=clean and latest is not None)
        if not clean:
            _LOG.info(
                "%s: recovered after a crash; %d records checked, the log ends at %d", self._directory, end.records_checked, end.offset
            )
        return end

    def _mark_open(self) -> None:
        self._disk.open(self._abort, create=True)
        self._disk.sync_directory(self._directory)

    def checkpoint(self) -> None:
        """Write down how far the log is flushed."""
        flushed = self.flusher.flushed
        self._checkpoints.write(
            Checkpoint(
                flushed=flushed,
                confirmed=flushed,
                queues_applied=self.projections.queues_applied,
                snapshot=self.projections.snapshot,
                epoch=self.epoch.number,
                store_timestamp=self.store_timestamp,
                written_at=self._clock.wall_ms(),
            )
        )

    def abandon(self) -> None:
        """Let go as a crash would: no checkpoint, and the marker stays."""
        self.flusher.close()
        self._lock.release()

    def close(self) -> None:
        """Flush, write a last checkpoint, and let go. After a failure the marker stays: the next opening recovers."""
        self.flusher.close()
        if self.log.failure is None:
            self.checkpoint()
            self._disk.unlink(self._abort)
            self._disk.sync_directory(self._directory)
        self._lock.release()
