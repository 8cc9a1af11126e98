"""The repair of a replica's log before it opens: byte for byte what it was."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, NotMasterError, RecordFormatError, StoreLockedError
from litemq.format.record_encode import encode_record
from litemq.storage.log.repair import Stretch
from litemq.storage.log.segment import segment_path
from litemq.storage.offline.repair_log import ClosedLog
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import damage_log, log_bytes, record_starts
from support.quick_disk import QuickDisk
from support.replicas import assert_same, confirm_all, open_replica, repair_closed, ship
from support.stores import CONFIG, read_bodies

LEFT = NotMasterError("another replica was elected")
SEED = 18
SEGMENT = CONFIG.segment_bytes


def _send(store: ReplicaStore, count: int, size: int) -> None:
    topic = store.create_topic("orders", 2)
    for number in range(count):
        record = Record("orders", bytes(size), f"m-{store.log_end}", keys=("k",), producer_id=5, sequence=number)
        store.append(bytearray(encode_record(record)), topic.topic_id, number % 2)


class _Pair:
    """A master of two epochs and a follower that is closed; their logs have two segments."""

    def __init__(self, folder: Path, small: int = 6) -> None:
        self.folder = folder / "follower"
        self.master = open_replica(folder / "master", CONFIG, FakeClock())
        self.master.begin_writing(1)
        _send(self.master, small, 100)
        self.master.snapshot()
        self.master.stop_writing(LEFT)
        self.master.begin_writing(2)
        _send(self.master, 6, 33)
        _send(self.master, 21, 3000)
        _send(self.master, 4, 50)
        confirm_all(self.master)
        follower = open_replica(self.folder, CONFIG, FakeClock())
        ship(self.master, follower, 5000)
        confirm_all(follower)
        follower.close()
        self.sent = small + 31
        self.starts = record_starts(self.master)
        self.intact = log_bytes(self.folder)
        assert self.intact == log_bytes(folder / "master")
        assert len(self.intact) == 2

    def repair(self, fetch: Callable[[int, int], bytes] | None = None) -> list[Stretch]:
        return repair_closed(ClosedLog(self.folder, CONFIG, disk=QuickDisk()), fetch or self.master.read_stretch)

    def check_same(self) -> None:
        """Open the follower, compare it with its master, and close it."""
        assert log_bytes(self.folder) == self.intact
        follower = open_replica(self.folder, CONFIG, FakeClock())
        confirm_all(follower)  # without a checkpoint, nothing is
        assert (follower.damaged_stretches(), follower.damage, follower.damaged_offsets) == ([], [], 0)
        assert_same(self.master, follower)
        for queue in range(2):
            assert read_bodies(follower, "orders", queue) == read_bodies(self.master, "orders", queue)
        found = [store.find("orders", "k", 1000) for store in (follower, self.master)]
        assert found[0] == found[1]
        assert len(found[0]) == self.sent
        follower.abandon()


def _flips(pair: _Pair) -> list[int]:
    """Return the log offsets to damage: of each record and of the blank one."""
    chosen = random.Random(SEED)
    ends = [*pair.starts[1:], pair.master.log_end]
    found: list[int] = []
    for begin, end in zip(pair.starts, ends, strict=True):  # the last of a segment includes the blank record
        fixed = range(begin, min(end, begin + 200))
        found += [*chosen.sample(fixed, 8), end - 1, chosen.randrange(begin, end)]
    blank = max(begin for begin in pair.starts if begin < SEGMENT)
    blank += int.from_bytes(pair.intact[0][blank : blank + 4], "big")
    return [*found, *range(pair.starts[1]), *range(blank, blank + 16)]


def test_each_flipped_byte_is_repaired(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    chosen = random.Random(SEED)
    flips = _flips(pair)
    for number, at in enumerate(flips):
        damage_log(pair.folder, at, chosen.randrange(1, 256))
        assert log_bytes(pair.folder) != pair.intact
        [(begin, end)] = pair.repair()
        assert begin <= at < end
        if number % 50:
            assert log_bytes(pair.folder) == pair.intact
        else:
            pair.check_same()
    assert len(flips) > 500
    assert pair.repair() == []
    pair.master.abandon()


@pytest.mark.parametrize("seed", range(8))
def test_much_damage_is_repaired(tmp_path: Path, seed: int) -> None:
    pair = _Pair(tmp_path)
    chosen = random.Random(seed)
    end = pair.master.log_end
    for _ in range(chosen.randint(2, 12)):
        at, size = chosen.randrange(end), chosen.choice([1, 8, 500, 5000])
        for offset in range(at, min(end, at + size)):
            damage_log(pair.folder, offset, chosen.randrange(1, 256))
    stretches = pair.repair()
    assert stretches
    assert all(begin in pair.starts or begin < SEGMENT for begin, _ in stretches)
    assert pair.repair() == []
    pair.check_same()
    pair.master.abandon()


def test_a_truncated_segment_is_repaired(tmp_path: Path) -> None:
    for number, size in enumerate((SEGMENT - 8, 9000, 0)):
        pair = _Pair(tmp_path / str(number))
        os.truncate(segment_path(pair.folder / "commitlog", 0), size)
        with pytest.raises(CorruptStoreError, match="shorter"):
            open_replica(pair.folder, CONFIG, FakeClock())
        [(begin, end)] = pair.repair()
        assert begin <= size
        assert end == SEGMENT
        pair.check_same()
        pair.master.abandon()


@pytest.mark.parametrize(("number", "has_checkpoint"), [(12, True), (-1, True), (3, False)])
def test_a_directory_that_does_not_open_opens_after_its_repair(
    tmp_path: Path, number: int, has_checkpoint: bool
) -> None:
    """The state is loaded from the snapshot and the records after it, or from the whole log."""
    pair = _Pair(tmp_path)
    for path in pair.folder.glob("state.db*"):
        path.unlink()
    if not has_checkpoint:
        (pair.folder / "checkpoint").unlink()
    damage_log(pair.folder, pair.starts[number] + 130)
    with pytest.raises(CorruptStoreError):
        open_replica(pair.folder, CONFIG, FakeClock())
    assert len(pair.repair()) == 1
    pair.check_same()
    pair.master.abandon()


def test_projections_that_skipped_the_record_get_it(tmp_path: Path) -> None:
    """An earlier opening rebuilt the queues and the key index without the damaged record."""
    pair = _Pair(tmp_path, small=100)  # whole blocks of the key index
    damage_log(pair.folder, pair.starts[3] + 150)
    for name in ("consumequeue", "index"):
        shutil.rmtree(pair.folder / name)
    store = open_replica(pair.folder, CONFIG, FakeClock())
    with pytest.raises(CorruptStoreError):
        read_bodies(store, "orders", 1)
    assert store.damaged_offsets == 1
    store.close()
    assert len(pair.repair()) == 1
    pair.check_same()
    pair.master.abandon()


def _answer(data: bytes, _begin: int, _end: int) -> bytes:
    return data


def test_hostile_bytes_change_nothing(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    damage_log(pair.folder, pair.starts[3] + 150)
    damaged = log_bytes(pair.folder)
    begin, end = pair.starts[3], pair.starts[4]
    data = pair.master.read_stretch(begin, end)
    flipped = bytearray(data)
    flipped[40] ^= 1
    other = pair.master.read_stretch(pair.starts[4], pair.starts[5])
    foreign = open_replica(tmp_path / "foreign", CONFIG, FakeClock())
    foreign.begin_writing(7)
    _send(foreign, 6, 100)
    assert record_starts(foreign)[3:5] == [begin, end]
    for hostile in (b"", data[:-8], data + other, bytes(flipped), other, foreign.read_stretch(begin, end)):
        with pytest.raises(RecordFormatError):
            pair.repair(partial(_answer, hostile))
        assert log_bytes(pair.folder) == damaged
    assert pair.repair() == [(begin, end)]
    pair.check_same()
    for store in (pair.master, foreign):
        store.abandon()


def test_epochs_are_read_from_the_log_if_their_file_is_lost(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    [_, second] = pair.master.epochs
    for name in ("epochs", "damaged"):
        damage_log(pair.folder, second.start_offset + 100)
        if name == "epochs":
            (pair.folder / "epochs").unlink()
        else:
            (pair.folder / "epochs").write_bytes(bytes(192))
        [(begin, _)] = pair.repair()
        assert begin == second.start_offset
        (pair.folder / "epochs").unlink(missing_ok=True)
        pair.check_same()
    pair.master.abandon()


def test_an_open_directory_is_refused(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    with pytest.raises(StoreLockedError):
        ClosedLog(tmp_path / "master", CONFIG)
    pair.master.abandon()
