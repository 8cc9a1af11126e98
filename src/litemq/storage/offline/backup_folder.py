"""A folder of backups.

::

    TARGET/segments/<start>-<backup>   bytes of the log, from log offset ``start`` on
    TARGET/backups/<time>.json         a backup: which bytes of which segments, and their checksums

Several backups use the same file of a segment, and a later one may use more of it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import DISK, READ_ONLY, OpenFile
from litemq.storage.log.epochs import Epoch
from litemq.storage.log.segment import Segment

__all__ = ["Backup", "BackupFolder", "BackupLog", "BackupSegment", "checksum_of", "read_chunks"]

_CHUNK: Final = 4 << 20
_VERSION: Final = 1
_SEGMENT_FILE: Final = re.compile(r"\d{20}-[\dTZ.-]+")
_LOG = logging.getLogger(__name__)


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


class BackupFolder:
    """Reads and writes the backups of a folder."""

    def __init__(self, path: Path) -> None:
        if not (path / "backups").is_dir():
            raise InvalidArgumentError(f"{path} is not a folder of backups: it has no backups/")
        self.path = path

    @classmethod
    def create(cls, path: Path) -> BackupFolder:
        """Open a folder of backups, or make a new one."""
        if path.exists() and not path.is_dir():
            raise InvalidArgumentError(f"{path} is a file: choose a folder")
        if path.exists() and not (path / "backups").is_dir() and any(path.iterdir()):
            raise InvalidArgumentError(f"{path} is not empty, and has no backups: choose another folder, or a new one")
        for part in ("segments", "backups"):
            DISK.make_directory(path / part)
        return cls(path)

    def segment(self, file: str) -> Path:
        """Return the path of a segment."""
        return self.path / "segments" / file

    def names(self) -> list[str]:
        """Return the names of all backups, oldest first."""
        return sorted(path.stem for path in (self.path / "backups").glob("*.json"))

    def find(self, name: str | None) -> Backup:
        """Return the backup ``name``, or the latest one."""
        names = self.names()
        if not names:
            raise InvalidArgumentError(f"{self.path} has no complete backup")
        if name is not None and name not in names:
            raise InvalidArgumentError(f"{self.path} has no backup {name!r}: choose from {', '.join(names[-10:])}")
        return self._read(name or names[-1])

    def readable(self) -> list[Backup]:
        """Return the backups, oldest first, without those whose description is damaged."""
        backups, damage = self._load()
        for error in damage:
            _LOG.warning("%s. This backup cannot be restored: delete its description", error)
        return backups

    def _load(self) -> tuple[list[Backup], list[CorruptStoreError]]:
        """Read all descriptions; return the backups, and the errors of damaged ones."""
        backups, damage = [], []
        for name in self.names():
            try:
                backups.append(self._read(name))
            except CorruptStoreError as error:
                damage.append(error)
        return backups, damage

    def _read(self, name: str) -> Backup:
        path = self.path / "backups" / f"{name}.json"
        try:
            fields: dict[str, Any] = json.loads(path.read_text())
            if fields.pop("version") != _VERSION:
                raise StorageError(f"{path} was written by a later version of LiteMQ: use that version")
            fields["epochs"] = [Epoch(**each) for each in fields["epochs"]]
            fields["segments"] = [BackupSegment(**each) for each in fields["segments"]]
            return Backup(name, **fields)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptStoreError(str(path), 0, f"not the description of a backup: {error}") from error

    def write(self, backup: Backup) -> None:
        """Add a backup, whose segments are complete."""
        fields = {"version": _VERSION, **backup._asdict()}
        del fields["name"]
        fields["epochs"] = [each._asdict() for each in backup.epochs]
        fields["segments"] = [each._asdict() for each in backup.segments]
        path = self.path / "backups" / f"{backup.name}.json"
        draft = path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        file = DISK.open(draft, create=True)
        file.write(json.dumps(fields, indent=1).encode(), 0)
        file.sync()
        DISK.rename(draft, path)
        DISK.sync_directory(path.parent)

    def prune(self, keep: int | None) -> None:
        """Remove all but the latest ``keep`` backups, and segments that no backup needs."""
        backups, damage = self._load()
        kept = backups if keep is None else backups[-keep:]
        for backup in backups[: len(backups) - len(kept)]:
            DISK.unlink(self.path / "backups" / f"{backup.name}.json")
        DISK.sync_directory(self.path / "backups")
        if damage:
            return  # damaged descriptions may need segments that seem unneeded
        needed = {segment.file for backup in kept for segment in backup.segments}
        for path in (self.path / "segments").iterdir():
            if _SEGMENT_FILE.fullmatch(path.name) and path.name not in needed:
                DISK.unlink(path)

    def damage(self, segment: BackupSegment) -> CorruptStoreError | None:
        """Read a segment; return what is wrong with it."""
        path = self.segment(segment.file)
        try:
            checksum = checksum_of(READ_ONLY.open(path), segment.bytes)
        except FileNotFoundError:
            return CorruptStoreError(str(path), 0, "the file is missing")
        except CorruptStoreError as error:
            return error
        if checksum != segment.crc32c:
            return CorruptStoreError(str(path), 0, f"the checksum of the first {segment.bytes} bytes does not match")
        return None

    def verify(self, on_file_checked: Callable[[Path], None] = lambda _path: None) -> list[CorruptStoreError]:
        """Read all backups; return their damage."""
        backups, found = self._load()
        segments = dict.fromkeys(segment for backup in backups for segment in backup.segments)
        for segment in segments:
            on_file_checked(self.segment(segment.file))
            damage = self.damage(segment)
            if damage is not None:
                found.append(damage)
        return found


class BackupLog:
    """The log of a backup, for ``read_log``."""

    def __init__(self, folder: BackupFolder, backup: Backup) -> None:
        self._segments = {
            each.start: Segment(READ_ONLY.open(folder.segment(each.file)), each.start, backup.segment_bytes)
            for each in backup.segments
        }
        self._size = backup.segment_bytes
        self._end = backup.flushed

    def segment_of(self, offset: int) -> Segment:
        return self._segments[offset // self._size * self._size]

    def read(self, begin: int, end: int) -> bytes:
        return self.segment_of(begin).read(begin, min(end, self._end))


def read_chunks(file: OpenFile, begin: int, end: int, reason: str) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes from ``begin`` to ``end`` in chunks, each with its position.

    Raise ``CorruptStoreError`` with ``reason`` if the file is shorter.
    """
    at = begin
    while at < end:
        data = file.read(min(_CHUNK, end - at), at)
        if not data:
            raise CorruptStoreError(str(file.path), at, reason)
        yield at, data
        at += len(data)


def checksum_of(file: OpenFile, length: int) -> int:
    """Return the checksum of the first ``length`` bytes of a file; raise if it has fewer."""
    checksum = 0
    for _, data in read_chunks(file, 0, length, f"the file has fewer than {length} bytes"):
        checksum = crc32c(data, checksum)
    return checksum
