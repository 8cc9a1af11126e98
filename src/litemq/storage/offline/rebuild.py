"""Everything that is derived from the log, made anew."""

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
from litemq.storage.offline.directory_reader import check_data_directory, fitting_config
from litemq.storage.state.persistence.database import SIDE_FILES
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID

__all__ = ["Rebuilt", "rebuild_directory"]


class Rebuilt(NamedTuple):
    """What there is now, and what of the log is damaged."""

    log_bytes: int
    topics: int
    queues: int
    messages: int
    damage: list[CorruptStoreError]


def rebuild_directory(
    directory: Path, config: StoreConfig, clock: Clock, *, replayed: Callable[[int, int], None] = lambda _done, _total: None
) -> Rebuilt:
    """Remove queues, key index, timers and state, and make them again from the log. The directory must not be open."""
    check_data_directory(directory)
    config = fitting_config(directory, config)
    LogDirectory(directory, config, clock).close()  # nothing goes unless the log itself can be opened
    lock = DirectoryLock(directory)
    try:
        _forget_projections(directory)
    finally:
        lock.release()
    store = DiskStore(directory, config, clock, replayed=replayed)
    try:
        topics = [facts for facts in store.state.topics.values() if not facts.deleted]
        user = {facts.topic_id for facts in topics if facts.topic_id >= FIRST_FREE_TOPIC_ID}
        ranges = [(store.state.least.get(key, 0), following) for key, following in store.state.next.items() if key.topic_id in user]
        messages = sum(following - least for least, following in ranges) - store.damaged_places
        return Rebuilt(store.log_bytes, len(user), len(ranges), messages, store.damage)
    finally:
        store.close()


def _forget_projections(directory: Path) -> None:
    """First the checkpoint says that nothing is derived yet, then it goes: a stop in between leaves nothing that is believed and not there."""
    if (directory / "checkpoint").exists():
        checkpoints = CheckpointFile(DISK, directory / "checkpoint")
        if checkpoints.latest is not None:
            checkpoints.write(checkpoints.latest._replace(queues_applied=0, index_applied=0, timers_applied=0, state_applied=0))
    for suffix in SIDE_FILES:
        (directory / f"state.db{suffix}").unlink(missing_ok=True)
    for part in ("consumequeue", "index", "timers"):
        shutil.rmtree(directory / part, ignore_errors=True)
