"""The repair of an open replica's log: its damaged records are not served, and then they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    CorruptStoreError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    RecordFormatError,
    StorageError,
)
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.damage import damage_log, log_bytes, record_starts
from support.replicas import assert_same, confirm_all, open_replica, ship
from support.stores import CONFIG, read_bodies

BODIES = [b"%02d" % number * 30 for number in range(40)] + [bytes(3000)] * 25
DAMAGED = 7  # the message whose record is damaged


class _Pair:
    """A master, and a follower with the same two segments: all is confirmed and in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "follower"
        self.master = open_replica(folder / "master", CONFIG, FakeClock())
        self.follower = open_replica(self.folder, CONFIG, FakeClock())
        self.master.begin_writing(1)
        topic = self.master.create_topic("orders", 1)
        self.key = QueueKey(topic.topic_id, 0)
        for number, body in enumerate(BODIES):
            record = Record("orders", body, f"m-{number}", producer_id=9, sequence=number)
            self.master.append(bytearray(encode_record(record)), topic.topic_id, 0)
        ship(self.master, self.follower, 1 << 20)
        for store in (self.master, self.follower):
            confirm_all(store)
            store.checkpoint()
        starts = record_starts(self.master)
        # The records of the epoch and of the topic are before the messages.
        self.begin, self.end = starts[DAMAGED + 2], starts[DAMAGED + 3]
        self.intact = log_bytes(self.folder)

    def damage(self) -> None:
        damage_log(self.folder, self.begin + 150)

    def reopen(self) -> None:
        self.follower.close()
        self.open()

    def open(self) -> None:
        self.follower = open_replica(self.folder, CONFIG, FakeClock())

    def check_not_served(self) -> None:
        """Check that the damaged record is not served, and every other one is."""
        store = self.follower
        for _ in range(2):
            with pytest.raises(CorruptStoreError):
                store.read_queue(self.key, DAMAGED, 1)
        data = store.read_queue(self.key, 0, len(BODIES))  # it stops before the damaged record
        assert decode_record(data, 0).record.body == BODIES[0]
        assert sum(decode_record(data, at).stamp is not None for at in _starts(data)) == DAMAGED
        assert read_bodies(store, "orders", first=DAMAGED + 1) == BODIES[DAMAGED + 1 :]
        with pytest.raises(CorruptStoreError):
            store.read_record(self.begin)
        with pytest.raises(CorruptStoreError):
            store.read_chunk(self.begin, 1 << 20)
        with pytest.raises(CorruptStoreError):
            store.read_stretch(self.begin, self.end)
        assert store.damaged_stretches() == [(self.begin, self.end)]

    def check_repaired(self) -> None:
        store = self.follower
        assert store.damaged_stretches() == []
        assert (store.damage, store.damaged_offsets) == ([], 0)
        assert log_bytes(self.folder) == self.intact
        assert read_bodies(store, "orders") == BODIES
        assert [found.record.body for found in store.find("orders", f"m-{DAMAGED}")] == [BODIES[DAMAGED]]
        assert_same(self.master, store)

    def finish(self) -> None:
        self.check_repaired()
        self.reopen()
        self.check_repaired()
        for store in (self.master, self.follower):
            store.abandon()

    def repair(self) -> None:
        self.follower.repair(self.begin, self.master.read_stretch(self.begin, self.end))


def _starts(data: bytes | memoryview) -> list[int]:
    at, starts = 0, []
    while at < len(data):
        starts.append(at)
        at += int.from_bytes(data[at : at + 4], "big")
    return starts


def test_a_damaged_record_is_served_again_after_its_repair(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    pair.damage()
    pair.check_not_served()
    pair.repair()
    pair.finish()


def test_a_master_is_repaired_while_it_writes(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    pair.master.stop_writing(CorruptStoreError("", 0, ""))
    pair.follower.begin_writing(2)
    pair.damage()
    pair.check_not_served()
    pair.repair()
    pair.follower.append_control(Control())
    confirm_all(pair.follower)
    ship(pair.follower, pair.master, 1 << 20)
    confirm_all(pair.master)
    pair.intact = log_bytes(tmp_path / "master")
    pair.finish()


def test_a_hole_in_a_queue_is_filled(tmp_path: Path) -> None:
    """The queues were rebuilt from the damaged log: in memory, or at an earlier opening."""
    for is_reopened in (False, True):
        pair = _Pair(tmp_path / str(is_reopened))
        pair.follower.close()
        pair.damage()
        for path in (pair.folder / "consumequeue").rglob("0" * 20):
            path.write_bytes(bytes(path.stat().st_size))
        pair.open()
        with pytest.raises(CorruptStoreError):
            pair.follower.read_queue(pair.key, DAMAGED, 1)
        assert pair.follower.damaged_offsets == 1
        if is_reopened:
            pair.reopen()
            assert pair.follower.damaged_offsets == 0  # the file has the hole
        pair.check_not_served()
        pair.repair()
        pair.finish()


def test_the_key_index_gets_what_it_skipped(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    pair.follower.close()
    pair.damage()
    shutil.rmtree(pair.folder / "index")
    pair.open()
    assert pair.follower.find("orders", f"m-{DAMAGED}") == []
    pair.check_not_served()
    pair.repair()
    pair.finish()


def test_bytes_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    pair.damage()
    with pytest.raises(InvalidArgumentError, match="not the start"):
        pair.repair()  # nothing has found the damage yet
    pair.check_not_served()
    damaged, data = log_bytes(pair.folder), pair.master.read_stretch(pair.begin, pair.end)
    flipped = bytearray(data)
    flipped[150] ^= 1
    for hostile in (b"", data[:-8], data + data, bytes(flipped), bytes(len(data))):
        with pytest.raises(RecordFormatError):
            pair.follower.repair(pair.begin, hostile)
    for begin in (pair.begin - 8, pair.begin + 8, pair.end, -8, 1 << 60):
        with pytest.raises(InvalidArgumentError):
            pair.follower.repair(begin, data)
    assert log_bytes(pair.folder) == damaged
    pair.check_not_served()
    pair.repair()
    pair.finish()
    with pytest.raises(StorageError, match="closed"):
        pair.repair()


def test_a_follower_at_a_wrong_offset_is_no_damage(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    for offset in (pair.begin + 8, pair.begin + 1, pair.end - 8, CONFIG.segment_bytes + 16):
        with pytest.raises(OffsetOutOfRangeError, match="no record begins"):
            pair.master.read_chunk(offset, 1 << 20)
    assert pair.master.damage == []
    pair.damage()
    for offset in (pair.begin, pair.begin, pair.begin + 8):
        with pytest.raises(CorruptStoreError):
            pair.follower.read_chunk(offset, 1 << 20)
        assert pair.follower.damaged_stretches() == [(pair.begin, pair.end)]
    pair.repair()
    pair.finish()


def test_damage_that_a_replica_must_replay_stops_its_opening(tmp_path: Path) -> None:
    """Without the message, its producer's sequence would differ from that of the group."""
    pair = _Pair(tmp_path)
    pair.follower.abandon()
    pair.damage()
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (pair.folder / name).unlink(missing_ok=True)
    with pytest.raises(CorruptStoreError, match="another replica"):
        pair.open()
    pair.master.abandon()


def test_timers_are_not_rebuilt_from_a_damaged_log(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    pair.damage()
    store = pair.follower
    error = CorruptStoreError("timers/minute", 0, "checksum")
    with store._parts.maintaining:
        with pytest.raises(CorruptStoreError, match=f"byte {pair.begin}"):
            store._reader.repair.rebuild_timers(error)
        assert store.damaged_stretches() == [(pair.begin, pair.end)]
        pair.repair()
        store._reader.repair.rebuild_timers(error)
    pair.finish()


def test_a_search_finds_damage_that_nobody_has_read(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    pair.reopen()
    pair.damage()
    assert pair.follower.damaged_stretches() == []
    reached = pieces = 0
    while reached < pair.follower.log_end:
        reached = pair.follower.search_damage(reached, 1)
        pieces += 1
    assert pieces > 1
    assert reached == pair.follower.log_end
    assert pair.follower.damaged_stretches() == [(pair.begin, pair.end)]
    pair.repair()
    pair.finish()


def test_a_search_does_not_check_unconfirmed_records(tmp_path: Path) -> None:
    """They may be cut off while they are read."""
    pair = _Pair(tmp_path)
    topic = pair.master.create_topic("orders", 1)
    pair.master.append(bytearray(encode_record(Record("orders", b"new", "m"))), topic.topic_id, 0)
    confirmed = pair.follower.confirm_offset
    ship(pair.master, pair.follower, 1 << 20)
    assert pair.follower.log_end > confirmed
    damage_log(pair.folder, confirmed + 100)
    assert pair.follower.search_damage(confirmed, 1 << 20) == confirmed
    assert pair.follower.damaged_stretches() == []
    for store in (pair.master, pair.follower):
        store.abandon()
