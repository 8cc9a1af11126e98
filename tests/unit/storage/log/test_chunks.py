"""Chunks for followers: one flipped bit in the master's log does not spread (NATS 2.12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, RecordFormatError
from litemq.format.record_encode import encode_record
from litemq.storage.log.chunks import check_records
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import damage_log, log_bytes, record_starts
from support.replicas import assert_same, confirm_all, open_replica, ship
from support.stores import CONFIG, read_bodies

BODIES = [b"%d" % number * 40 for number in range(8)]


def _master(folder: Path, *bodies: bytes) -> ReplicaStore:
    store = open_replica(folder, CONFIG, FakeClock())
    store.begin_writing(1)
    topic = store.create_topic("orders", 1)
    for body in bodies:
        store.append(bytearray(encode_record(Record("orders", body))), topic.topic_id, 0)
    confirm_all(store)
    return store


# The size, the magic (also as that of a blank record), both checksums, the stamp and the body.
@pytest.mark.parametrize(
    ("at", "mask"), [(0, 128), (3, 8), (7, 1), (7, 0x02 ^ 0xFF), (9, 1), (12, 4), (30, 1), (60, 2), (120, 16), (170, 1)]
)
def test_a_damaged_record_is_not_shipped(tmp_path: Path, at: int, mask: int) -> None:
    master = _master(tmp_path / "master", *BODIES, *[bytes(3000)] * 30)  # two segments
    follower = open_replica(tmp_path / "follower", CONFIG, FakeClock())
    damaged = record_starts(master)[5]
    other = open_replica(tmp_path / "other", CONFIG, FakeClock())
    ship(master, other, 1 << 20)
    damage_log(tmp_path / "master", damaged + at, mask)
    with pytest.raises(CorruptStoreError):
        ship(master, follower, 1 << 20)
    assert follower.log_end == damaged  # it has neither this record nor later ones
    assert [begin for begin, _ in master.damaged_stretches()] == [damaged]
    confirm_all(follower)
    assert read_bodies(follower, "orders") == BODIES[:3]
    assert other.damaged_stretches() == []
    # The other follower has the record: the master gets it back, and shipping continues.
    [(begin, end)] = master.damaged_stretches()
    master.repair(begin, other.read_stretch(begin, end))
    ship(master, follower, 1 << 20)
    confirm_all(follower)
    confirm_all(other)
    for store in (follower, other):
        assert_same(master, store)
    assert log_bytes(tmp_path / "master") == log_bytes(tmp_path / "follower") == log_bytes(tmp_path / "other")
    for store in (master, follower, other):
        store.abandon()


def test_a_damaged_blank_record_is_not_taken_for_a_record(tmp_path: Path) -> None:
    master = _master(tmp_path / "master", *[bytes(3000)] * 30)
    follower = open_replica(tmp_path / "follower", CONFIG, FakeClock())
    ship(master, follower, 1 << 20)
    before = log_bytes(tmp_path / "master")
    blank = max(begin for begin in record_starts(master) if begin < CONFIG.segment_bytes)
    blank += int.from_bytes(before[0][blank : blank + 4], "big")
    for at in (blank, blank + 3, blank + 7, blank + 8, CONFIG.segment_bytes - 1):
        damage_log(tmp_path / "master", at)
        with pytest.raises(CorruptStoreError):
            master.read_chunk(blank, 1 << 20)
        assert master.damaged_stretches() == [(blank, CONFIG.segment_bytes)]
        master.repair(blank, follower.read_stretch(blank, CONFIG.segment_bytes))
        assert log_bytes(tmp_path / "master") == before
        assert master.read_chunk(blank, 1).begin == CONFIG.segment_bytes
    for store in (master, follower):
        store.abandon()


def test_the_first_bad_record_is_named(tmp_path: Path) -> None:
    master = _master(tmp_path, *BODIES)
    begin, data = master.read_chunk(0, 1 << 20)
    starts = record_starts(master)
    assert len(check_records(data, begin)) == len(starts)
    for number in (0, 3, len(starts) - 1):
        flipped = bytearray(data)
        flipped[starts[number] + 100] ^= 1
        with pytest.raises(RecordFormatError) as caught:
            check_records(bytes(flipped), begin)
        assert caught.value.position == starts[number]
    for bad in (b"", data[:-8], data + bytes(8), data[8:]):
        with pytest.raises(RecordFormatError, match="whole"):
            check_records(bad, begin)
    with pytest.raises(RecordFormatError, match="elsewhere"):
        check_records(data, begin + 8)
    master.abandon()
