"""A power cut in a repair of the log leaves damaged or repaired bytes; the repair is repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError
from litemq.format.record_encode import encode_record
from litemq.storage.files.disk import Disk
from litemq.storage.log.repair import Stretch
from litemq.storage.log.segment import segment_path
from litemq.storage.offline.repair_log import ClosedLog
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import log_bytes, record_starts
from support.power_cut import RecordingDisk, states_after
from support.quick_disk import QuickDisk
from support.replicas import assert_same, confirm_all, open_replica, repair_closed, ship
from support.stores import CONFIG

SECTOR = 512


class _Repaired:
    """A follower whose log was damaged and repaired on a disk that recorded it."""

    def __init__(self, folder: Path, *, is_open: bool) -> None:
        self.disk = RecordingDisk()
        self.folder = folder / "recorded"
        self.master = open_replica(folder / "master", CONFIG, FakeClock())
        self.master.begin_writing(1)
        topic = self.master.create_topic("orders", 1)
        for number in range(30):
            record = Record("orders", bytes([number]) * 3000, f"m-{number}")
            self.master.append(bytearray(encode_record(record)), topic.topic_id, 0)
        confirm_all(self.master)
        follower = ReplicaStore(self.folder, CONFIG, FakeClock(), disk=self.disk, host="here")
        ship(self.master, follower, 1 << 20)
        confirm_all(follower)
        follower.close()
        self.intact = log_bytes(self.folder)
        starts = record_starts(self.master)
        last = max(start for start in starts if start < CONFIG.segment_bytes)
        self.stretches = [(starts[4], starts[6]), (starts[9], starts[10]), (last, CONFIG.segment_bytes)]
        for begin, end in self.stretches:
            self._damage(begin + 20, end - begin - 28)
        self.damaged = log_bytes(self.folder)
        self.damaged_at = len(self.disk.operations)
        if is_open:
            self._repair_open()
        else:
            assert self.repair(self.folder, self.disk) == self.stretches
        assert log_bytes(self.folder) == self.intact

    def _damage(self, log_offset: int, size: int) -> None:
        file = self.disk.open(segment_path(self.folder / "commitlog", 0))
        file.write(b"\x55" * size, log_offset)
        file.sync()

    def _repair_open(self) -> None:
        store = ReplicaStore(self.folder, CONFIG, FakeClock(), disk=self.disk, host="here")
        for begin, end in self.stretches:
            with pytest.raises(CorruptStoreError):
                store.read_chunk(begin, 1 << 20)
            store.repair(begin, self.master.read_stretch(begin, end))
        assert store.damaged_stretches() == []
        store.abandon()

    def repair(self, folder: Path, disk: Disk) -> list[Stretch]:
        return repair_closed(ClosedLog(folder, CONFIG, disk=disk), self.master.read_stretch)

    def check(self, folder: Path) -> bool:
        """Check the log after a power cut, and repair it; return whether it was repaired."""
        found = log_bytes(folder)
        for start, data in found.items():
            for at in range(0, len(data), SECTOR):
                piece = data[at : at + SECTOR]
                assert piece in (self.damaged[start][at : at + SECTOR], self.intact[start][at : at + SECTOR])
        repaired = self.repair(folder, QuickDisk())
        for begin, end in repaired:  # the stretch, or the rest of it
            assert any(first <= begin < end <= last for first, last in self.stretches)
        assert log_bytes(folder) == self.intact
        store = open_replica(folder, CONFIG, FakeClock())
        confirm_all(store)
        assert_same(self.master, store)
        store.abandon()
        return not repaired


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_every_power_cut(tmp_path: Path, is_open: bool) -> None:
    history = _Repaired(tmp_path, is_open=is_open)
    operations = history.disk.operations
    outcomes = {True: 0, False: 0}
    for until in range(history.damaged_at, len(operations) + 1):
        for tree in states_after(operations[:until]):
            folder = tmp_path / "state"
            tree.write_to(history.folder, folder)
            is_repaired = history.check(folder)
            outcomes[is_repaired] += 1
            assert is_repaired or until < len(operations)
            shutil.rmtree(folder)
    assert outcomes[True] > 0
    assert outcomes[False] > 10
    history.master.abandon()
