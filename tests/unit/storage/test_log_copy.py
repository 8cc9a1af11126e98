"""The copy of a master's log: what it takes, how it continues, and the store that opens it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    IncompleteCopyError,
    InvalidArgumentError,
    NotMasterError,
    OffsetOutOfRangeError,
    RecordFormatError,
    StoreLockedError,
)
from litemq.format.record_encode import encode_record
from litemq.storage import log_copy
from litemq.storage.disk_store import DiskStore
from litemq.storage.log_copy import LogCopy
from litemq.storage.offline.directory_reader import check_data_directory
from litemq.storage.replica_store import ReplicaStore
from litemq.storage.state import QueueKey
from litemq.types import Record, RecordKind, Stamp
from support.quick_disk import QuickDisk
from support.replicas import assert_same, confirm_all, copy_log, open_replica, ship
from support.stores import CONFIG, read_bodies

LEFT = NotMasterError("another replica was elected")
_DUE = 1 << 41  # far from now, in ms


def _send(store: ReplicaStore, count: int, size: int = 3000, queue: int = 0) -> list[str]:
    """Append ``count`` messages, every seventh of them as a timer, and return their ids."""
    topic = store.create_topic("orders", 2)
    ids = [f"m-{store.log_end}-{number}" for number in range(count)]
    for number, message_id in enumerate(ids):
        due = _DUE + store.log_end if number % 7 == 3 else 0
        record = Record("orders", message_id.encode() + bytes(size), message_id, delay_time=due)
        store.append(bytearray(encode_record(record)), topic.topic_id, queue, held_after=_DUE)
    return ids


def _retain(store: ReplicaStore, max_bytes: int = CONFIG.segment_bytes) -> int:
    confirm_all(store)
    store.retain(max_bytes=max_bytes)
    confirm_all(store)
    store._maintenance.take_marks()
    return store._log.start


def _master(folder: Path, *, retains: bool = True) -> ReplicaStore:
    """Return a master with several segments, of which retention has dropped the first ones."""
    store = open_replica(folder / "master", CONFIG, FakeClock())
    store.begin_writing(1)
    _send(store, 60)
    _send(store, 5, queue=1)
    if retains:
        assert _retain(store) > 0
    _send(store, 30)
    confirm_all(store)
    return store


def _copy(folder: Path, log_start: int) -> LogCopy:
    return LogCopy(folder / "copy", CONFIG, FakeClock(), log_start, disk=QuickDisk())


def _crash(copy: LogCopy) -> None:
    copy._files.abandon()


def _finish(master: ReplicaStore, copy: LogCopy, max_bytes: int = 5000) -> ReplicaStore:
    """Complete the copy, open it, follow on, and compare it with its master."""
    copy_log(master, copy, max_bytes)
    store_id = copy.store_id
    copy.finish()
    follower = open_replica(copy._directory, CONFIG, FakeClock())
    assert (follower.store_id, follower.follows) == (store_id, True)
    assert follower.confirm_offset == follower.log_end
    ship(master, follower, max_bytes)
    for store in (master, follower):
        confirm_all(store)
    assert_same(master, follower)
    return follower


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "_CHECKPOINT_BYTES", 20_000)


# Copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retains", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 5000, 1 << 20])
def test_an_empty_directory_gets_the_log_and_follows(tmp_path: Path, retains: bool, max_bytes: int) -> None:
    master = _master(tmp_path, retains=retains)
    start = master._log.start
    assert len(master.timers_after((-1, -1), 1 << 60, 100)) == 9 + 1 + 4  # retention carries them forward
    follower = _finish(master, _copy(tmp_path, start), max_bytes)
    assert follower._log.start == start
    for segment in master._log.segments:  # the same bytes, with the blank ends of segments
        path = tmp_path / "copy" / "commitlog" / segment.file.path.name
        assert path.read_bytes() == segment.file.path.read_bytes()
    for queue in (0, 1):
        kept = master.state.start_offsets.get(QueueKey(master.create_topic("orders").topic_id, queue), 0)
        assert read_bodies(follower, "orders", queue, kept) == read_bodies(master, "orders", queue, kept)
    _send(master, 3)
    ship(master, follower, 1 << 20)
    for store in (master, follower):
        confirm_all(store)
    assert_same(master, follower)
    follower.close()
    again = open_replica(tmp_path / "copy", CONFIG, FakeClock())
    assert_same(master, again)
    again.abandon()
    master.abandon()


def test_lookups_by_id_answer_as_the_masters(tmp_path: Path) -> None:
    master = open_replica(tmp_path / "master", CONFIG, FakeClock())
    master.begin_writing(1)
    old = _send(master, 60)
    _retain(master)
    new = _send(master, 10)
    confirm_all(master)
    follower = _finish(master, _copy(tmp_path, master._log.start))
    for message_id in old + new:
        assert follower.find("orders", message_id) == master.find("orders", message_id)
    assert not follower.find("orders", old[0])
    assert [found.record.message_id for found in follower.find("orders", new[0])] == new[:1]
    for store in (master, follower):
        store.abandon()


def test_only_confirmed_records_are_copied(tmp_path: Path) -> None:
    master = _master(tmp_path)
    confirmed = master.confirm_offset
    _send(master, 5)
    copy = _copy(tmp_path, master._log.start)
    copy_log(master, copy, 1 << 20)  # the last chunk is confirmed in part
    assert copy.end == confirmed
    begin, data = master.read_chunk(copy.end, 1 << 20)
    assert copy.append(begin, data, confirmed) == confirmed
    _finish(master, copy).abandon()
    master.abandon()


def test_a_copy_needs_a_snapshot(tmp_path: Path) -> None:
    master = _master(tmp_path)
    copy = _copy(tmp_path, master._log.start)
    copy_log(master, copy, 1000, 1)
    assert not copy.can_finish
    with pytest.raises(InvalidArgumentError, match="no snapshot yet"):
        copy.finish()
    with pytest.raises(StoreLockedError):
        open_replica(tmp_path / "copy", CONFIG, FakeClock())
    _finish(master, copy).abandon()
    master.abandon()


def test_no_store_opens_an_incomplete_copy(tmp_path: Path) -> None:
    master = _master(tmp_path)
    copy = _copy(tmp_path, master._log.start)
    copy_log(master, copy, 5000, 5)
    copy.close()
    for open_store in (ReplicaStore, DiskStore):
        with pytest.raises(IncompleteCopyError, match="incomplete copy"):
            open_store(tmp_path / "copy", CONFIG, FakeClock())
    with pytest.raises(IncompleteCopyError):
        check_data_directory(tmp_path / "copy")
    _finish(master, _copy(tmp_path, master._log.start)).abandon()
    check_data_directory(tmp_path / "copy")
    master.abandon()


def test_a_log_starts_with_a_segment(tmp_path: Path) -> None:
    for log_start in (-CONFIG.segment_bytes, 8):
        with pytest.raises(InvalidArgumentError, match="begins at"):
            _copy(tmp_path, log_start)


# Continuing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [LogCopy.close, _crash])
def test_a_copy_continues(tmp_path: Path, stop: object) -> None:
    assert callable(stop)
    master = _master(tmp_path)
    copy, stops = _copy(tmp_path, master._log.start), 0
    store_id, could_finish = copy.store_id, False
    while copy_log(master, copy, 7000, 3):
        before = copy.end, copy.epochs
        could_finish = copy.can_finish
        stop(copy)
        copy = _copy(tmp_path, master._log.start)
        stops += 1
        assert ((copy.end, copy.epochs), copy.store_id) == (before, store_id)
        assert copy.flushed == copy.end
        assert copy.can_finish == could_finish
    assert stops > 5
    _finish(master, copy).abandon()
    master.abandon()


def test_a_copy_begins_again_if_it_cannot_continue(tmp_path: Path) -> None:
    master = _master(tmp_path)
    start = master._log.start
    copy = _copy(tmp_path, start)
    copy_log(master, copy, 5000, 5)
    store_id = copy.store_id
    copy.close()
    later = _copy(tmp_path, start + CONFIG.segment_bytes)  # retention went on
    assert (later.start, later.end, later.store_id) == (start + CONFIG.segment_bytes,) * 2 + (store_id,)
    later.close()
    config = replace(CONFIG, segment_bytes=2 * CONFIG.segment_bytes)
    other = LogCopy(tmp_path / "copy", config, FakeClock(), 0, disk=QuickDisk())
    assert (other.start, other.end, other.store_id) == (0, 0, store_id)
    other.close()
    _finish(master, _copy(tmp_path, start)).abandon()
    master.abandon()


def test_a_damaged_copy_begins_again(tmp_path: Path) -> None:
    master = _master(tmp_path)
    start = master._log.start
    copy = _copy(tmp_path, start)
    copy_log(master, copy, 5000, 9)
    copy.close()
    path = tmp_path / "copy" / "commitlog" / f"{start:020d}"
    damaged = bytearray(path.read_bytes())
    damaged[4000] ^= 1
    path.write_bytes(damaged)
    copy = _copy(tmp_path, start)
    assert copy.end == start
    _finish(master, copy).abandon()
    master.abandon()


def test_a_copy_of_another_log_is_discarded(tmp_path: Path) -> None:
    master = _master(tmp_path)
    copy = _copy(tmp_path, 0)
    other = open_replica(tmp_path / "other", CONFIG, FakeClock())
    other.begin_writing(1)
    _send(other, 3)
    confirm_all(other)
    copy_log(other, copy, 5000)
    assert copy.end > 0
    copy.begin_again(master._log.start)
    assert (copy.start, copy.end, copy.epochs) == (master._log.start, master._log.start, [])
    _finish(master, copy).abandon()
    for store in (master, other):
        store.abandon()


def test_retention_of_the_master_during_a_copy(tmp_path: Path) -> None:
    master = _master(tmp_path)
    copy = _copy(tmp_path, master._log.start)
    copy_log(master, copy, 5000, 1)
    _send(master, 60)
    assert _retain(master) > copy.end
    with pytest.raises(OffsetOutOfRangeError, match="out of range"):
        copy_log(master, copy, 5000)
    copy.close()
    copy = _copy(tmp_path, master._log.start)
    assert copy.end == copy.start == master._log.start
    _finish(master, copy).abandon()
    master.abandon()


# A directory with a log --------------------------------------------------------------------------


def test_a_follower_behind_the_log_start_gives_up_its_log(tmp_path: Path) -> None:
    master = open_replica(tmp_path / "master", CONFIG, FakeClock())
    follower = open_replica(tmp_path / "copy", CONFIG, FakeClock())
    master.begin_writing(1)
    _send(master, 3)
    ship(master, follower, 5000)
    for store in (master, follower):
        confirm_all(store)
    _send(master, 3)
    ship(master, follower, 5000)
    confirmed, end = follower.confirm_offset, follower.log_end
    unconfirmed = bytes(follower._log.read(confirmed, end))
    store_id = follower.store_id
    follower.checkpoint()
    follower.close()
    _send(master, 60)
    assert _retain(master) > end
    copy = _copy(tmp_path, master._log.start)
    assert (copy.store_id, copy.bytes_cut, copy.epochs) == (store_id, len(unconfirmed), [])
    [kept] = (tmp_path / "copy").glob("cut-off-*")
    assert (kept.name, kept.read_bytes()) == (f"cut-off-{confirmed:020d}", unconfirmed)
    assert not list((tmp_path / "copy").glob("consumequeue/**/*"))
    assert not (tmp_path / "copy" / "state.db").exists()
    _finish(master, copy).abandon()
    assert kept.exists()
    master.abandon()


def test_a_log_that_can_follow_is_not_given_up(tmp_path: Path) -> None:
    master = _master(tmp_path)
    start = master._log.start
    copy = _copy(tmp_path, start)
    follower = _finish(master, copy)
    end = follower.log_end
    follower.close()
    for log_start in (0, start, end // CONFIG.segment_bytes * CONFIG.segment_bytes):
        with pytest.raises(InvalidArgumentError, match="follow it"):
            _copy(tmp_path, log_start)
    again = open_replica(tmp_path / "copy", CONFIG, FakeClock())
    assert_same(master, again)
    for store in (master, again):
        store.abandon()


def test_an_open_store_is_not_given_up(tmp_path: Path) -> None:
    store = open_replica(tmp_path / "copy", CONFIG, FakeClock())
    with pytest.raises(StoreLockedError):
        _copy(tmp_path, 0)
    store.abandon()


# Chunks that are refused -------------------------------------------------------------------------


def test_bad_chunks_are_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    master = _master(tmp_path)
    copy = _copy(tmp_path, master._log.start)
    begin, data = master.read_chunk(copy.end, 9000)
    confirmed = master.confirm_offset
    chosen = random.Random(1)
    for at in [4, 60, *(chosen.randrange(len(data)) for _ in range(200))]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << chosen.randrange(8)
        with pytest.raises(RecordFormatError):
            copy.append(begin, bytes(flipped), confirmed)
    for cut in (b"", data[:-8], data + bytes(8), data[8:]):
        with pytest.raises(RecordFormatError):
            copy.append(begin, cut, confirmed)
    for other in (0, begin + 8, begin - CONFIG.segment_bytes, begin + CONFIG.segment_bytes, -8, 1 << 63, 1 << 70):
        with pytest.raises(RecordFormatError):
            copy.append(other, data, confirmed)
    later = master.read_chunk(begin + len(data), 9000)
    with pytest.raises(OffsetOutOfRangeError):
        copy.append(*later, confirmed)
    assert copy.end == copy.start
    assert (tmp_path / "copy" / "commitlog" / f"{begin:020d}").read_bytes() == bytes(CONFIG.segment_bytes)
    _finish(master, copy).abandon()
    master.abandon()


def _stamped(offset: int, *, size: int = 0, epoch: int = 1, kind: RecordKind = RecordKind.MESSAGE) -> bytes:
    stamp = Stamp(commitlog_offset=offset, topic_id=1, epoch=epoch, kind=kind)
    return encode_record(Record("orders", b"\xff" * size), stamp)


def test_records_of_another_segment_or_an_older_epoch_are_refused(tmp_path: Path) -> None:
    copy, follower = _copy(tmp_path, 0), open_replica(tmp_path / "follower", CONFIG, FakeClock())
    first = _stamped(0, size=60_000, epoch=2)
    assert copy.append(0, first, 1 << 40) == follower.append_raw(0, first) == len(first)
    at = len(first)
    records = []
    while at < CONFIG.segment_bytes:
        records.append(_stamped(at, size=2000, epoch=2))
        at += len(records[-1])
    with pytest.raises(OffsetOutOfRangeError, match="exceed the segment"):
        copy.append(len(first), b"".join(records), 1 << 40)
    with pytest.raises(OffsetOutOfRangeError, match="exceed the segment"):
        follower.append_raw(len(first), b"".join(records))
    with pytest.raises(RecordFormatError, match="stale epoch"):
        copy.append(len(first), _stamped(len(first), epoch=1), 1 << 40)
    one = _stamped(len(first), epoch=2)
    with pytest.raises(RecordFormatError, match="several epochs"):
        copy.append(len(first), one + _stamped(len(first) + len(one), epoch=3), 1 << 40)
    with pytest.raises(RecordFormatError, match="control record"):
        copy.append(len(first), _stamped(len(first), size=3, epoch=2, kind=RecordKind.CONTROL), 1 << 40)
    assert copy.end == follower.log_end == len(first)
    for path in (tmp_path / "copy", tmp_path / "follower"):
        assert (path / "commitlog" / f"{0:020d}").stat().st_size == CONFIG.segment_bytes
    copy.close()
    follower.abandon()


# Any order of appends, retention, elections, copying and crashes ---------------------------------


class _Group:
    """Two replicas in the in-sync set, and a newcomer that copies the log of the master."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chosen = random.Random(seed)
        self.folder = folder
        self.master, self.other = (open_replica(folder / name, CONFIG, FakeClock()) for name in ("a", "b"))
        self.epoch = 1
        self.master.begin_writing(1)
        self.copy: LogCopy | None = None
        self.counts = dict.fromkeys(["append", "confirm", "retain", "copying", "stop", "elect", "again", "part"], 0)

    def step(self) -> None:
        what = self.chosen.choices(["append", "confirm", "retain", "copying", "stop", "elect"], [6, 6, 1, 12, 2, 1])[0]
        getattr(self, what)()
        self.counts[what] += 1

    def append(self) -> None:
        _send(self.master, self.chosen.randint(1, 8), self.chosen.choice([10, 3000]), self.chosen.randrange(2))
        if self.chosen.random() < 0.1:
            self.master.snapshot()

    def confirm(self) -> None:
        """Let the follower get a part of the log, and confirm what both have."""
        ship(self.master, self.other, 9000, self.chosen.randint(1, 6))
        both = self.other.log_end
        for store in (self.master, self.other):
            store._flusher.wait(store.log_end, 10)
            if both > self.master.epochs[-1].start_offset:
                store.confirmation.advance(both)
                store._maintenance.take_marks()

    def retain(self) -> None:
        if self.master.log_end > self.master._log.start + 2 * CONFIG.segment_bytes:
            self.master.retain(max_bytes=CONFIG.segment_bytes)

    def copying(self) -> None:
        if self.copy is None:
            before = self.master.confirm_offset
            self.copy = _copy(self.folder, self.master._log.start)
            self.counts["again"] += self.copy.end == self.copy.start
            self.counts["part"] += self.copy.end > self.copy.start
            assert self.copy.end <= before
        try:
            copy_log(self.master, self.copy, self.chosen.choice([1, 4000, 1 << 20]), self.chosen.randint(1, 9))
        except OffsetOutOfRangeError:
            assert self.copy.end < self.master._log.start
            self.stop()

    def stop(self) -> None:
        if self.copy is not None:
            self.chosen.choice([LogCopy.close, _crash])(self.copy)
            self.copy = None

    def elect(self) -> None:
        """Elect the follower. The old master cuts off what it never had."""
        self.epoch += 1
        self.master.stop_writing(LEFT)
        self.master, self.other = self.other, self.master
        self.other.cut(self.master.log_end)
        self.master.begin_writing(self.epoch)

    def settle(self) -> None:
        ship(self.master, self.other, 1 << 20)
        self.confirm()
        self.stop()
        self.copying()
        copy = self.copy or _copy(self.folder, self.master._log.start)
        copy_log(self.master, copy, 1 << 20)
        assert copy.can_finish  # a master drops no segment before a snapshot is confirmed
        follower = _finish(self.master, copy)
        assert_same(self.other, follower)
        for store in (self.master, self.other, follower):
            store.abandon()


def test_a_copy_agrees_after_any_order_of_events(tmp_path: Path) -> None:
    total: dict[str, int] = {}
    for seed in range(40):
        group = _Group(tmp_path / str(seed), seed)
        try:
            for _ in range(80):
                group.step()
            group.settle()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        for what, count in group.counts.items():
            total[what] = total.get(what, 0) + count
    assert min(total.values()) > 20, total


def test_after_an_unclean_election_confirmed_records_are_kept_aside_and_the_log_is_copied(tmp_path: Path) -> None:
    former, behind, copied = (open_replica(tmp_path / name, CONFIG, FakeClock()) for name in ("a", "b", "copy"))
    former.begin_writing(1)
    _send(former, 5)
    for store in (behind, copied):
        ship(former, store, 5000)
    common = former.log_end
    _send(former, 60)  # more than a segment
    ship(former, copied, 5000)
    for store in (former, copied, behind):
        confirm_all(store)
    lost = [bytes(copied._log.read(common, CONFIG.segment_bytes)), copied.log_end]
    copied.close()
    behind.begin_writing(2, unclean=True)
    _send(behind, 10, queue=1)
    confirm_all(behind)
    with pytest.raises(InvalidArgumentError, match="follow it"):
        _copy(tmp_path, 0)
    copy = LogCopy(tmp_path / "copy", CONFIG, FakeClock(), 0, common, disk=QuickDisk())
    first, *others = sorted((tmp_path / "copy").glob("cut-off-*"))
    assert first.read_bytes() == lost[0]
    assert others
    assert copy.bytes_cut == sum(path.stat().st_size for path in (first, *others))
    _crash(copy)  # the next start continues
    copy = _copy(tmp_path, 0)
    follower = _finish(behind, copy)
    assert sorted((tmp_path / "copy").glob("cut-off-*")) == [first, *others]
    for store in (former, behind, follower):
        store.abandon()
