"""Replicas for tests: a follower that got the log of another store in pieces."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from litemq.clock import Clock
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import Disk
from litemq.storage.log.chunks import read_chunk
from litemq.storage.log.repair import Stretch
from litemq.storage.log_copy import LogCopy
from litemq.storage.offline.repair_log import ClosedLog
from litemq.storage.replica_store import ReplicaStore
from litemq.storage.state import QueueKey
from litemq.types import StoredRecord
from support.quick_disk import QuickDisk
from support.stores import rows_of
from support.waiting import HANG_S

__all__ = [
    "assert_follower_agrees",
    "assert_same",
    "confirm_all",
    "copy_log",
    "open_replica",
    "repair_closed",
    "ship",
]

_FOREVER = 1 << 60
_ALL = 1 << 20
_MOST_FOUND = 1000


def open_replica(folder: Path, config: StoreConfig, clock: Clock, disk: Disk | None = None) -> ReplicaStore:
    return ReplicaStore(folder, config, clock, disk=disk or QuickDisk(), host=folder.name)


def ship(source: DiskStore, target: ReplicaStore, max_bytes: int, chunks: int = _ALL) -> int:
    """Append up to ``chunks`` pieces of the source's log to ``target``; return their number."""
    files = source._parts.files
    for number in range(chunks):
        if isinstance(source, ReplicaStore):
            begin, data = source.read_chunk(target.log_end, max_bytes)
        else:
            begin, data = read_chunk(files.log, files.recorded_epochs(), target.log_end, max_bytes)
        if not data:
            return number
        target.append_raw(begin, data)
    return chunks


def copy_log(source: DiskStore, copy: LogCopy, max_bytes: int, chunks: int = _ALL) -> int:
    """Copy up to ``chunks`` pieces of the source's confirmed log; return their number."""
    files = source._parts.files
    for number in range(chunks):
        before = copy.end
        begin, data = read_chunk(files.log, files.recorded_epochs(), before, max_bytes)
        if not data or copy.append(begin, data, source.confirm_offset) == before:
            return number
    return chunks


def repair_closed(log: ClosedLog, fetch: Callable[[int, int], bytes]) -> list[Stretch]:
    """Repair each stretch with ``fetch(begin, end)``, close the log; return the stretches."""
    try:
        stretches = log.stretches()
        for stretch in stretches:
            log.repair(stretch, fetch(*stretch))
        return stretches
    finally:
        log.close()


def confirm_all(store: ReplicaStore) -> None:
    """Wait until everything is flushed, and confirm it."""
    store._flusher.wait(store.log_end, HANG_S)
    store.confirmation.advance(store.log_end)


def assert_same(one: DiskStore, other: DiskStore) -> None:
    """Check that two stores with the same log have the same projections, all confirmed.

    ``find`` is compared for some messages of each queue, by their ids and keys.
    """
    assert one.log_end == other.log_end
    assert rows_of(one) == rows_of(other)
    for key, end in one.state.end_offsets.items():
        start = one.state.start_offsets.get(key, 0)
        assert _entries(one, key, start, end) == _entries(other, key, start, end)
        for offset in sorted({start, (start + end) // 2, end - 1} & set(range(start, end))):
            assert _found(one, key, offset) == _found(other, key, offset)
    assert one.timers_after((-1, -1), _FOREVER, _ALL) == other.timers_after((-1, -1), _FOREVER, _ALL)


def _entries(store: DiskStore, key: QueueKey, start: int, end: int) -> list[object]:
    found: list[object] = []
    while start < end:
        entries = store.read_entries(key, start, end - start)
        assert entries.size, f"{key} has no entry at {start}"
        found += entries.tolist()
        start += entries.size
    return found


def _found(store: DiskStore, key: QueueKey, offset: int) -> list[list[StoredRecord]]:
    """Find a message of a queue by its id, and by each of its keys."""
    (log_offset,) = store.read_entries(key, offset, 1)["log_offset"].tolist()
    record = store.read_record(log_offset).record
    return [store.find(record.topic, word, _MOST_FOUND) for word in (record.message_id, *record.keys)]


def assert_follower_agrees(store: DiskStore, seed: int = 0) -> None:
    """Let a follower get the log of ``store`` in pieces, and compare the two.

    If retention has dropped the beginning, the follower begins with a copy of the log.
    """
    store.wait_confirmed(store.log_end, HANG_S)
    config, clock = store._parts.config, store._parts.clock
    folder = store._parts.directory.with_name(f"{store._parts.directory.name}-follower")
    chosen = random.Random(seed)
    try:
        if store._log.start:
            copy = LogCopy(folder, config, clock, store._log.start, disk=QuickDisk())
            while copy_log(store, copy, chosen.choice([1000, 5000, 1 << 20]), chosen.randint(1, 9)):
                if copy.can_finish and chosen.random() < 0.1:
                    break
            copy.finish()
        follower = open_replica(folder, config, clock)
        while ship(store, follower, chosen.choice([1, 200, 1000, 5000, 1 << 20]), chosen.randint(1, 9)):
            if chosen.random() < 0.2:
                confirm_all(follower)
                follower.checkpoint()
            if chosen.random() < 0.1:
                follower.abandon()
                follower = open_replica(folder, config, clock)
        confirm_all(follower)
        assert_same(store, follower)
        follower.close()
        again = open_replica(folder, config, clock)
        assert_same(store, again)
        again.abandon()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
