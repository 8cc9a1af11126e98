"""Backups of a data directory: the log up to a flushed offset, copied while a broker writes.

The log is append-only, so a later backup adds the new bytes to the last segment and otherwise only
new segments. Earlier backups use a shorter part of the same file. Everything else in a data
directory is built from the log.

Before it is continued, the latest backup is compared with the log. The log may have taken another
course since, because an older backup was restored, or it may be another log. Then the segments that
differ get new files. So do segments whose files in the folder are damaged.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import DISK, READ_ONLY, OpenFile
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.checkpoint import Checkpoint, read_checkpoint
from litemq.storage.log.epochs import Epoch, read_epochs
from litemq.storage.log.reader import read_log
from litemq.storage.log.segment import segment_path
from litemq.storage.offline.backup_folder import (
    Backup,
    BackupFolder,
    BackupLog,
    BackupSegment,
    checksum_of,
    read_chunks,
)
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.state.persistence.topics_file import read_topics

__all__ = ["BackedUp", "back_up"]

_HEAD: Final = 64 << 10  # compared of each segment: store times and ids differ between two logs
_ATTEMPTS: Final = 5  # retention may remove a segment before it is opened


class BackedUp(NamedTuple):
    """The result of ``back_up``."""

    backup: Backup
    copied_bytes: int  # the others were in an earlier backup
    damage: list[CorruptStoreError]  # damaged records among the copied ones
    replaced: list[CorruptStoreError]  # damaged files of earlier backups, whose bytes were copied again


class _SegmentGoneError(Exception):
    """Retention removed a segment before it was opened."""


def back_up(
    directory: Path,
    target: Path,
    clock: Clock,
    *,
    keep: int | None = None,
    on_copied: Callable[[int, int], None] = lambda _done, _total: None,
) -> BackedUp:
    """Back up ``directory``, which a broker may have open, to the folder ``target``.

    Keep the latest ``keep`` backups, or all. Report progress with ``on_copied(done, total)``, in
    bytes.
    """
    check_data_directory(directory)
    if directory.resolve() == target.resolve() or directory.resolve() in target.resolve().parents:
        raise InvalidArgumentError(f"{target} is inside {directory}: choose a folder on another disk")
    folder = BackupFolder.create(target)
    lock = DirectoryLock(target)
    try:
        folder.prune(None)  # what an interrupted backup has left
        for _ in range(_ATTEMPTS):
            try:
                done = _Copier(directory, folder, clock, on_copied).run()
            except _SegmentGoneError:
                continue
            if keep is not None:
                folder.prune(keep)
            return done
    finally:
        lock.release()
    raise StorageError(f"retention removed segments of {directory} faster than they were copied: try again")


class _Copier:
    """Copies what the latest backup lacks."""

    def __init__(
        self, directory: Path, folder: BackupFolder, clock: Clock, on_copied: Callable[[int, int], None]
    ) -> None:
        self._directory = directory
        self._folder = folder
        self._clock = clock
        self._on_copied = on_copied
        self._checkpoint = _latest_checkpoint(directory)
        self._epochs = _epochs(directory)
        topics = read_topics(directory / "topics.json")
        self._broker = topics.broker if topics is not None else ""
        self._latest = max(folder.readable(), key=lambda each: each.name, default=None)
        self._name = self._new_name()
        self._replaced: list[CorruptStoreError] = []
        self._copied = 0

    def run(self) -> BackedUp:
        checkpoint = self._checkpoint
        size, start, end = checkpoint.segment_bytes, checkpoint.log_start, checkpoint.flushed
        known = self._continued()
        parts: list[tuple[BackupSegment, int]] = []  # what is there, and the length to reach
        for at in range(start, end, size):
            before = known.get(at) or BackupSegment(f"{at:020d}-{self._name}", at, 0, 0)
            parts.append((before, min(end, at + size) - at))
        total = sum(length - before.bytes for before, length in parts)
        segments = [self._copy(before, length, total) for before, length in parts]
        DISK.sync_directory(self._folder.path / "segments")
        backup = Backup(
            self._name,
            self._broker,
            self._clock.wall_ms(),
            size,
            start,
            end,
            checkpoint.snapshot,
            checkpoint.store_timestamp,
            self._epochs,
            segments,
        )
        damage: list[CorruptStoreError] = []
        new = next((before.start + before.bytes for before, length in parts if before.bytes < length), end)
        for _ in read_log(BackupLog(self._folder, backup), new, end, on_damage=damage.append):
            pass
        self._folder.write(backup)
        return BackedUp(backup, self._copied, damage, self._replaced)

    # What the latest backup has -------------------------------------------------------------------

    def _continued(self) -> dict[int, BackupSegment]:
        """Return the segments of the latest backup that have the bytes of the log, by start."""
        latest, start = self._latest, self._checkpoint.log_start
        if latest is None:
            return {}
        if latest.broker != self._broker:
            raise InvalidArgumentError(
                f"{self._folder.path} has backups of broker {latest.broker!r}, and {self._directory} belongs to "
                f"{self._broker!r}: use one folder for each broker"
            )
        common = self._common_end(latest)
        same: list[BackupSegment] = []
        for segment in latest.segments:
            if segment.start < start or segment.start + segment.bytes > common:
                continue
            if not self._has_same_head(segment):
                damage = self._folder.damage(segment)
                if damage is None:
                    break  # the log took another course before this segment
                self._replaced.append(damage)
                continue
            same.append(segment)
        # The heads show that the logs are the same up to the last of these segments.
        if same and not self._is_same(same[-1]):
            same.pop()
        return {segment.start: segment for segment in same}

    def _common_end(self, latest: Backup) -> int:
        """Return the log offset up to which both logs have the same epochs."""
        if latest.segment_bytes != self._checkpoint.segment_bytes:
            return 0
        same = 0
        for ours, theirs in zip(self._epochs, latest.epochs, strict=False):
            if ours != theirs:
                break
            same += 1
        if not same:
            return 0
        later = [epochs[same].start_offset for epochs in (self._epochs, latest.epochs) if len(epochs) > same]
        return min([latest.flushed, *later])

    def _has_same_head(self, segment: BackupSegment) -> bool:
        """Compare the first bytes of a segment, and the length of its file."""
        try:
            file = READ_ONLY.open(self._folder.segment(segment.file))
        except FileNotFoundError:
            return False
        length = min(_HEAD, segment.bytes)
        return file.size >= segment.bytes and file.read(length, 0) == self._source(segment).read(length, 0)

    def _is_same(self, segment: BackupSegment) -> bool:
        """Compare all bytes of a segment, in the folder and in the log."""
        damage = self._folder.damage(segment)
        if damage is not None:
            self._replaced.append(damage)
            return False
        return checksum_of(self._source(segment), segment.bytes) == segment.crc32c

    # ----------------------------------------------------------------------------------------------

    def _source(self, segment: BackupSegment) -> OpenFile:
        try:
            return READ_ONLY.open(segment_path(self._directory / "commitlog", segment.start))
        except FileNotFoundError:
            raise _SegmentGoneError from None

    def _copy(self, before: BackupSegment, length: int, total: int) -> BackupSegment:
        """Add the bytes that ``before`` lacks, up to ``length``."""
        if before.bytes >= length:
            return before
        source = self._source(before)
        file = DISK.open(self._folder.segment(before.file), create=True)
        checksum = before.crc32c
        for at, data in read_chunks(source, before.bytes, length, "the file is shorter than what was flushed to it"):
            file.write(data, at)
            checksum = crc32c(data, checksum)
            self._copied += len(data)
            self._on_copied(self._copied, total)
        file.sync()
        return BackupSegment(before.file, before.start, length, checksum)

    def _new_name(self) -> str:
        """Return the time as a name, later than all others."""
        now = self._clock.wall_ms()
        latest = max(self._folder.names(), default="")
        while True:
            moment = dt.datetime.fromtimestamp(now / 1000, dt.UTC)
            name = f"{moment:%Y%m%dT%H%M%S}.{now % 1000:03d}Z"
            if name > latest:
                return name
            now += 1


def _latest_checkpoint(directory: Path) -> Checkpoint:
    try:
        checkpoint = read_checkpoint(directory / "checkpoint")
    except FileNotFoundError:
        checkpoint = None
    if checkpoint is None or not checkpoint.segment_bytes:
        raise CorruptStoreError(str(directory / "checkpoint"), 0, "there is no valid checkpoint: start a broker first")
    return checkpoint


def _epochs(directory: Path) -> list[Epoch]:
    path = directory / "epochs"
    try:
        epochs = read_epochs(path)
    except FileNotFoundError:
        epochs = []
    if not epochs:
        raise CorruptStoreError(str(path), 0, "there is no valid epoch: start the broker again, which begins one")
    return epochs
