"""A replica's store whose disk fills up: what it drops, says and refuses."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    DiskFullError,
    StoreFailedError,
)
from litemq.storage.files.disk import OpenFile
from support.filling_disk import FillingDisk
from support.full_disk import FullDisk
from support.quick_disk import QuickDisk
from support.replica_group import LEFT, send_bodies
from support.replicas import confirm_all, open_replica, ship
from support.stores import CONFIG, read_bodies


def test_a_master_warns_of_segments_that_it_drops_because_the_disk_fills_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FillingDisk(20 * CONFIG.segment_bytes)
    master = open_replica(tmp_path, CONFIG, FakeClock(), disk)
    master.begin_writing(1)
    for _ in range(80):
        send_bodies(master, bytes(3000))
    confirm_all(master)
    disk.folder = tmp_path
    disk.others = 16 * CONFIG.segment_bytes
    for _ in range(2):
        master._maintenance.watch_disk()
    assert master._log.start == 0  # it drops them once the crossing is confirmed
    dropped = master._parts.marks.pending_start
    assert dropped > 0
    [warning] = [each for each in caplog.messages if "before their retention" in each]
    assert f"dropped the oldest {dropped} bytes of the log" in warning
    master.abandon()


def test_the_advice_for_a_full_disk_is_that_of_the_role(tmp_path: Path) -> None:
    disk = FillingDisk(20 * CONFIG.segment_bytes)
    store = open_replica(tmp_path, replace(CONFIG, disk_clean_percent=100), FakeClock(), disk)
    assert store.disk_refusal == ""
    disk.folder = tmp_path
    disk.others = 19 * CONFIG.segment_bytes
    store._maintenance.watch_disk()
    for _ in range(2):
        assert "full: free disk space. When it is full, this replica cannot follow" in store.disk_refusal
        assert "cluster switch" not in store.disk_refusal
        store.begin_writing(store.begun_epoch + 1)
        assert store.disk_refusal.endswith("make another replica the master with `litemq cluster switch`")
        store.stop_writing(LEFT)
    store.abandon()


def test_a_cut_that_fails_stops_the_store(tmp_path: Path) -> None:
    disk = FullDisk()
    store = open_replica(tmp_path, CONFIG, FakeClock(), disk)
    store.begin_writing(1)
    send_bodies(store, b"one")
    confirm_all(store)
    confirmed = store.confirm_offset
    send_bodies(store, b"two")
    store._flusher.wait(store.log_end, 10)
    store.stop_writing(LEFT)
    failures: list[str] = []
    store.on_failure(failures.append)
    disk.is_full = True
    with pytest.raises(StoreFailedError, match="could not be cut off"):
        store.cut(confirmed)
    assert len(failures) == 1
    disk.is_full = False
    store.close()
    again = open_replica(tmp_path, CONFIG, FakeClock())
    assert again.log_end > confirmed
    again.cut(confirmed)
    confirm_all(again)
    assert read_bodies(again, "orders") == [b"one"]
    again.abandon()


class _FullLog(QuickDisk):
    """A disk that refuses writes to the log while ``is_full``."""

    is_full = False

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        if self.is_full and file.path.parent.name == "commitlog":
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(file, data, offset)


def test_an_epoch_whose_first_write_failed_has_no_record(tmp_path: Path) -> None:
    disk = _FullLog()
    master, follower = (
        open_replica(tmp_path / "a", CONFIG, FakeClock()),
        open_replica(tmp_path / "b", CONFIG, FakeClock(), disk),
    )
    master.begin_writing(1)
    send_bodies(master, b"one")
    ship(master, follower, 5000)
    master.stop_writing(LEFT)
    other = open_replica(tmp_path / "c", CONFIG, FakeClock())
    ship(master, other, 5000)
    other.begin_writing(3)
    disk.is_full = True
    with pytest.raises(DiskFullError):
        ship(other, follower, 5000)
    assert follower.last_epoch == 1
    disk.is_full = False
    master.begin_writing(2)  # its log is another one
    ship(master, follower, 5000)
    assert (follower.last_epoch, [epoch.number for epoch in follower.epochs]) == (2, [1, 2])
    for store in (master, other, follower):
        store.abandon()
