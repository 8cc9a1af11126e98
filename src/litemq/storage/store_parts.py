"""The parts of an open store, shared by its reader, its writer and its maintenance."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq.clock import Clock
from litemq.errors import BacklogFullError, DiskFullError, NotMasterError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import Disk
from litemq.storage.full_disk import FullDisk
from litemq.storage.index.finder import Finder
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.confirmation import Confirmation, GroupConfirmation
from litemq.storage.log.damage import DamageLog
from litemq.storage.log.flush import Flusher
from litemq.storage.log.log_clock import LogClock
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.log.segment import Segment
from litemq.storage.log_marks import LogMarks
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.queues.queue_reader import QueueReader
from litemq.storage.queues.queues import Queues
from litemq.storage.state import State
from litemq.storage.state.persistence.changes import Changes
from litemq.storage.state.persistence.state_writer import StateWriter
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.timer_store import TimerStore

__all__ = ["WRITE_BEHIND_S", "StoreParts", "open_buckets", "open_queues"]

# Seconds per checkpoint spent on queue files. Writing 100,000 queues takes several checkpoints;
# meanwhile their entries are in memory and in the log.
WRITE_BEHIND_S: Final = 0.3


@dataclass(slots=True, eq=False)
class StoreParts:
    """The files and projections of an open store, its locks and its flags.

    Lock order: take ``maintaining`` before ``writing``. A thread that holds ``maintaining`` may
    write projections. A thread that holds ``writing`` may append. No thread that holds either waits
    for a confirmation: a slow sync would then stop all other work. If the files of ``queues`` or
    ``timers`` are damaged, the repair replaces the attribute under both locks.
    """

    directory: Path
    config: StoreConfig
    clock: Clock
    disk: Disk
    files: LogDirectory
    state: State
    state_writer: StateWriter
    changes: Changes
    queues: Queues
    queue_reader: QueueReader
    finder: Finder
    timers: TimerStore
    damage: DamageLog = field(default_factory=DamageLog)
    marks: LogMarks = field(default_factory=LogMarks)
    full_disk: FullDisk | None = None  # while it is nearly full, and messages of producers are refused
    unread_refusal: str | None = None  # the same while unread messages fill the log
    wake_maintenance: Callable[[], None] | None = None  # while it rests
    on_appended: Callable[[], object] | None = None  # called by the writer, for those who ship the log
    is_closed: bool = False  # changed under ``maintaining``
    follows: bool = False  # a master's records are appended, and none of its own; changed under ``writing``
    kept_from: int = 0  # a log offset: retention drops all records before it; changed under ``writing``
    maintaining: threading.RLock = field(init=False)
    writing: threading.RLock = field(init=False)
    log: CommitLog = field(init=False)
    flusher: Flusher = field(init=False)
    confirmation: Confirmation = field(init=False)
    log_clock: LogClock = field(init=False)

    @property
    def is_replica(self) -> bool:
        """Whether the store belongs to a replicated group, which decides what is confirmed."""
        return isinstance(self.confirmation, GroupConfirmation)

    @property
    def disk_refusal(self) -> str | None:
        """Why producers are refused while the disk is nearly full."""
        disk = self.full_disk
        return disk.describe(is_replica=self.is_replica, follows=self.follows) if disk is not None else None

    @property
    def applied_offset(self) -> int:
        """The confirm offset. Every record before it is in the projections in memory.

        A record may be confirmed before its writer has applied it, so this waits for the writer.
        """
        with self.writing:
            return self.confirmation.offset

    def check_accepts(self) -> None:
        """Raise if messages of producers are refused.

        Raises:
            DiskFullError: The disk is nearly full.
            BacklogFullError: Unread messages fill the log, and ``keep_unread`` is set.
        """
        refusal = self.disk_refusal
        if refusal is not None:
            raise DiskFullError(refusal)
        if self.unread_refusal is not None:
            raise BacklogFullError(self.unread_refusal)

    def check_writes(self) -> None:
        """Raise ``NotMasterError`` if this store follows a master."""
        if self.follows:
            raise NotMasterError("this broker is not the master of its group: nothing was written")

    def on_written(self, segments: list[Segment], *, is_wanted: bool = False) -> None:
        """Let the flusher and the maintenance follow what was written to ``segments``."""
        self.flusher.mark_dirty(segments, is_wanted=is_wanted)
        wake = self.wake_maintenance
        if wake is not None:
            self.wake_maintenance = None
            wake()
        if self.on_appended is not None:
            self.on_appended()

    def __post_init__(self) -> None:
        files = self.files
        self.log, self.flusher, self.confirmation = files.log, files.flusher, files.confirmation
        self.maintaining, self.writing = threading.RLock(), threading.RLock()
        self.log_clock = LogClock(self.clock, lambda: files.store_timestamp)


def open_queues(disk: Disk, directory: Path, state: State) -> Queues:
    """Open the consume queues of a data directory."""
    return Queues(QueueFiles(disk, directory / "consumequeue"), state)


def open_buckets(disk: Disk, directory: Path) -> BucketFiles:
    """Open the timers' bucket files of a data directory."""
    return BucketFiles(disk, directory / "timers")
