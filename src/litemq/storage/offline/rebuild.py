"""Rebuilds all projections of a data directory from its log.

The new files are built beside the old ones, which stay as they are until the new ones are complete.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from litemq.clock import Clock
from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK
from litemq.storage.half_copier import HalfCopier
from litemq.storage.maintenance import Maintenance
from litemq.storage.offline.directory_reader import adapt_config, check_data_directory
from litemq.storage.opening import open_parts
from litemq.storage.reading import StoreReader
from litemq.storage.state.persistence.database import SIDE_FILES
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID
from litemq.storage.store_parts import StoreParts
from litemq.storage.writing import StoreWriter

__all__ = ["Rebuilt", "UnacceptedLossError", "rebuild_directory"]

_SCRATCH: Final = ".rebuild"
_FOLDERS: Final = ("consumequeue", "index", "timers")


class Rebuilt(NamedTuple):
    """The totals of a rebuilt directory, and the damaged records of its log."""

    log_bytes: int
    topics: int
    queues: int
    messages: int
    damage: list[CorruptStoreError]


class UnacceptedLossError(StorageError):
    """The log has damaged records that may have changed the state. Nothing was changed."""

    def __init__(self, losses: list[CorruptStoreError]) -> None:
        count = "1 damaged record" if len(losses) == 1 else f"{len(losses)} damaged records"
        super().__init__(f"{count} may have changed the state; the rest can be rebuilt without them")
        self.losses = losses


def rebuild_directory(
    directory: Path,
    config: StoreConfig,
    clock: Clock,
    *,
    accept_loss: bool = False,
    on_replayed: Callable[[int, int], None] = lambda _done, _total: None,
) -> Rebuilt:
    """Build new queues, key index, timers and state from the log, and replace the old ones.

    The directory must not be open. Damaged messages are left out. Raise ``UnacceptedLossError`` if
    another damaged record may have changed the state, unless ``accept_loss``. Report progress with
    ``on_replayed(done, total)``, in bytes of the log.
    """
    check_data_directory(directory)
    scratch = directory / _SCRATCH
    losses: list[CorruptStoreError] = []
    config = adapt_config(directory, config)
    with ExitStack() as cleanup:

        def prepare() -> Path:
            """Make an empty folder. The directory is locked by then."""
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(mode=0o750)
            cleanup.callback(shutil.rmtree, scratch, ignore_errors=True)
            if (directory / "topics.json").exists():
                shutil.copy(directory / "topics.json", scratch)  # it has the broker's name
            return scratch

        parts = open_parts(
            directory,
            config,
            clock,
            disk=DISK,
            host=None,
            broker_name="",
            on_replayed=on_replayed,
            on_loss=losses.append,
            rebuild_in=prepare,
        )
        cleanup.callback(parts.files.abandon)  # unless it is closed
        cleanup.callback(parts.state_writer.close)
        if losses and not accept_loss:
            raise UnacceptedLossError(losses)
        rebuilt = _totals(parts)
        _complete(parts)
        parts.state_writer.close()
        _swap(directory, scratch)
        parts.files.show_projections()
        parts.files.close()
    return rebuilt


def _totals(parts: StoreParts) -> Rebuilt:
    state = parts.state
    user = {topic.topic_id for topic in state.topics.values() if not topic.deleted} - set(range(FIRST_FREE_TOPIC_ID))
    ranges = [(state.start_offsets.get(key, 0), end) for key, end in state.end_offsets.items() if key.topic_id in user]
    holes = sum(key.topic_id in user for key, _ in parts.queues.holes)
    messages = sum(end - start for start, end in ranges) - holes
    return Rebuilt(parts.log.end - parts.log.start, len(user), len(ranges), messages, parts.damage.errors())


def _complete(parts: StoreParts) -> None:
    """Write all projections. With the snapshot, the next opening needs no damaged record."""
    writer, reader = StoreWriter(parts), StoreReader(parts)
    maintenance = Maintenance(parts, writer, reader, HalfCopier(parts, writer, reader))
    maintenance.snapshot()
    maintenance.checkpoint(max_seconds=sys.float_info.max)
    reader.close()


def _swap(directory: Path, scratch: Path) -> None:
    """Replace the old projections.

    The checkpoint promises none of them yet: after a stop in between, the next opening builds those
    that are missing or old.
    """
    for name in _FOLDERS:
        if (directory / name).exists():
            DISK.rename(directory / name, scratch / f"old-{name}")
        DISK.rename(scratch / name, directory / name)
    for suffix in SIDE_FILES:
        (directory / f"state.db{suffix}").unlink(missing_ok=True)
    for name in ("state.db", "topics.json"):
        DISK.rename(scratch / name, directory / name)
    DISK.sync_directory(directory)
