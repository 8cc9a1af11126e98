"""Backups of a data directory: the log up to a flushed offset, copied while a broker writes.

::

    TARGET/segments/<start>-<epoch>    bytes of the log, from log offset ``start`` on
    TARGET/backups/<time>.json         a backup: which bytes of which segments, and their checksums

The log is append-only, so a later backup adds the new bytes to the last segment and otherwise only
new segments. Earlier backups use a shorter part of the same file. If the log took another course in
between, because an older backup was restored, the segments that differ get new files. Everything
else in a data directory is built from the log.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import DISK, READ_ONLY
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.checkpoint import Checkpoint, read_checkpoint
from litemq.storage.log.epochs import Epoch, read_epochs
from litemq.storage.log.reader import read_log
from litemq.storage.log.segment import Segment, segment_path
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.state.persistence.topics_file import read_topics

__all__ = ["BackedUp", "Backup", "BackupSegment", "back_up", "find_backup", "segment_file"]

_CHUNK: Final = 4 << 20
_ATTEMPTS: Final = 5  # retention may remove a segment before it is opened
_VERSION: Final = 1


class BackupSegment(NamedTuple):
    """The first ``bytes`` of a file with the segment that begins at log offset ``start``."""

    file: str
    start: int
    bytes: int
    crc32c: int


class Backup(NamedTuple):
    """One backup: the log from ``log_start`` to ``flushed``."""

    name: str
    broker: str
    created_at: int  # ms
    segment_bytes: int
    log_start: int
    flushed: int
    snapshot: int
    store_timestamp: int
    epochs: list[Epoch]
    segments: list[BackupSegment]


class BackedUp(NamedTuple):
    """The result of ``back_up``."""

    backup: Backup
    copied_bytes: int  # the others were in an earlier backup
    damage: list[CorruptStoreError]  # damaged records among the copied ones


class _SegmentGoneError(Exception):
    """Retention removed a segment before it was opened."""


def segment_file(target: Path, name: str) -> Path:
    """Return the path of a segment in a backup folder."""
    return target / "segments" / name


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
    for part in ("segments", "backups"):
        DISK.make_directory(target / part)
    lock = DirectoryLock(target)
    try:
        for _ in range(_ATTEMPTS):
            try:
                done = _Copier(directory, target, clock, on_copied).run()
            except _SegmentGoneError:
                continue
            if keep is not None:
                _prune(target, keep)
            return done
    finally:
        lock.release()
    raise StorageError(f"retention removed segments of {directory} faster than they were copied: try again")


class _Copier:
    """Copies what the latest backup lacks."""

    def __init__(self, directory: Path, target: Path, clock: Clock, on_copied: Callable[[int, int], None]) -> None:
        self._directory = directory
        self._target = target
        self._clock = clock
        self._on_copied = on_copied
        self._checkpoint = _latest_checkpoint(directory)
        self._epochs = read_epochs(directory / "epochs")
        self._latest = max(_backups(target), key=lambda each: each.name, default=None)
        self._copied = 0

    def run(self) -> BackedUp:
        checkpoint = self._checkpoint
        size, start, end = checkpoint.segment_bytes, checkpoint.log_start, checkpoint.flushed
        common = self._common_end()
        known = {each.start: each for each in self._latest.segments} if self._latest is not None and common else {}
        parts: list[tuple[BackupSegment, int]] = []  # what is there, and the length to reach
        for at in range(start, end, size):
            before = known.get(at)
            if before is None or at + before.bytes > common:
                before = BackupSegment(f"{at:020d}-{self._epochs[-1].number}-{end}", at, 0, 0)
            parts.append((before, min(end, at + size) - at))
        total = sum(length - before.bytes for before, length in parts)
        segments = [self._copy(before, length, total) for before, length in parts]
        DISK.sync_directory(self._target / "segments")
        broker = read_topics(self._directory / "topics.json")
        backup = Backup(
            self._new_name(),
            broker.broker if broker is not None else "",
            self._clock.wall_ms(),
            size,
            start,
            end,
            checkpoint.snapshot,
            checkpoint.store_timestamp,
            self._epochs,
            segments,
        )
        copy = _BackupLog(self._target, backup)
        damage: list[CorruptStoreError] = []
        for _ in read_log(copy, max(start, min(common, end)), end, on_damage=damage.append):
            pass
        _write(self._target, backup)
        return BackedUp(backup, self._copied, damage)

    def _common_end(self) -> int:
        """Return the log offset up to which the latest backup has the same log."""
        latest = self._latest
        if latest is None or latest.segment_bytes != self._checkpoint.segment_bytes:
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

    def _copy(self, before: BackupSegment, length: int, total: int) -> BackupSegment:
        """Add the bytes that ``before`` lacks, up to ``length``."""
        if before.bytes >= length:
            return before
        try:
            source = READ_ONLY.open(segment_path(self._directory / "commitlog", before.start))
        except FileNotFoundError:
            raise _SegmentGoneError from None
        file = DISK.open(segment_file(self._target, before.file), create=True)
        at, checksum = before.bytes, before.crc32c
        while at < length:
            data = source.read(min(_CHUNK, length - at), at)
            if not data:
                raise CorruptStoreError(str(source.path), at, "the file is shorter than what was flushed to it")
            file.write(data, at)
            checksum = crc32c(data, checksum)
            at += len(data)
            self._copied += len(data)
            self._on_copied(self._copied, total)
        file.sync()
        return BackupSegment(before.file, before.start, length, checksum)

    def _new_name(self) -> str:
        """Return the time as a name, later than all others."""
        now = self._clock.wall_ms()
        while True:
            moment = dt.datetime.fromtimestamp(now / 1000, dt.UTC)
            name = f"{moment:%Y%m%dT%H%M%S}.{now % 1000:03d}Z"
            if self._latest is None or name > self._latest.name:
                return name
            now += 1


class _BackupLog:
    """The log of a backup, for ``read_log``."""

    def __init__(self, target: Path, backup: Backup) -> None:
        self._segments = {
            each.start: Segment(READ_ONLY.open(segment_file(target, each.file)), each.start, backup.segment_bytes)
            for each in backup.segments
        }
        self._size = backup.segment_bytes
        self._end = backup.flushed

    def segment_of(self, offset: int) -> Segment:
        return self._segments[offset // self._size * self._size]

    def read(self, begin: int, end: int) -> bytes:
        return self.segment_of(begin).read(begin, min(end, self._end))


def _latest_checkpoint(directory: Path) -> Checkpoint:
    try:
        checkpoint = read_checkpoint(directory / "checkpoint")
    except FileNotFoundError:
        checkpoint = None
    if checkpoint is None or not checkpoint.segment_bytes:
        raise CorruptStoreError(str(directory / "checkpoint"), 0, "there is no valid checkpoint: start a broker first")
    return checkpoint


def _backups(target: Path) -> Iterator[Backup]:
    for path in sorted((target / "backups").glob("*.json")):
        yield _read(path)


def _read(path: Path) -> Backup:
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        if fields.pop("version") != _VERSION:
            raise StorageError(f"{path} was written by a later version of LiteMQ: use that version")
        fields["epochs"] = [Epoch(**each) for each in fields["epochs"]]
        fields["segments"] = [BackupSegment(**each) for each in fields["segments"]]
        return Backup(path.stem, **fields)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStoreError(str(path), 0, f"not the description of a backup: {error}") from error


def _write(target: Path, backup: Backup) -> None:
    fields = {"version": _VERSION, **backup._asdict()}
    del fields["name"]
    fields["epochs"] = [each._asdict() for each in backup.epochs]
    fields["segments"] = [each._asdict() for each in backup.segments]
    path = target / "backups" / f"{backup.name}.json"
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    file = DISK.open(draft, create=True)
    file.write(json.dumps(fields, indent=1).encode(), 0)
    file.sync()
    DISK.rename(draft, path)
    DISK.sync_directory(path.parent)


def _prune(target: Path, keep: int) -> None:
    """Remove all but the latest ``keep`` backups, and the segments that only they need."""
    backups = sorted(_backups(target), key=lambda each: each.name)
    gone, kept = backups[:-keep], backups[-keep:]
    for backup in gone:
        DISK.unlink(target / "backups" / f"{backup.name}.json")
    DISK.sync_directory(target / "backups")
    needed = {segment.file for backup in kept for segment in backup.segments}
    for path in (target / "segments").iterdir():
        if path.name not in needed:
            DISK.unlink(path)


def find_backup(target: Path, name: str | None) -> Backup:
    """Return the backup ``name`` of a backup folder, or its latest one."""
    if not (target / "backups").is_dir():
        raise InvalidArgumentError(f"{target} is not a folder of backups: it has no backups/")
    names = sorted(path.stem for path in (target / "backups").glob("*.json"))
    if not names:
        raise InvalidArgumentError(f"{target} has no complete backup")
    if name is not None and name not in names:
        raise InvalidArgumentError(f"{target} has no backup {name!r}: choose from {', '.join(names[-10:])}")
    return _read(target / "backups" / f"{name or names[-1]}.json")
