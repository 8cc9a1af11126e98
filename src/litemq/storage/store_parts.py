"""The parts of an open store, as its reader, its writer and its maintenance share them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq.clock import Clock
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import Disk
from litemq.storage.index.finder import Finder
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.damage import DamageLog
from litemq.storage.log.flush import Flusher
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.queues.queue_reader import QueueReader
from litemq.storage.queues.queues import Queues
from litemq.storage.state import State
from litemq.storage.state.persistence.changes import Changes
from litemq.storage.state.persistence.state_writer import StateKeeper
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.timer_store import HeldTimers

__all__ = ["WRITE_BEHIND_S", "StoreParts", "open_buckets", "open_queues"]

# Of each second. A hundred thousand queues take some seconds; meanwhile the log has their entries.
WRITE_BEHIND_S: Final = 0.3


@dataclass(slots=True, eq=False)
class StoreParts:
    """The files and projections of an open store, its locks and its flags.

    Take ``keeping`` before ``writing``, never the other way. A thread that holds ``keeping`` may
    write projections; a thread that holds ``writing`` may append. ``queues`` and ``timers`` are
    replaced, under both locks, when their files are damaged.
    """

    directory: Path
    config: StoreConfig
    clock: Clock
    disk: Disk
    files: LogDirectory
    state: State
    state_keeper: StateKeeper
    changes: Changes
    queues: Queues
    queue_reader: QueueReader
    finder: Finder
    timers: HeldTimers
    damage: DamageLog = field(default_factory=DamageLog)
    keeping: threading.RLock = field(default_factory=threading.RLock)
    writing: threading.RLock = field(default_factory=threading.RLock)
    refused: str | None = None  # why the store refuses producers: its disk is nearly full
    is_closed: bool = False  # changed under ``keeping``
    log: CommitLog = field(init=False)
    flusher: Flusher = field(init=False)

    def __post_init__(self) -> None:
        self.log, self.flusher = self.files.log, self.files.flusher


def open_queues(disk: Disk, directory: Path, state: State) -> Queues:
    """Open the consume queues of a data directory."""
    return Queues(QueueFiles(disk, directory / "consumequeue"), state)


def open_buckets(disk: Disk, directory: Path) -> BucketFiles:
    """Open the timers' bucket files of a data directory."""
    return BucketFiles(disk, directory / "timers")
