"""The check of bytes that repair a damaged stretch: only the bytes that were there pass."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, NotMasterError, OffsetOutOfRangeError, RecordFormatError
from litemq.format.record_encode import encode_record
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.log.epochs import Epoch
from litemq.storage.log.repair import Stretch, check_repair, find_stretches, read_stretch, stretch_at, write_repair
from litemq.storage.log.segment import blank_record
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import damage_log, log_bytes, record_starts
from support.replicas import open_replica
from support.stores import CONFIG

LEFT = NotMasterError("another replica was elected")
SEGMENT = CONFIG.segment_bytes


def _send(store: ReplicaStore, *bodies: bytes) -> None:
    topic = store.create_topic("orders", 1)
    for body in bodies:
        store.append(bytearray(encode_record(Record("orders", body))), topic.topic_id, 0)


@pytest.fixture
def store(tmp_path: Path) -> ReplicaStore:
    """A log of two segments and the epochs 1 and 3; the epoch 3 begins in the first segment."""
    store = open_replica(tmp_path / "store", CONFIG, FakeClock())
    store.begin_writing(1)
    _send(store, b"a", b"b", b"c")
    store.stop_writing(LEFT)
    store.begin_writing(3)
    _send(store, b"d", b"e", *[bytes(3000)] * 30)
    return store


def test_the_bytes_that_were_there_pass(store: ReplicaStore) -> None:
    log, epochs = store._log, store.epochs
    starts = [*record_starts(store), log.end]
    last = max(start for start in starts if start < SEGMENT)
    for begin, end in [
        *pairwise(starts[:4]),
        (0, starts[7]),
        (starts[3], starts[6]),  # two epochs
        (starts[-2], log.end),
        (last, SEGMENT),  # a record and the blank record after it
    ]:
        data = read_stretch(log, Stretch(begin, end))
        columns = check_repair(Stretch(begin, end), data, SEGMENT if end <= SEGMENT else 2 * SEGMENT, epochs)
        assert columns is not None
    blank = last + int.from_bytes(log.read(last, last + 4), "big")
    data = read_stretch(log, Stretch(blank, SEGMENT))
    assert data == blank_record(SEGMENT - blank)
    assert check_repair(Stretch(blank, SEGMENT), data, SEGMENT, epochs) is None
    store.abandon()


def test_a_hostile_replica_changes_nothing(store: ReplicaStore) -> None:
    log, epochs = store._log, store.epochs
    starts = record_starts(store)
    begin, end = stretch = Stretch(starts[1], starts[3])
    data = read_stretch(log, stretch)
    one = starts[2] - starts[1]
    flipped = bytearray(data)
    flipped[one + 90] ^= 4
    for hostile, reason in [
        (b"", "not filled"),
        (data[:-8], "not filled"),
        (data[:one], "not filled"),
        (data + data, "not filled"),
        (bytes(read_stretch(log, Stretch(begin, starts[4]))), "not filled"),
        (bytes(flipped), "crc"),
        (bytes(len(data)), "whole"),
        (data[:one] + bytes(len(data) - one), "whole"),
        (blank_record(len(data)), "whole"),  # the segment does not end here
        (bytes(log.read(begin - 8, end - 8)), "whole"),
        (data[one:] + data[:one], "elsewhere"),
    ]:
        with pytest.raises(RecordFormatError, match=reason):
            check_repair(stretch, hostile, SEGMENT, epochs)
    with pytest.raises(RecordFormatError, match="elsewhere"):
        check_repair(Stretch(begin + 8, end + 8), data, SEGMENT, epochs)
    store.abandon()


def test_another_epoch_is_refused(store: ReplicaStore, tmp_path: Path) -> None:
    """A log that differs has intact records, too, at the same offsets."""
    [first, third] = store.epochs
    other = open_replica(tmp_path / "other", CONFIG, FakeClock())
    other.begin_writing(1)
    _send(other, b"a", b"b", b"c")
    other.stop_writing(LEFT)
    other.begin_writing(2)
    _send(other, b"d", b"e")
    starts = record_starts(store)
    assert record_starts(other)[:7] == starts[:7]
    across = Stretch(starts[4], starts[7])
    assert across.begin < third.start_offset < across.end
    for stretch in (across, Stretch(third.start_offset, starts[7])):
        data = read_stretch(store._log, stretch)
        assert check_repair(stretch, data, SEGMENT, store.epochs) is not None
        assert check_repair(stretch, read_stretch(other._log, stretch), SEGMENT, other.epochs) is not None
        with pytest.raises(RecordFormatError, match="another epoch"):
            check_repair(stretch, read_stretch(other._log, stretch), SEGMENT, store.epochs)
        with pytest.raises(RecordFormatError, match="another epoch"):
            check_repair(stretch, data, SEGMENT, [first, Epoch(4, third.start_offset, "")])
        with pytest.raises(RecordFormatError, match="another epoch"):
            check_repair(stretch, data, SEGMENT, [first])
    for each in (store, other):
        each.abandon()


def test_a_log_whose_first_epoch_record_is_lost_can_be_repaired(store: ReplicaStore) -> None:
    """Epochs derived from the intact records begin too late: the records before may have either."""
    [first, third] = store.epochs
    starts = record_starts(store)
    stretch = Stretch(third.start_offset, starts[7])
    late = [first, Epoch(3, stretch.end, "")]
    assert check_repair(stretch, read_stretch(store._log, stretch), SEGMENT, late) is not None
    store.abandon()


def test_damage_is_found_from_record_to_record(store: ReplicaStore, tmp_path: Path) -> None:
    log = store._log
    starts = record_starts(store)
    last = max(start for start in starts if start < SEGMENT)
    for number in (2, 5, 6):  # the last two are one stretch
        damage_log(tmp_path / "store", starts[number] + 100)
    damage_log(tmp_path / "store", last + 5)
    damage_log(tmp_path / "store", log.end - 1)
    expected = [(starts[2], starts[3]), (starts[5], starts[7]), (last, SEGMENT), (starts[-1], log.end)]
    assert find_stretches(log, 0, log.end) == expected
    for stretch in expected:
        assert stretch_at(log, stretch[0], log.end) == stretch
        with pytest.raises(CorruptStoreError):
            read_stretch(log, Stretch(*stretch))
    assert stretch_at(log, starts[3], log.end) is None
    for begin, end in [(0, 0), (0, log.end), (log.end, log.end + 8), (starts[-1], log.end + 8)]:
        with pytest.raises(OffsetOutOfRangeError):
            read_stretch(log, Stretch(begin, end))
    store.abandon()


class _ForgetfulDisk(Disk):
    """A disk that loses what is written."""

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:  # noqa: ARG002
        return len(data)


def test_a_repair_is_read_back(store: ReplicaStore, tmp_path: Path) -> None:
    log = store._log
    starts = record_starts(store)
    stretch = Stretch(starts[2], starts[3])
    data, before = read_stretch(log, stretch), log_bytes(tmp_path / "store")
    damage_log(tmp_path / "store", starts[2] + 100)
    with pytest.raises(CorruptStoreError, match="does not keep"):
        write_repair(_ForgetfulDisk(), log.segment_of(0), stretch, data)
    write_repair(Disk(), log.segment_of(0), stretch, data)
    assert log_bytes(tmp_path / "store") == before
    store.abandon()
