"""Maintenance of a store: checkpoints, snapshots, retention, disk watermarks."""

import errno
import json
import logging
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from litemq.clock import FakeClock, SystemClock
from litemq.errors import DiskFullError, OffsetOutOfRangeError, StoreFailedError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, Row
from litemq.storage import maintenance
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import READ_ONLY, Disk, OpenFile
from litemq.storage.log.checkpoint import CheckpointFile
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.filling_disk import FillingDisk
from support.stores import CONFIG, open_store, read_bodies, rows_of, send_bodies
from support.waiting import HANG_S, wait_until

BY_ITSELF = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=10
)


def _send(store: DiskStore, count: int = 1, size: int = 10, queue: int = 0) -> int:
    topic = store.create_topic("orders", 2)
    batch = bytearray(b"".join(encode_record(Record("orders", bytes(size))) for _ in range(count)))
    end = store.append(batch, topic.topic_id, queue).end
    store.wait_confirmed(end, HANG_S)
    return end


def test_nothing_wakes_up_while_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_MAX_REST", 100 * HANG_S)
    store = DiskStore(tmp_path, BY_ITSELF, SystemClock(), host="here")
    for _ in range(3):
        end = _send(store)
        wait_until(lambda: store._parts.wake_maintenance is not None)  # it rests
        latest = CheckpointFile(READ_ONLY, tmp_path / "checkpoint").latest
        assert latest is not None
        assert min(latest.queues_applied, latest.index_applied, latest.timers_applied, latest.state_applied) >= end
    store.close()  # ends the rest


def test_no_rest_while_messages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_MAX_REST", 100 * HANG_S)
    monkeypatch.setattr(Disk, "used_fraction", lambda _disk, _path: 0.99)
    store = DiskStore(tmp_path, BY_ITSELF, SystemClock(), host="here")
    wait_until(lambda: store._parts.full_disk is not None)
    monkeypatch.setattr(Disk, "used_fraction", lambda _disk, _path: 0.5)
    wait_until(lambda: store._parts.full_disk is None)
    store.close()


def test_checkpoint_and_state_are_written_in_the_background(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, BY_ITSELF, SystemClock(), host="here", broker_name="broker-7")
    end = _send(store, 5)

    def followed() -> bool:
        latest = CheckpointFile(READ_ONLY, tmp_path / "checkpoint").latest
        return (
            latest is not None
            and min(latest.flushed, latest.queues_applied, latest.index_applied, latest.state_applied) >= end
        )

    wait_until(followed)
    assert json.loads((tmp_path / "topics.json").read_text()) == {
        "version": 1,
        "broker": "broker-7",
        "topics": [{"topic_id": 16, "name": "orders", "queues": 2}],
    }
    store.delete_topic("orders")
    wait_until(lambda: json.loads((tmp_path / "topics.json").read_text())["topics"] == [])
    store.close()


def test_a_snapshot_is_written_when_the_log_has_grown(tmp_path: Path) -> None:
    config = StoreConfig(
        segment_bytes=69_632, max_record_bytes=4096, checkpoint_interval_ms=10, snapshot_every_bytes=10_000
    )
    store = DiskStore(tmp_path, config, SystemClock(), host="here")
    _send(store, 10, 1000)

    def has_one() -> bool:
        latest = CheckpointFile(READ_ONLY, tmp_path / "checkpoint").latest
        return latest is not None and latest.snapshot > 0

    wait_until(has_one)
    store.abandon()


def test_a_disk_that_fills_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segment = CONFIG.segment_bytes
    disk = FillingDisk(20 * segment)
    store = DiskStore(tmp_path, CONFIG, FakeClock(), disk=disk, host="here")
    disk.folder = tmp_path
    for _ in range(10):
        _send(store, 40, 1000)
    count = len(store._log.segments)
    store._maintenance.watch_disk()
    assert len(store._log.segments) == count  # half full: no segment is dropped
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) == 2
    disk.others = 14 * segment
    start_offset = store.state.start_offsets[QueueKey(16, 0)]
    store._maintenance.watch_disk()
    assert store.state.start_offsets[QueueKey(16, 0)] > start_offset  # the oldest was dropped early
    dropped = store._log.start
    since = datetime.fromtimestamp(store._clock.wall_ms() / 1000, UTC)
    assert (
        f"{tmp_path}: the disk was 95% full: dropped the oldest {dropped} bytes of the log before their retention, "
        f"with messages since {since:%Y-%m-%d %H:%M:%S} UTC. Free disk space"
    ) in caplog.text
    disk.others = 17 * segment
    store._maintenance.watch_disk()
    with pytest.raises(DiskFullError, match=r"full, and messages are refused from 90%"):
        _send(store)
    # The broker's own records are still accepted, from the reserve if there is no other space.
    disk.others = 20 * segment
    before = len(list((tmp_path / "commitlog").glob("reserve-*")))
    for number in range(segment // 200):
        store.commit_offsets("billing", [(QueueKey(16, 0), number)])
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) < before
    disk.others = 0
    store._maintenance.watch_disk()
    _send(store)
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) == 2
    rows = rows_of(store)
    store.wait_confirmed(store._log.end)
    store.abandon()
    again = DiskStore(tmp_path, CONFIG, FakeClock(), host="here")
    assert rows_of(again) == rows
    again.close()


class _RefusingDisk(FillingDisk):
    """A disk that also refuses writes of the projections when it is full."""

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        is_in_place = file.path.parent.name == "commitlog" or file.path.name == "checkpoint"
        if self.folder is not None and not is_in_place and self._used() >= self.capacity:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(file, data, offset)


def _on_a_full_disk(folder: Path, clock: FakeClock) -> tuple[DiskStore, _RefusingDisk]:
    """Return a store of several segments and a reserve, whose disk is full of other files."""
    disk = _RefusingDisk(20 * CONFIG.segment_bytes)
    store = DiskStore(folder, CONFIG, clock, disk=disk, host="here")
    disk.folder = folder
    for _ in range(10):
        _send(store, 40, 1000)
    store._maintenance.watch_disk()
    disk.others = 30 * CONFIG.segment_bytes
    return store, disk


def test_a_disk_that_is_full_at_once_is_cleaned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store, disk = _on_a_full_disk(tmp_path, clock)
    disk.others = disk.capacity - disk._used() + disk.others  # exactly full: the reserve is what can be given up
    start_offset = store.state.start_offsets[QueueKey(16, 0)]
    clock.advance(10)
    store._maintenance._run()
    assert "dropped the oldest " in caplog.text
    assert store.state.start_offsets[QueueKey(16, 0)] > start_offset
    assert disk._used() < disk.capacity
    _send(store)
    clock.advance(10)
    store._maintenance._run()
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) == 2
    store.close()


def test_a_disk_that_stays_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store, disk = _on_a_full_disk(tmp_path, clock)
    for _ in range(5):
        clock.advance(2)
        with pytest.raises(DiskFullError):
            store._maintenance._run()
    assert caplog.text.count("cannot drop the oldest segment") == 1  # and it is tried again after a minute
    assert caplog.text.count("cannot reserve a segment") == 1
    with pytest.raises(DiskFullError, match="messages are refused from 90%"):
        _send(store)
    end = store.state.end_offsets[QueueKey(16, 0)]
    with pytest.raises(DiskFullError):
        store.close()
    disk.others = 0
    again = DiskStore(tmp_path, CONFIG, FakeClock(), host="here")
    assert again.state.end_offsets[QueueKey(16, 0)] == end
    assert decode_record(again.read_queue(QueueKey(16, 0), end - 1, 1)).record.topic == "orders"
    again.close()


def test_a_broker_may_refuse_messages_and_delete_none(tmp_path: Path) -> None:
    segment = CONFIG.segment_bytes
    disk = FillingDisk(20 * segment)
    config = replace(CONFIG, disk_clean_percent=100, disk_refuse_percent=90)
    store = DiskStore(tmp_path, config, FakeClock(), disk=disk, host="here")
    disk.folder = tmp_path
    for _ in range(10):
        _send(store, 40, 1000)
    count = len(store._log.segments)
    disk.others = 30 * segment
    store._maintenance.watch_disk()
    assert len(store._log.segments) == count
    with pytest.raises(DiskFullError, match="messages are refused from 90%"):
        _send(store)
    store.close()


def test_retention_runs_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_RETENTION_INTERVAL_S", 0.01)
    config = StoreConfig(
        segment_bytes=69_632,
        max_record_bytes=4096,
        checkpoint_interval_ms=10,
        retention_ms=None,
        max_log_bytes=2 * 69_632,
    )
    store = DiskStore(tmp_path, config, SystemClock(), host="here")
    for _ in range(10):
        _send(store, 40, 1000)
    wait_until(lambda: store.state.start_offsets.get(QueueKey(16, 0), 0) > 0)
    store.close()


def test_a_checkpoint_leaves_queues_for_the_next_when_time_is_up(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, CONFIG, FakeClock(), host="here")
    topic = store.create_topic("orders", 50)
    for queue in range(50):
        end = store.append(bytearray(encode_record(Record("orders", bytes([queue])))), topic.topic_id, queue).end
    store.wait_confirmed(end, HANG_S)
    store.checkpoint(max_seconds=0)
    assert store._parts.files.projections.queues_applied < end
    store.abandon()
    again = DiskStore(tmp_path, CONFIG, FakeClock(), host="here")
    for queue in range(50):
        assert decode_record(again.read_queue(QueueKey(topic.topic_id, queue), 0, 1)).record.body == bytes([queue])
    again.checkpoint(max_seconds=HANG_S)
    assert again._parts.files.projections.queues_applied >= end
    again.close()


def test_a_failed_sync_of_a_checkpoint_stops_writing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class BrokenDisk(Disk):
        def sync_all(self, path: Path) -> None:
            raise OSError(5, "Input/output error", str(path))

    store = DiskStore(tmp_path, BY_ITSELF, SystemClock(), disk=BrokenDisk(), host="here")
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: store._log.failure is not None)
        with pytest.raises(StoreFailedError, match="sync failed"):
            _send(store)
    store.close()


def test_the_state_survives_retention_of_all_its_records(tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=1_000_000_000_000)
    store = open_store(tmp_path, clock)
    day = 86_400
    old = store.create_topic("old", 2)
    send_bodies(store, "old", [b"x"] * 5, 1)
    store.commit_offsets("billing", [(QueueKey(old.topic_id, 1), 3)])
    store.create_topic("busy", 1)
    sent = 0
    for _ in range(60):  # ten years
        clock.advance(61 * day)
        send_bodies(store, "busy", [b"y" * 3000] * 10)
        sent += 10
        store.retain(older_than_ms=clock.wall_ms() - 3 * day * 1000)
    assert store._log.start > 10 * CONFIG.segment_bytes
    assert len(store._log.segments) < 5
    key, busy = QueueKey(old.topic_id, 1), QueueKey(store.state.topic_ids["busy"], 0)
    assert (store.state.start_offsets[key], store.state.end_offsets[key]) == (5, 5)
    assert store.state.end_offsets[busy] == sent
    start_offset = store.state.start_offsets[busy]
    assert 0 < start_offset < sent
    assert len(read_bodies(store, "busy", first=start_offset)) == sent - start_offset
    with pytest.raises(OffsetOutOfRangeError, match=f"it has {start_offset}"):
        store.read_queue(busy, start_offset - 1, 10)
    rows = [row for row in store.state.rows() if row.queue.topic_id != 1]
    store.close()
    # Only the log is left.
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "checkpoint").unlink()
    again = open_store(tmp_path, clock)
    assert [row for row in again.state.rows() if row.queue.topic_id != 1] == rows
    assert len(read_bodies(again, "busy", first=start_offset)) == sent - start_offset
    assert again.state.group_offsets["billing", key] == 3
    # An idle queue never reuses an offset.
    assert send_bodies(again, "old", [b"z"], 1).queue_offsets.tolist() == [5]
    again.close()


def test_retention_records_what_it_drops_for_each_group(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic = store.create_topic("orders", 1)
    key = QueueKey(topic.topic_id, 0)
    for _ in range(8):
        send_bodies(store, "orders", [b"x" * 3000] * 10)
    store.commit_offsets("slow", [(key, 2)])
    store.commit_offsets("fast", [(key, 60)])
    end = store._log.end
    start = store.retain(max_bytes=2 * CONFIG.segment_bytes)
    start_offset = store.state.start_offsets[key]
    assert 2 < start_offset < 60
    data = bytes(store._log.segment_of(end).read(end, end + 4096))
    said = Control.FromString(decode_record(data).record.body).retention_crossed
    assert said.log_start == start
    assert [(queue.topic_id, queue.queue_id, queue.least) for queue in said.queues if queue.topic_id != 1] == [
        (key.topic_id, 0, start_offset)
    ]
    assert [(loss.group, loss.from_offset, loss.to_offset) for loss in said.losses] == [("slow", 2, start_offset)]
    assert store.retain(max_bytes=1 << 40) == start
    store.close()


@pytest.mark.parametrize(
    ("error", "is_failure"),
    [(OSError(errno.EMFILE, "Too many open files"), False), (OSError(errno.EIO, "Input/output error"), True)],
)
def test_only_a_failed_sync_stops_the_store(tmp_path: Path, error: OSError, is_failure: bool) -> None:
    class Failing(Disk):
        error: OSError | None = None

        def sync_all(self, path: Path) -> None:
            if self.error is not None:
                raise self.error
            super().sync_all(path)

    disk = Failing()
    store = open_store(tmp_path, disk=disk)
    reasons: list[str] = []
    store.on_failure(reasons.append)
    _send(store)
    disk.error = error
    with pytest.raises(OSError, match=str(error.strerror)):
        store.checkpoint()
    disk.error = None
    assert (store.write_failure is not None) == bool(reasons) == is_failure
    if is_failure:
        with pytest.raises(StoreFailedError):
            _send(store)
        later: list[str] = []
        store.on_failure(later.append)  # a late listener hears of it, too
        assert later == reasons
        store.abandon()
    else:
        _send(store)
        store.checkpoint()
        store.close()
    assert len(reasons) == is_failure  # closing is no failure


def test_a_checkpoint_waits_for_a_writer_that_has_not_applied_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record may be flushed before its writer has applied it: ``state.db`` must not skip it."""
    store = open_store(tmp_path)
    changes = store._parts.changes
    checkpoint = threading.Thread(target=store.checkpoint)

    def add_late(end: int, control: Control, rows: list[Row]) -> None:
        store._flusher.wait(end, HANG_S)
        checkpoint.start()
        checkpoint.join(0.2)  # it would be over long since
        add_control(end, control, rows)

    add_control = changes.add_control
    with monkeypatch.context() as patched:
        patched.setattr(changes, "add_control", add_late)
        store.create_topic("orders", 1)
    checkpoint.join(HANG_S)
    rows = rows_of(store)
    store.abandon()
    again = open_store(tmp_path)
    assert rows_of(again) == rows
    assert again.state.topic("orders") is not None
    again.abandon()
