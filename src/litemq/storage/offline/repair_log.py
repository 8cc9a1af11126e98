"""Repairs the log of a replica that is not open, with the bytes of another replica."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from litemq.errors import CorruptStoreError
from litemq.format.columns.record_columns import RecordColumns
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.index.key_indexes import KeyIndexes
from litemq.storage.log.checkpoint import CheckpointFile
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.epochs import Epoch, find_epochs, read_epochs
from litemq.storage.log.recovery import find_segments
from litemq.storage.log.repair import Stretch, check_repair, find_stretches, read_stretch, write_repair
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.state.persistence.database import read_applied

__all__ = ["ClosedLog"]


class ClosedLog:
    """The log of a replica's data directory, locked from here to ``close``."""

    def __init__(self, directory: Path, config: StoreConfig, *, disk: Disk = DISK) -> None:
        check_data_directory(directory)
        self._directory = directory
        self._config = config
        self._disk = disk
        self._lock = DirectoryLock(directory)
        try:
            segments = find_segments(disk, directory / "commitlog", config.segment_bytes)
            end = segments[-1].end if segments else 0
            self._log = CommitLog(disk, directory / "commitlog", segments, end, config.segment_bytes, hot_bytes=0)
            self._checkpoints = CheckpointFile(disk, directory / "checkpoint")
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        self._lock.release()

    def stretches(self) -> list[Stretch]:
        """Read the log below its flushed offset, and return the damaged stretches in order."""
        log, flushed = self._log, self._flushed()
        if flushed is not None:
            return find_stretches(log, log.start, flushed)
        # Without a checkpoint, bytes after the last record are not damaged: they are no record.
        return [stretch for stretch in find_stretches(log, log.start, log.end) if stretch.end < log.end]

    def _flushed(self) -> int | None:
        """Return the flushed offset as an opening of the store finds it: ``None`` if unknown."""
        checkpoint = self._checkpoints.latest
        if checkpoint is None:
            return None
        try:
            known = read_applied(self._directory / "state.db")
        except CorruptStoreError:
            known = 0
        return max(min(checkpoint.flushed, self._log.end), known if known <= self._log.end else 0)

    def read_stretch(self, begin: int, end: int) -> bytes:
        """Read the bytes of a stretch that is damaged in another replica. See ``read_stretch``."""
        return read_stretch(self._log, Stretch(begin, end))

    def repair(self, stretch: Stretch, data: bytes) -> None:
        """Replace ``stretch``, which is damaged, by ``data``, the bytes of another replica.

        Raises:
            RecordFormatError: The bytes do not fit the stretch. Nothing was written.
        """
        segment = self._log.segment_of(stretch.begin)
        columns = check_repair(stretch, data, segment.end, self._epochs())
        self._expect_replay(stretch, columns)
        write_repair(self._disk, segment, stretch, data)

    def _epochs(self) -> Sequence[Epoch]:
        try:
            return read_epochs(self._directory / "epochs")
        except (CorruptStoreError, FileNotFoundError):
            return find_epochs(self._log, self._log.start, self._log.end)

    def _expect_replay(self, stretch: Stretch, columns: RecordColumns | None) -> None:
        """Let the next opening add the records of ``stretch`` to the queues and the key index.

        An earlier one may have skipped them. The state and the timers of a replica skip no record.
        """
        latest = self._checkpoints.latest
        if latest is not None and latest.queues_applied > stretch.begin:
            self._checkpoints.write(latest._replace(queues_applied=stretch.begin))
        slots, capacity = self._config.index_slots, self._config.index_entries
        index = KeyIndexes(self._disk, self._directory / "index", slots=slots, capacity=capacity)
        if columns is not None and stretch.begin < index.resume_at and index.lacks(columns, stretch.begin):
            index.rebuild("the key index lacks repaired records")
