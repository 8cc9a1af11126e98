"""A copy of a master's log after a power cut at any point, and a store that opens it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from litemq.clock import FakeClock
from litemq.errors import IncompleteCopyError
from litemq.format.record_encode import encode_record
from litemq.storage import log_copy
from litemq.storage.log.log_directory import COPY_MARKER
from litemq.storage.log_copy import LogCopy
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.power_cut import RecordingDisk, states_after
from support.quick_disk import QuickDisk
from support.replicas import assert_same, confirm_all, copy_log, open_replica, ship
from support.stores import CONFIG

PARTS: Final = 4  # of one long test, side by side


def _send(store: ReplicaStore, count: int) -> None:
    topic = store.create_topic("orders", 1)
    store.append(
        bytearray(b"".join(encode_record(Record("orders", b"x" * 3000)) for _ in range(count))), topic.topic_id, 0
    )


class _History:
    """A replica that was away for too long: it gives up its log, copies its master's, and opens."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.folder = folder / "recorded"
        self.master = master = open_replica(folder / "master", CONFIG, FakeClock())
        follower = ReplicaStore(self.folder, CONFIG, FakeClock(), disk=self.disk, host="here")
        master.begin_writing(1)
        _send(master, 1)
        ship(master, follower, 1 << 20)
        for store in (master, follower):
            confirm_all(store)
        _send(master, 2)
        ship(master, follower, 1 << 20)
        self.old_end, self.confirmed = follower.log_end, follower.confirm_offset
        self.unconfirmed = bytes(follower._log.read(self.confirmed, self.old_end))
        follower.close()
        _send(master, 40)
        confirm_all(master)
        master.retain(max_bytes=CONFIG.segment_bytes)
        confirm_all(master)
        master._maintenance.take_marks()
        self.log_start = master._log.start
        assert self.log_start > self.old_end
        _send(master, 25)
        master.stop_writing(IncompleteCopyError("the epoch ends"))
        master.begin_writing(2)
        _send(master, 1)
        confirm_all(master)

        self.closed_at = len(self.disk.operations)
        copy = self.open(self.folder, self.disk)
        self.begun_at = len(self.disk.operations)
        copy_log(master, copy, 30_000, 2)
        copy.close()
        self.part, self.part_at = copy.end, len(self.disk.operations)
        copy = self.open(self.folder, self.disk)
        copy_log(master, copy, 60_000)
        copy.finish()
        self.finished_at = len(self.disk.operations)
        ReplicaStore(self.folder, CONFIG, FakeClock(), disk=self.disk, host="here").close()

    def open(self, folder: Path, disk: RecordingDisk | QuickDisk) -> LogCopy:
        return LogCopy(folder, CONFIG, FakeClock(), self.log_start, disk=disk)


def _check_state(history: _History, folder: Path, until: int) -> None:
    """Complete what a power cut after ``until`` operations left in ``folder``."""
    if until >= history.begun_at:
        kept = folder / f"cut-off-{history.confirmed:020d}"
        assert kept.read_bytes() == history.unconfirmed
    is_marked = (folder / COPY_MARKER).exists()
    if is_marked:
        with pytest.raises(IncompleteCopyError):
            open_replica(folder, CONFIG, FakeClock())
    else:
        store = open_replica(folder, CONFIG, FakeClock())
        is_complete = store._log.start == history.log_start
        if until < history.begun_at:
            assert (store._log.start, store.log_end) == (0, history.old_end)
        if is_complete:
            assert store.log_end == store.confirm_offset == history.master.log_end
        store.close()
    assert not is_marked or until > history.closed_at
    assert is_marked or not history.begun_at <= until < history.part_at
    if is_marked or not is_complete:
        assert until < history.finished_at
        copy = history.open(folder, QuickDisk())
        if until >= history.part_at:
            assert copy.end >= history.part
        copy_log(history.master, copy, 1 << 20)
        copy.finish()
        kept = folder / f"cut-off-{history.confirmed:020d}"
        assert kept.read_bytes() == history.unconfirmed
    store = open_replica(folder, CONFIG, FakeClock())
    assert_same(history.master, store)
    store.abandon()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_power_cut(tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "_CHECKPOINT_BYTES", 50_000)
    history = _History(tmp_path)
    operations, states = history.disk.operations, 0
    for until in range(history.closed_at + part, len(operations) + 1, PARTS):
        for tree in states_after(operations[:until]):
            states += 1
            folder = tmp_path / "state"
            tree.write_to(history.folder, folder)
            _check_state(history, folder, until)
            shutil.rmtree(folder)
    history.master.abandon()
    assert states > 200 // PARTS


def test_a_discarded_copy_is_never_continued(tmp_path: Path) -> None:
    """Its log differs from the master's, which an unclean election can cause."""
    stores = [open_replica(tmp_path / name, CONFIG, FakeClock()) for name in ("master", "other")]
    for store, count in zip(stores, (30, 25), strict=True):
        store.begin_writing(1)
        _send(store, count)
        confirm_all(store)
    master, other = stores
    disk, recorded = RecordingDisk(), tmp_path / "recorded"
    copy = LogCopy(recorded, CONFIG, FakeClock(), 0, disk=disk)
    copy_log(other, copy, 60_000)
    copy.close()
    before = len(disk.operations)
    copy.begin_again(0)
    copy_log(master, copy, 60_000)
    copy.finish()
    operations, states = disk.operations, 0
    first = next(at for at in range(before, len(operations)) if operations[at].what == "unlink")
    for until in range(first, len(operations) + 1):
        for tree in states_after(operations[:until]):
            folder = tmp_path / "state"
            tree.write_to(recorded, folder)
            if (folder / COPY_MARKER).exists():
                states += 1
                copy = LogCopy(folder, CONFIG, FakeClock(), 0, disk=QuickDisk())
                copy_log(master, copy, 1 << 20)
                copy.finish()
            store = open_replica(folder, CONFIG, FakeClock())
            assert_same(master, store)
            store.abandon()
            shutil.rmtree(folder)
    assert states > 50
    for store in stores:
        store.abandon()
