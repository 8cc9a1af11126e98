"""A replica's store: it follows, becomes the master, follows again, and agrees with the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    InvalidArgumentError,
    LogDivergedError,
    NotConfirmedError,
    NotMasterError,
    OffsetOutOfRangeError,
    RecordFormatError,
)
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control
from litemq.storage.log.reader import read_log
from litemq.storage.projections.replay import decode_controls
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.replicas import assert_same, confirm_all, open_replica, ship
from support.stores import CONFIG, read_bodies, rows_of

LEFT = NotMasterError("another replica was elected")


def _master(folder: Path, epoch: int = 1) -> ReplicaStore:
    store = open_replica(folder, CONFIG, FakeClock())
    store.begin_writing(epoch)
    return store


def _send(store: ReplicaStore, *bodies: bytes, queue: int = 0) -> None:
    topic = store.create_topic("orders", 2)
    store.append(bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies)), topic.topic_id, queue)


def _controls(store: ReplicaStore) -> list[Control]:
    windows = read_log(store._log, store._log.start, store.log_end)
    return [control for window in windows for _, control in decode_controls(window.columns)]


def test_a_replica_opens_without_writing_anything(tmp_path: Path) -> None:
    store = open_replica(tmp_path, CONFIG, FakeClock())
    assert (store.log_end, store.follows, store.last_epoch, store.epochs) == (0, True, 0, [])
    with pytest.raises(NotMasterError):
        store.create_topic("orders", 1)
    store.close()
    again = open_replica(tmp_path, CONFIG, FakeClock())
    assert (again.log_end, again.store_id) == (0, store.store_id)
    again.abandon()


def test_the_first_record_of_an_epoch_declares_it(tmp_path: Path) -> None:
    store = _master(tmp_path, epoch=4)
    [first] = _controls(store)
    assert (first.epoch_started.epoch, first.epoch_started.store_id) == (4, store.store_id)
    assert [(epoch.number, epoch.start_offset) for epoch in store.epochs] == [(4, 0)]
    with pytest.raises(InvalidArgumentError):
        store.begin_writing(5)  # it writes already
    store.stop_writing(LEFT)
    with pytest.raises(InvalidArgumentError):
        store.begin_writing(4)
    store.abandon()


def test_a_master_that_restarts_is_a_follower(tmp_path: Path) -> None:
    store = _master(tmp_path, epoch=4)
    _send(store, b"one")
    store.close()
    again = open_replica(tmp_path, CONFIG, FakeClock())
    assert (again.follows, again.last_epoch, again.log_end) == (True, 4, store.log_end)
    again.abandon()


def test_nothing_is_confirmed_until_the_group_says_so(tmp_path: Path) -> None:
    store = _master(tmp_path)
    _send(store, b"one")
    store._flusher.wait(store.log_end, 10)
    assert store.confirm_offset == 0
    assert read_bodies(store, "orders") == []
    with pytest.raises(TimeoutError):
        store.wait_confirmed(store.log_end, 0)
    store.confirmation.advance(store.flushed_offset)
    assert read_bodies(store, "orders") == [b"one"]
    store.wait_confirmed(store.log_end, 0)
    store.abandon()


def test_projections_on_disk_hold_nothing_above_the_confirm_offset(tmp_path: Path) -> None:
    store = _master(tmp_path)
    _send(store, b"one")
    confirm_all(store)
    confirmed, rows = store.confirm_offset, rows_of(store)
    _send(store, b"two", b"three")
    store.append_numbered(lambda _end: Control())
    store._flusher.wait(store.log_end, 10)
    store.checkpoint()
    projections = store._parts.files.projections
    assert max(projections[:4]) <= confirmed
    store.stop_writing(LEFT)
    store.cut(confirmed)
    assert rows_of(store) == rows
    assert read_bodies(store, "orders") == [b"one"]
    assert store.bytes_cut > 0
    assert [path.name for path in tmp_path.glob("cut-off-*")] == [f"cut-off-{confirmed:020d}"]
    store.abandon()


def test_a_part_of_a_batch_may_be_confirmed(tmp_path: Path) -> None:
    """The state of a batch goes to ``state.db`` as a whole."""
    store = _master(tmp_path)
    _send(store, b"one")
    confirm_all(store)
    before = store.log_end
    _send(store, b"two", b"three", b"four")
    store._flusher.wait(store.log_end, 10)
    middle = store.read_chunk(before, 1)
    store.confirmation.advance(before + len(middle.data))
    assert read_bodies(store, "orders") == [b"one", b"two"]
    store.checkpoint()
    rows = rows_of(store)
    store.abandon()
    again = open_replica(tmp_path, CONFIG, FakeClock())
    assert again.confirm_offset == before + len(middle.data)
    assert rows_of(again) == rows
    assert read_bodies(again, "orders") == [b"one", b"two"]
    again.abandon()


def test_a_follower_that_would_lose_confirmed_records_stops(tmp_path: Path) -> None:
    store = _master(tmp_path)
    _send(store, b"one")
    confirm_all(store)
    store.stop_writing(LEFT)
    with pytest.raises(LogDivergedError, match="confirmed"):
        store.cut(store.confirm_offset - 8)
    assert read_bodies(store, "orders") == [b"one"]
    store.abandon()


def test_waiters_hear_of_the_end_of_an_epoch(tmp_path: Path) -> None:
    store = _master(tmp_path)
    _send(store, b"one")
    store.stop_writing(LEFT)
    with pytest.raises(NotConfirmedError, match="another replica"):
        store.wait_confirmed(store.log_end)
    store.abandon()


@pytest.mark.parametrize("at", [8, 60, 120, 200])
def test_a_damaged_chunk_is_refused_before_a_byte_is_written(tmp_path: Path, at: int) -> None:
    master, follower = _master(tmp_path / "master"), open_replica(tmp_path / "follower", CONFIG, FakeClock())
    _send(master, bytes(100))
    begin, data = master.read_chunk(0, 1 << 20)
    flipped = bytearray(data)
    flipped[at] ^= 1
    with pytest.raises(RecordFormatError):
        follower.append_raw(begin, bytes(flipped))
    assert follower.log_end == 0
    assert rows_of(follower) == rows_of(open_replica(tmp_path / "empty", CONFIG, FakeClock()))
    follower.append_raw(begin, data)
    confirm_all(follower)
    confirm_all(master)
    assert_same(master, follower)
    for store in (master, follower):
        store.abandon()


def test_chunks_follow_each_other(tmp_path: Path) -> None:
    master, follower = _master(tmp_path / "master"), open_replica(tmp_path / "follower", CONFIG, FakeClock())
    _send(master, b"one")
    first, second = master.read_chunk(0, 1), master.read_chunk(len(master.read_chunk(0, 1).data), 1)
    with pytest.raises(OffsetOutOfRangeError):
        follower.append_raw(*second)
    with pytest.raises(RecordFormatError, match="whole"):
        follower.append_raw(0, first.data[:-8])
    follower.append_raw(*first)
    with pytest.raises(OffsetOutOfRangeError):
        follower.append_raw(*first)
    with pytest.raises(RecordFormatError, match="elsewhere"):
        follower.append_raw(follower.log_end, first.data)
    for store in (master, follower):
        store.abandon()


def test_an_older_epoch_is_refused(tmp_path: Path) -> None:
    old, new = _master(tmp_path / "old", epoch=1), _master(tmp_path / "new", epoch=2)
    follower = open_replica(tmp_path / "follower", CONFIG, FakeClock())
    ship(new, follower, 1 << 20)
    _send(old, b"late")
    begin, data = old.read_chunk(follower.log_end, 1 << 20)
    with pytest.raises(RecordFormatError, match="stale epoch"):
        follower.append_raw(begin, data)
    for store in (old, new, follower):
        store.abandon()


def test_a_chunk_has_one_epoch_and_one_segment(tmp_path: Path) -> None:
    store = _master(tmp_path)
    for _ in range(40):
        _send(store, bytes(3000))
    store.stop_writing(LEFT)
    store.begin_writing(2)
    _send(store, b"last")
    at, chunks = 0, []
    while (chunk := store.read_chunk(at, 1 << 30)).data:
        chunks.append(chunk)
        at = chunk.begin + len(chunk.data)
    assert at == store.log_end
    assert [chunk.begin for chunk in chunks] == [0, CONFIG.segment_bytes, store.epochs[1].start_offset]
    store.abandon()


def test_the_file_of_epochs_is_derived_from_the_log(tmp_path: Path) -> None:
    store = _master(tmp_path)
    for epoch in (3, 7):
        _send(store, b"x")
        store.stop_writing(LEFT)
        store.begin_writing(epoch)
    epochs = [(epoch.number, epoch.start_offset) for epoch in store.epochs]
    store.abandon()
    (tmp_path / "epochs").unlink()
    again = open_replica(tmp_path, CONFIG, FakeClock())
    assert [(epoch.number, epoch.start_offset) for epoch in again.epochs] == epochs
    again.abandon()


def test_a_follower_knows_its_epoch_if_state_db_is_newer_than_the_checkpoint(tmp_path: Path) -> None:
    first, second, follower = (open_replica(tmp_path / name, CONFIG, FakeClock()) for name in ("1", "2", "follower"))
    first.begin_writing(1)
    _send(first, b"a")
    for store in (second, follower):
        ship(first, store, 1 << 20)
        confirm_all(store)
    follower.checkpoint()
    second.begin_writing(2)
    ship(second, follower, 1 << 20)
    confirm_all(follower)
    follower._parts.state_writer.commit(follower.confirm_offset)  # later than the checkpoint
    follower.abandon()
    again = open_replica(tmp_path / "follower", CONFIG, FakeClock())
    assert again.last_epoch == 2
    _send(second, b"b")
    ship(second, again, 1 << 20)
    assert (again.last_epoch, again.epochs) == (2, follower.epochs)
    for store in (first, second, again):
        store.abandon()


def test_no_epoch_begins_twice_though_a_power_cut_lost_its_records(tmp_path: Path) -> None:
    store = open_replica(tmp_path, CONFIG, FakeClock())
    store._parts.files.begin_epoch(3, store.log_end, store.store_id.hex())  # its record is not on the disk
    store.abandon()
    for _ in range(2):
        store = open_replica(tmp_path, CONFIG, FakeClock())
        assert (store.last_epoch, store.begun_epoch, store.epochs) == (0, 3, [])
        with pytest.raises(InvalidArgumentError, match="epoch 3 has begun"):
            store.begin_writing(3)
        store.abandon()
    store = open_replica(tmp_path, CONFIG, FakeClock())
    store.begin_writing(4)
    store.abandon()
    again = open_replica(tmp_path, CONFIG, FakeClock())
    assert [epoch.number for epoch in again.epochs] == [4]
    again.abandon()


def test_a_follower_drops_what_its_master_dropped(tmp_path: Path) -> None:
    master, follower = _master(tmp_path / "master"), open_replica(tmp_path / "follower", CONFIG, FakeClock())
    for _ in range(60):
        _send(master, bytes(3000))
    confirm_all(master)
    ship(master, follower, 5000)
    confirm_all(follower)
    master.retain(max_bytes=CONFIG.segment_bytes)
    ship(master, follower, 5000)
    follower._maintenance.take_marks()
    assert follower._log.start == 0  # the crossing is not confirmed yet
    for store in (master, follower):
        confirm_all(store)
        store._maintenance.take_marks()
    assert follower._log.start == master._log.start > 0
    assert_same(master, follower)
    follower.close()
    again = open_replica(tmp_path / "follower", CONFIG, FakeClock())
    assert_same(master, again)
    for store in (master, again):
        store.abandon()


def test_the_first_record_of_an_epoch_says_that_an_unclean_election_came_before(tmp_path: Path) -> None:
    store = open_replica(tmp_path / "a", CONFIG, FakeClock())
    first = store.begin_writing(1).end
    _send(store, b"one")
    second = store.log_end
    store.stop_writing(LEFT)
    store.begin_writing(2, unclean=True)
    _send(store, b"two")
    assert store.is_unclean_from(0)
    assert store.is_unclean_from(first)
    assert store.is_unclean_from(second)
    assert not store.is_unclean_from(second + 1)
    follower = open_replica(tmp_path / "b", CONFIG, FakeClock())
    ship(store, follower, 1 << 20)  # the log has it, so every later master knows it
    assert follower.is_unclean_from(second)
    for each in (store, follower):
        each.abandon()


def test_retention_repeats_no_crossing_that_waits_for_its_confirmation(tmp_path: Path) -> None:
    config = replace(CONFIG, keep_unread=True, max_log_bytes=CONFIG.segment_bytes)
    master = open_replica(tmp_path, config, FakeClock())
    master.begin_writing(1)
    for _ in range(60):
        _send(master, bytes(3000))
    confirm_all(master)
    master.retain(max_bytes=config.max_log_bytes)
    end = master.log_end
    for _ in range(2):
        assert master.retain(max_bytes=config.max_log_bytes) == 0
        master._maintenance.watch_unread()
    assert master.log_end == end
    _send(master, b"accepted")  # nothing is unread
    confirm_all(master)
    master._maintenance.take_marks()
    assert master._log.start > 0
    master.abandon()


def test_two_cuts_at_one_offset_keep_both_ends(tmp_path: Path) -> None:
    follower = open_replica(tmp_path / "follower", CONFIG, FakeClock())
    first = _master(tmp_path / "a")
    _send(first, b"one")
    ship(first, follower, 5000)
    confirm_all(follower)
    common, kept = follower.log_end, []
    for number in range(3):
        if number < 2:
            _send(first, b"lost %d" % number)
        ship(first, follower, 5000)
        kept.append(bytes(follower._log.read(common, follower.log_end)))
        follower.cut(common)
    paths = sorted((tmp_path / "follower").glob("cut-off-*"))
    assert [path.read_bytes() for path in paths] == kept[:2]  # the third one was kept before
    for store in (first, follower):
        store.abandon()
