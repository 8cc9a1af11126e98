"""Restores a data directory from a backup, and builds its projections from the log."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.crc import crc32c
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK, READ_ONLY
from litemq.storage.log.checkpoint import Checkpoint, CheckpointFile
from litemq.storage.log.epochs import EpochFile
from litemq.storage.log.segment import Segment
from litemq.storage.offline.backup_folder import Backup, BackupFolder, BackupSegment, read_chunks
from litemq.storage.offline.rebuild import Rebuilt, rebuild_directory
from litemq.storage.state.persistence.topics_file import TopicList, write_topics

__all__ = ["restore"]

_LOG = logging.getLogger(__name__)


def restore(
    target: Path,
    directory: Path,
    clock: Clock,
    *,
    name: str | None = None,
    accept_loss: bool = False,
    on_restored: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[Backup, Rebuilt]:
    """Restore the backup ``name`` of the folder ``target``, or the latest one, to ``directory``.

    The directory must not exist, or be empty. It appears when it is complete. For ``accept_loss``,
    see ``rebuild_directory``. Report progress with ``on_restored(done, total)``, in bytes.
    """
    folder = BackupFolder(target)
    backup = folder.find(name)
    if target.resolve() in directory.resolve().parents:
        raise InvalidArgumentError(f"{directory} is inside the folder of backups: choose another directory")
    if directory.exists() and not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is a file: choose a new directory")
    if directory.exists() and any(directory.iterdir()):
        raise InvalidArgumentError(f"{directory} exists and is not empty: choose a new directory")
    draft = directory.with_name(f".{directory.name}.restoring")
    shutil.rmtree(draft, ignore_errors=True)
    DISK.make_directory(draft / "commitlog")
    try:
        done = 0
        for segment in backup.segments:
            _restore_segment(folder, segment, draft / "commitlog", backup.segment_bytes)
            done += segment.bytes
            on_restored(done, backup.flushed - backup.log_start)
        _write_facts(backup, draft, clock)
        rebuilt = rebuild_directory(draft, StoreConfig(), clock, accept_loss=accept_loss)
        if directory.exists():
            directory.rmdir()
        DISK.rename(draft, directory)
        DISK.sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return backup, rebuilt


def _restore_segment(folder: BackupFolder, segment: BackupSegment, commitlog: Path, segment_bytes: int) -> None:
    """Copy a segment. Its records have checksums of their own: the rebuild finds damaged ones."""
    path = folder.segment(segment.file)
    try:
        source = READ_ONLY.open(path)
    except FileNotFoundError:
        raise CorruptStoreError(str(path), 0, "the file is missing: restore an earlier backup") from None
    restored = Segment.create(DISK, commitlog, segment.start, segment_bytes)
    checksum = 0
    reason = f"the file has fewer than {segment.bytes} bytes: restore an earlier backup"
    for at, data in read_chunks(source, 0, segment.bytes, reason):
        restored.write(data, segment.start + at)
        checksum = crc32c(data, checksum)
    if checksum != segment.crc32c:
        _LOG.warning("%s: the checksum of the backup does not match: its records are checked one by one", path)
    restored.file.sync()


def _write_facts(backup: Backup, directory: Path, clock: Clock) -> None:
    """Write the files that are not built from the log."""
    epochs = EpochFile(DISK, directory / "epochs")
    for epoch in backup.epochs:
        epochs.begin(epoch.start_offset, epoch.host, at_least=epoch.number)
    write_topics(DISK, directory / "topics.json", TopicList(backup.broker, {}))
    CheckpointFile(DISK, directory / "checkpoint").write(
        Checkpoint(
            flushed=backup.flushed,
            confirmed=backup.flushed,
            snapshot=backup.snapshot,
            epoch=backup.epochs[-1].number if backup.epochs else 0,
            store_timestamp=backup.store_timestamp,
            written_at=clock.wall_ms(),
            log_start=backup.log_start,
            segment_bytes=backup.segment_bytes,
        )
    )
