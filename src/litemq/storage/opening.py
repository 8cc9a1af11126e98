"""Opens a store: recovers the log, loads the state, replays the log into the projections."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from litemq.clock import Clock
from litemq.errors import CorruptStoreError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import Disk
from litemq.storage.index.finder import Finder
from litemq.storage.index.key_indexes import KeyIndexes
from litemq.storage.log.damage import log_offset_of
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.log.reader import Window, read_log
from litemq.storage.log.records import read_checked, read_stamp
from litemq.storage.projections.damaged_records import apply_damaged, describe_damage, is_hole, restore_topics
from litemq.storage.projections.replay import (
    QueueReplay,
    find_snapshots,
    read_snapshot,
    replay_into_queues,
    replay_into_state,
    replay_into_timers,
)
from litemq.storage.queues.queue_reader import QueueReader
from litemq.storage.state import QueueKey, State
from litemq.storage.state.persistence.database import StoredState, read_applied
from litemq.storage.state.persistence.state_writer import StateWriter
from litemq.storage.store_parts import WRITE_BEHIND_S, StoreParts, open_buckets, open_queues
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.timer_store import TimerStore

__all__ = ["OnLoss", "open_parts", "refuse_loss"]

_REPLAY_BATCH_BYTES: Final = 1 << 30  # bytes of log whose queue entries are held in memory
_STATE_BATCH_BYTES: Final = 4 << 20  # bytes of log whose changes of the state are held in memory
_LOG = logging.getLogger(__name__)

OnLoss = Callable[[CorruptStoreError], None]


def refuse_loss(error: CorruptStoreError) -> None:
    """Raise: without this record, the state may be wrong."""
    raise CorruptStoreError(
        error.path, error.offset, f"{error.reason}; to open the store without it, use `litemq store rebuild`"
    )


def open_parts(
    directory: Path,
    config: StoreConfig,
    clock: Clock,
    *,
    disk: Disk,
    host: str | None,
    broker_name: str,
    on_replayed: Callable[[int, int], None],
    on_loss: OnLoss = refuse_loss,
    rebuild_in: Callable[[], Path] | None = None,
    is_replica: bool = False,
) -> StoreParts:
    """Open a data directory, and bring every projection but the key index up to the log's end.

    Report progress with ``on_replayed(done, total)``, in bytes of the log. Call ``on_loss(error)``
    for each damaged record that may have changed the state; if it does not raise, the record is
    skipped. ``rebuild_in`` makes an empty folder for new projections, and leaves those of the
    directory alone. If opening fails, the directory is released as after a crash. The store of a
    replica begins no epoch. Its state and its timers skip no damaged record: it does not open.
    """
    files = LogDirectory(
        directory,
        config,
        clock,
        disk=disk,
        host=host,
        flushed_at_least=_stored_offset,
        is_replica=is_replica,
        group=broker_name,
    )
    log_directory = directory
    with ExitStack() as undo:
        undo.callback(files.abandon)
        if rebuild_in is not None:
            files.hide_projections()
            directory = rebuild_in()
        disk.make_directory(directory / "consumequeue")
        state_writer = StateWriter(disk, directory, clock, broker_name=broker_name)
        undo.callback(state_writer.close)
        state, as_of, rebuild = _load_state(files, state_writer.stored, log_directory)
        changes = state_writer.follow(state, as_of, rebuild=rebuild)
        log, confirmation = files.log, files.confirmation
        queues = open_queues(disk, directory, state)
        queue_reader = QueueReader(log, queues, directory / "consumequeue")
        finder = Finder(
            log,
            KeyIndexes(disk, directory / "index", slots=config.index_slots, capacity=config.index_entries),
            state,
            clock,
            lambda log_offset: read_checked(log, log_offset, confirmation.offset)[1],
            written_from=files.epoch.start_offset,
        )
        timers, timers_applied = _open_timers(files, open_buckets(disk, directory))
        parts = StoreParts(
            directory=directory,
            config=config,
            clock=clock,
            disk=disk,
            files=files,
            state=state,
            state_writer=state_writer,
            changes=changes,
            queues=queues,
            queue_reader=queue_reader,
            finder=finder,
            timers=timers,
            follows=is_replica,
        )
        _replay(parts, as_of, files.projections.queues_applied, timers_applied, on_replayed, on_loss)
        undo.pop_all()
    return parts


def _load_state(files: LogDirectory, stored: StoredState | None, directory: Path) -> tuple[State, int, bool]:
    """Load the latest stored state.

    Return it with the log offset from which on to apply records to it, and whether ``state.db``
    must be rebuilt.
    """
    log = files.log
    if stored is not None and log.start <= stored.applied <= log.end:
        return State.from_rows(stored.rows), stored.applied, False
    begin = files.projections.snapshot
    if begin >= 0:
        try:
            return *read_snapshot(log, begin, log.end), True
        except CorruptStoreError as error:
            _LOG.warning("%s; searching the log for another snapshot", error)
    elif log.start == 0:
        return State(), 0, True
    for begin in find_snapshots(log, log.start, log.end):
        try:
            state, as_of = read_snapshot(log, begin, log.end)
        except CorruptStoreError as error:
            _LOG.warning("%s; searching the log for another snapshot", error)
        else:
            files.projections = files.projections._replace(snapshot=begin)
            return state, as_of, True
    if log.start == 0:
        return State(), 0, True
    reason = "the beginning of the log is missing, and the log has no snapshot"
    raise CorruptStoreError(str(directory / "checkpoint"), 0, reason)


def _stored_offset(directory: Path) -> int:
    """Return the log offset that ``state.db`` has reached: everything below it was flushed."""
    try:
        return read_applied(directory / "state.db")
    except CorruptStoreError:
        return 0  # it is replaced later


def _open_timers(files: LogDirectory, buckets: BucketFiles) -> tuple[TimerStore, int]:
    """Open the timers; return them with the log offset from which to replay the log into them."""
    log = files.log
    if buckets.applied is not None:
        applied = max(buckets.applied, files.projections.timers_applied)
        if log.start <= applied <= log.end:
            return TimerStore(buckets), applied
        buckets.clear()
    return TimerStore(buckets), log.start


def _replay(
    parts: StoreParts,
    as_of: int,
    queues_applied: int,
    timers_applied: int,
    on_replayed: Callable[[int, int], None],
    on_loss: OnLoss,
) -> None:
    """Replay the log into the state, the queues and the timers, each from its own log offset.

    The state needs the records from ``as_of`` on. If the queues need the whole log, replay it into
    the key index, too.
    """
    log, state, queues, timers = parts.log, parts.state, parts.queues, parts.timers
    whole = queues_applied <= log.start
    queue_replay = QueueReplay(queues, state, log.start, whole=whole)
    lost: list[CorruptStoreError] = []

    def on_damage(error: CorruptStoreError) -> None:
        offset = log_offset_of(error)
        stamp = read_stamp(log, offset)
        damage = describe_damage(error, stamp, state)
        if parts.is_replica and offset >= min(as_of, timers_applied):
            reason = f"{damage.reason}; repair the log with the bytes of another replica"
            raise CorruptStoreError(error.path, error.offset, reason)
        if offset >= as_of:
            if not is_hole(stamp):
                on_loss(damage)
                lost.append(damage)
            if stamp is not None:
                apply_damaged(stamp, state, parts.changes)
        if stamp is not None and offset >= queues_applied:
            queue_replay.add_hole(QueueKey(stamp.topic_id, stamp.queue_id), stamp.queue_offset, offset)
        parts.damage.add(damage)

    begin = written = committed = max(min(as_of, queues_applied, timers_applied), log.start)
    for window in read_log(log, begin, log.end, on_damage=on_damage):
        offsets = window.columns.starts + window.base
        is_whole = int(offsets[0]) >= as_of
        new = window.columns if is_whole else window.columns.subset(np.flatnonzero(offsets >= as_of))
        if len(new):
            if lost:
                restore_topics(Window(window.base, new), state, parts.changes)
            replay_into_state(Window(window.base, new), state, parts.changes)
        replay_into_queues(window, queues_applied, queue_replay)
        replay_into_timers(window, timers_applied, timers)
        end = window.base + int(window.columns.starts[-1] + window.columns.sizes[-1])
        confirmed = min(end, parts.confirmation.offset)  # without replicas: everything, recovery has synced it
        if whole and end == confirmed:
            parts.finder.add(window, end)
        if end - written >= _REPLAY_BATCH_BYTES:
            written = end
            queues.write_behind(confirmed, WRITE_BEHIND_S)
            timers.write_behind(confirmed)
        if end - committed >= _STATE_BATCH_BYTES:
            committed = end
            parts.state_writer.commit(confirmed)
        on_replayed(end - begin, log.end - begin)
    queue_replay.finish()
    timers.load_moved(state.parts.moved_timers, timers_applied)
