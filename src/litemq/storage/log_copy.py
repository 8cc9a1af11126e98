"""The copy of a master's log, for a replica whose own log the master's does not continue.

A replica follows from the end of its log. If retention has dropped that part of the master's log,
the replica gives up its own log and copies the master's from its start. The copy needs no state;
the store builds it when it opens: from a snapshot in the copied log, and the records after it.

The file ``copying`` marks an incomplete copy. It is empty while the old files are removed. Then it
has the size of a segment, and the copy can be continued.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Final, cast

import numpy as np
from google.protobuf.message import DecodeError

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, InvalidArgumentError, RecordFormatError, StorageError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.chunks import check_chunk
from litemq.storage.log.confirmation import GroupConfirmation
from litemq.storage.log.epochs import Epoch
from litemq.storage.log.log_directory import COPY_MARKER, LogDirectory, Projections
from litemq.storage.log.reader import Window, read_log
from litemq.storage.log.segment import Segment
from litemq.storage.projections.replay import decode_controls, read_snapshot
from litemq.storage.state.persistence.database import SIDE_FILES

__all__ = ["LogCopy"]

_CHECKPOINT_BYTES: Final = 64 << 20  # copied between two checkpoints, and dirty at most
_FOLDERS: Final = ("commitlog", "consumequeue", "index", "timers", ".rebuild")
_FILES: Final = ("checkpoint", "epochs", "abort", "topics.json", *(f"state.db{suffix}" for suffix in SIDE_FILES))
_LOG = logging.getLogger(__name__)


class LogCopy:
    """A data directory that gets the log of its master, from ``log_start`` on.

    It has confirmed records only. So its end is never cut off, and the copy may continue with the
    log of another master. All calls may wait for the disk.
    """

    def __init__(
        self,
        directory: Path,
        config: StoreConfig,
        clock: Clock,
        log_start: int,
        differs_from: int | None = None,
        *,
        disk: Disk = DISK,
    ) -> None:
        """Begin a copy in ``directory``, or continue the one that is there.

        ``log_start`` is the start of the master's log. If the copy ends before it, is damaged or
        has segments of another size, begin again. If the directory has a log of its own, remove it,
        but keep in ``cut-off-…`` what the master may lack: the records from ``differs_from`` on, or
        the unconfirmed ones. The directory keeps its ``store_id``.

        Raises:
            InvalidArgumentError: ``log_start`` is not the start of a segment, or the directory has
                a log that can follow the master's.
        """
        if log_start < 0 or log_start % config.segment_bytes:
            raise InvalidArgumentError(f"no segment of {config.segment_bytes} bytes begins at {log_start}")
        self._directory, self._config, self._clock, self._disk = directory, config, clock, disk
        self._marker = directory / COPY_MARKER
        self._begun = b"%d\n" % config.segment_bytes
        self.bytes_cut = 0  # kept in cut-off-…
        if not self._marker.exists():
            self._give_up_log(log_start, differs_from)
        if not self._continue(log_start):
            self._begin(log_start)

    # Opening -------------------------------------------------------------------------------------

    def _give_up_log(self, log_start: int, differs_from: int | None) -> None:
        """Mark the directory, after the records of its log that the master lacks are kept."""
        files = LogDirectory(self._directory, self._config, self._clock, disk=self._disk, is_replica=True)
        try:
            start, end = files.log.start, files.log.end
            if start < end >= log_start and (differs_from is None or differs_from >= end):
                raise InvalidArgumentError(
                    f"{self._directory} has a log that ends at {end}, and its master's log begins at {log_start}: "
                    "follow it"
                )
            lost_from = files.confirmation.offset if differs_from is None else differs_from
            self.bytes_cut = files.keep_from(max(lost_from, start))
            if start < end:
                _LOG.warning(
                    "%s: giving up the log %d … %d, since the master's log begins at %d%s; kept %d bytes that it lacks",
                    self._directory,
                    start,
                    end,
                    log_start,
                    "" if differs_from is None else f" and differs from {differs_from} on",
                    self.bytes_cut,
                )
            self._mark()
        finally:
            files.abandon()

    def _mark(self) -> None:
        marker = self._disk.open(self._marker, create=True)
        marker.truncate(0)
        marker.sync()
        self._disk.sync_directory(self._directory)

    def _continue(self, log_start: int) -> bool:
        """Open the copy that is there; return whether a log from ``log_start`` on continues it."""
        if self._marker.read_bytes() != self._begun:
            return False
        try:
            self._open()
        except CorruptStoreError as error:
            _LOG.warning("%s; copying the log again", error)
            return False
        if self.end < log_start:
            self.close()
            return False
        return True

    def _begin(self, log_start: int) -> None:
        try:
            lock = DirectoryLock(self._directory)
            try:
                self._mark()
                self._remove_log()
                self._disk.make_directory(self._directory / "commitlog")
                Segment.create(self._disk, self._directory / "commitlog", log_start, self._config.segment_bytes)
                marker = self._disk.open(self._marker)
                marker.write(self._begun, 0)
                marker.sync()
            finally:
                lock.release()
        except OSError as error:
            raise StorageError(
                f"cannot copy a log to {self._directory}: {error.strerror} ({error.filename})"
            ) from error
        self._open()

    def _remove_log(self) -> None:
        """Remove the log and its projections, durably."""
        for name in _FOLDERS:
            for path in list((self._directory / name).rglob("*")):
                if not path.is_dir():
                    self._disk.unlink(path)
            shutil.rmtree(self._directory / name, ignore_errors=True)
        for name in _FILES:
            if (self._directory / name).exists():
                self._disk.unlink(self._directory / name)
        self._disk.sync_all(self._directory)

    def _open(self) -> None:
        files = LogDirectory(self._directory, self._config, self._clock, disk=self._disk, is_replica=True, is_copy=True)
        self._snapshot = -1
        try:
            for window in read_log(files.log, files.log.start, files.log.end):
                self._snapshot = _last_snapshot(window, files.log.start, self._snapshot)
        except BaseException:
            files.abandon()
            raise
        self._files = files
        self._checkpoint_at = files.log.end

    # Facts ---------------------------------------------------------------------------------------

    @property
    def store_id(self) -> bytes:
        """The id by which the group knows this data directory."""
        return self._files.store_id

    @property
    def start(self) -> int:
        """The log offset at which the copy begins."""
        return self._files.log.start

    @property
    def end(self) -> int:
        """The log offset at which the copy continues."""
        return self._files.log.end

    @property
    def flushed(self) -> int:
        """The offset below which everything is on this disk."""
        return self._files.flusher.flushed

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs of the copied records, rising. The first one may have begun earlier."""
        return self._files.recorded_epochs()

    @property
    def can_finish(self) -> bool:
        """Whether a store can open the copy: its log begins at 0, or has a snapshot."""
        return self.start == 0 or self._snapshot >= 0

    # Copying -------------------------------------------------------------------------------------

    def append(self, begin: int, data: bytes, confirmed: int) -> int:
        """Append the records of a chunk that end by ``confirmed``; return the end of the copy.

        ``confirmed`` is the master's confirm offset. For the chunk, see ``LogFollower.append``.

        Raises:
            RecordFormatError: A record is damaged, or is not the next one.
            OffsetOutOfRangeError: The copy does not continue at ``begin``, or the segment is too
                short.
        """
        files, columns = self._files, check_chunk(begin, data)
        count = int(np.searchsorted(columns.starts + columns.sizes + begin, confirmed, side="right"))
        if count == 0:
            return self.end
        if count < len(columns):
            columns = columns.subset(np.arange(count))
        window = Window(begin, columns)
        snapshot = _last_snapshot(window, self.start, self._snapshot)
        files.flusher.mark_dirty(files.append(window))
        self._snapshot = snapshot
        if self.end - self._checkpoint_at >= _CHECKPOINT_BYTES:
            self._checkpoint()
        return self.end

    def _checkpoint(self) -> None:
        files = self._files
        files.flusher.wait(self.end)
        cast("GroupConfirmation", files.confirmation).advance(self.end)
        files.checkpoint()
        self._checkpoint_at = self.end

    def begin_again(self, log_start: int) -> None:
        """Discard the copy, and begin one at ``log_start``: the master's log differs from it."""
        self.close()
        self._begin(log_start)

    def close(self) -> None:
        """Release the directory. Another ``LogCopy`` may continue."""
        self._files.close()

    def finish(self) -> None:
        """Complete the copy and release the directory: a ``ReplicaStore`` can open it.

        Everything that was copied is confirmed there.

        Raises:
            InvalidArgumentError: The copy has no snapshot yet. Copy more.
            CorruptStoreError: The snapshot is not valid. Begin again.
        """
        if not self.can_finish:
            raise InvalidArgumentError(f"the copied log {self.start} … {self.end} has no snapshot yet: copy more of it")
        files = self._files
        if self._snapshot >= 0:
            read_snapshot(files.log, self._snapshot, self.end)
        files.projections = Projections(snapshot=self._snapshot)
        self._checkpoint()
        self._disk.unlink(self._marker)
        files.close()  # it syncs the directory


def _last_snapshot(window: Window, log_start: int, before: int) -> int:
    """Return the offset of the last complete snapshot in ``window``, or ``before``."""
    try:
        controls = decode_controls(window.columns)
    except DecodeError as error:
        raise RecordFormatError("invalid control record", 0, str(error)) from error
    for number, control in controls:
        begin = control.snapshot_end.begin_offset
        if control.HasField("snapshot_end") and log_start <= begin < window.base + int(window.columns.starts[number]):
            before = begin
    return before
