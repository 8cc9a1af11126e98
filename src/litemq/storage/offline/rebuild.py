"""Rebuilds all projections of a data directory from its log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from litemq.clock import Clock
from litemq.errors import CorruptStoreError
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.checkpoint import CheckpointFile
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.offline.directory_reader import adapt_config, check_data_directory
from litemq.storage.state.persistence.database import SIDE_FILES
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID

__all__ = ["Rebuilt", "rebuild_directory"]


class Rebuilt(NamedTuple):
    """The totals of a rebuilt directory, and the damaged records of its log."""

    log_bytes: int
    topics: int
    queues: int
    messages: int
    damage: list[CorruptStoreError]


def rebuild_directory(
    directory: Path,
    config: StoreConfig,
    clock: Clock,
    *,
    on_replayed: Callable[[int, int], None] = lambda _done, _total: None,
) -> Rebuilt:
    """Remove the queues, key index, timers and state, and rebuild them from the log.

    The directory must not be open. Report progress with ``on_replayed(done, total)``, in bytes of
    the log.
    """
    check_data_directory(directory)
    config = adapt_config(directory, config)
    LogDirectory(directory, config, clock).close()  # remove nothing unless the log can be opened
    lock = DirectoryLock(directory)
    try:
        _remove_projections(directory)
    finally:
        lock.release()
    store = DiskStore(directory, config, clock, on_replayed=on_replayed)
    try:
        topics = [facts for facts in store.state.topics.values() if not facts.deleted]
        user = {facts.topic_id for facts in topics if facts.topic_id >= FIRST_FREE_TOPIC_ID}
        ranges = [
            (store.state.start_offsets.get(key, 0), end)
            for key, end in store.state.end_offsets.items()
            if key.topic_id in user
        ]
        messages = sum(end - start for start, end in ranges) - store.damaged_offsets
        return Rebuilt(store.log_bytes, len(user), len(ranges), messages, store.damage)
    finally:
        store.close()


def _remove_projections(directory: Path) -> None:
    """Reset the checkpoint, then remove the projections.

    In this order, a stop in between leaves no checkpoint that claims missing entries.
    """
    if (directory / "checkpoint").exists():
        checkpoints = CheckpointFile(DISK, directory / "checkpoint")
        if checkpoints.latest is not None:
            checkpoints.write(
                checkpoints.latest._replace(queues_applied=0, index_applied=0, timers_applied=0, state_applied=0)
            )
    for suffix in SIDE_FILES:
        (directory / f"state.db{suffix}").unlink(missing_ok=True)
    for part in ("consumequeue", "index", "timers"):
        shutil.rmtree(directory / part, ignore_errors=True)
