"""A store looks after itself: checkpoints, snapshots, retention, and a disk that fills up."""

import asyncio
import json
import logging
import shutil
import threading
from pathlib import Path

import pytest

from litemq.clock import FakeClock, SystemClock
from litemq.errors import DiskFullError, OffsetOutOfRangeError, StoreFailedError
from litemq.format.record import decode_record, encode_record
from litemq.storage import disk_store
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import READ_ONLY, Disk, OpenFile
from litemq.storage.log.checkpoint import CheckpointFile
from litemq.storage.queues import queues
from litemq.storage.queues.queues import Queues
from litemq.storage.state import QueueKey
from litemq.storage.state.persistence.database import StateDatabase
from litemq.types import Record
from support.filling_disk import FillingDisk
from support.waiting import HANG_S, wait_until

BY_HAND = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=0)
BY_ITSELF = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=10)


def _send(store: DiskStore, count: int = 1, size: int = 10, queue: int = 0) -> int:
    topic = store.create_topic("orders", 2)
    batch = bytearray(b"".join(encode_record(Record("orders", bytes(size))) for _ in range(count)))
    end = store.append(batch, topic.topic_id, queue).end
    store.wait_confirmed(end, HANG_S)
    return end


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def test_a_checkpoint_and_the_state_follow_by_themselves(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, BY_ITSELF, SystemClock(), host="here", broker_name="broker-7")
    end = _send(store, 5)

    def followed() -> bool:
        latest = CheckpointFile(READ_ONLY, tmp_path / "checkpoint").latest
        return latest is not None and min(latest.flushed, latest.queues_applied, latest.index_applied, latest.state_applied) >= end

    wait_until(followed)
    assert json.loads((tmp_path / "topics.json").read_text()) == {
        "version": 1,
        "broker": "broker-7",
        "topics": [{"topic_id": 16, "name": "orders", "queues": 2}],
    }
    store.delete_topic("orders")
    wait_until(lambda: json.loads((tmp_path / "topics.json").read_text())["topics"] == [])
    store.close()


def test_a_snapshot_comes_by_itself_when_the_log_has_grown(tmp_path: Path) -> None:
    config = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, checkpoint_interval_ms=10, snapshot_every_bytes=10_000)
    store = DiskStore(tmp_path, config, SystemClock(), host="here")
    _send(store, 10, 1000)

    def has_one() -> bool:
        latest = CheckpointFile(READ_ONLY, tmp_path / "checkpoint").latest
        return latest is not None and latest.snapshot > 0

    wait_until(has_one)
    store.abandon()


def test_the_database_is_used_and_made_anew_when_it_is_gone_or_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(tmp_path / "one", BY_HAND, FakeClock(), host="here")
    _send(store, 5)
    store.commit_offsets("billing", [(QueueKey(16, 0), 2)])
    store.checkpoint()
    old = tmp_path / "old.db"
    shutil.copy(tmp_path / "one" / "state.db", old)
    shutil.copy(tmp_path / "one" / "state.db-wal", tmp_path / "old.db-wal")
    _send(store, 3, queue=1)
    store.wait_confirmed(store.commit_offsets("audit", [(QueueKey(16, 1), 1)]).end)
    expected = _rows(store)
    store.checkpoint()
    store.abandon()

    replaced: list[int] = []
    anew = StateDatabase.anew

    def noted(path: Path) -> StateDatabase:
        replaced.append(1)
        return anew(path)

    monkeypatch.setattr(StateDatabase, "anew", noted)
    for version in ("as it is", "old", "gone", "damaged", "of a longer log"):
        place = tmp_path / "another"
        shutil.copytree(tmp_path / "one", place)
        database = place / "state.db"
        match version:
            case "old":
                shutil.copy(old, database)
                shutil.copy(tmp_path / "old.db-wal", place / "state.db-wal")
            case "gone":
                database.unlink()
            case "damaged":
                database.write_bytes(database.read_bytes()[:-300] + bytes(300))
            case "of a longer log":
                opened = StateDatabase(database)
                opened.commit(1 << 40, [])
                opened.close()
        replaced.clear()
        again = DiskStore(place, BY_HAND, FakeClock(), host="here")
        assert _rows(again) == expected, version
        assert bool(replaced) == (version in {"gone", "damaged", "of a longer log"}), version
        again.abandon()
        shutil.rmtree(place)


def test_level_memory_loses_at_most_what_was_not_flushed_and_nobody_saw_that(tmp_path: Path) -> None:
    class StuckDisk(Disk):
        stuck = False

        def fsync(self, file: OpenFile) -> None:
            if self.stuck and file.path.parent.name == "commitlog":
                raise OSError(5, "Input/output error")
            super().fsync(file)

    disk = StuckDisk()
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), disk=disk, host="here")
    safe = _send(store, 3)
    disk.stuck = True
    topic = store.create_topic("orders")
    appended = store.append(bytearray(encode_record(Record("orders", b"level 1"))), topic.topic_id, 0)  # acknowledged at once
    assert appended.queue_offsets.tolist() == [3]
    with pytest.raises(StoreFailedError):
        store.wait_confirmed(appended.end, HANG_S)
    assert store.confirm_offset == safe
    key = QueueKey(topic.topic_id, 0)
    assert store.read_queue(key, 3, 10) == b""
    assert asyncio.run(store.pull(key, 3, 10)) == b""
    assert store.find("orders", "") == []
    with pytest.raises(OffsetOutOfRangeError):
        store.read_record(int(appended.log_offsets[0]))
    with pytest.raises(StoreFailedError, match="fsync failed"):
        store.append(bytearray(encode_record(Record("orders", b"after"))), topic.topic_id, 0)
    store.close()
    segment = next((tmp_path / "commitlog").glob("0*"))
    with segment.open("r+b") as file:  # the power went: what was not synced is not there
        file.seek(safe)
        file.write(bytes(appended.end - safe))
    again = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    assert again.state.next[key] == 3
    again.close()


def test_a_disk_that_fills_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segment = BY_HAND.segment_bytes
    disk = FillingDisk(20 * segment)
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), disk=disk, host="here")
    disk.folder = tmp_path
    for _ in range(10):
        _send(store, 40, 1000)
    count = len(store._log.segments)
    store._watch_the_disk()
    assert len(store._log.segments) == count  # half full: nothing goes
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) == 2
    disk.others = 14 * segment
    least = store.state.least[QueueKey(16, 0)]
    store._watch_the_disk()
    assert store.state.least[QueueKey(16, 0)] > least  # the oldest went early, and the log says so
    assert "before its time" in caplog.text
    disk.others = 17 * segment
    store._watch_the_disk()
    with pytest.raises(DiskFullError, match=r"full: from 90% on nothing is taken"):
        _send(store)
    # What the broker has to say goes on, from the reserve when there is nothing else.
    disk.others = 20 * segment
    before = len(list((tmp_path / "commitlog").glob("reserve-*")))
    for number in range(segment // 200):
        store.commit_offsets("billing", [(QueueKey(16, 0), number)])
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) < before
    disk.others = 0
    store._watch_the_disk()
    _send(store)
    assert len(list((tmp_path / "commitlog").glob("reserve-*"))) == 2
    rows = _rows(store)
    store.wait_confirmed(store._log.end)
    store.abandon()
    again = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    assert _rows(again) == rows
    again.close()


def test_retention_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_store, "_RETENTION_INTERVAL_S", 0.01)
    config = StoreConfig(
        segment_bytes=69_632, max_record_bytes=4096, checkpoint_interval_ms=10, retention_ms=None, max_log_bytes=2 * 69_632
    )
    store = DiskStore(tmp_path, config, SystemClock(), host="here")
    for _ in range(10):
        _send(store, 40, 1000)
    wait_until(lambda: store.state.least.get(QueueKey(16, 0), 0) > 0)
    store.close()


def test_what_the_time_is_not_enough_for_is_written_later(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    topic = store.create_topic("orders", 50)
    for queue in range(50):
        end = store.append(bytearray(encode_record(Record("orders", bytes([queue])))), topic.topic_id, queue).end
    store.wait_confirmed(end, HANG_S)
    store.checkpoint(most_seconds=0)
    assert store._files.projections.queues_applied < end
    store.abandon()
    again = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    for queue in range(50):
        assert decode_record(again.read_queue(QueueKey(topic.topic_id, queue), 0, 1)).record.body == bytes([queue])
    again.checkpoint(most_seconds=HANG_S)
    assert again._files.projections.queues_applied >= end
    again.close()


def test_an_interrupt_in_the_middle_of_a_write_ends_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    _send(store, 2)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Queues, "add_batch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _send(store)
    monkeypatch.undo()
    with pytest.raises(StoreFailedError, match="interrupted"):
        _send(store)
    store.close()
    again = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    _send(again)
    assert again.state.next[QueueKey(16, 0)] == 4  # the interrupted one is in the log, and has its offset
    again.close()


def test_a_checkpoint_that_cannot_sync_ends_writing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class BrokenDisk(Disk):
        def sync_all(self, path: Path) -> None:
            raise OSError(5, "Input/output error", str(path))

    store = DiskStore(tmp_path, BY_ITSELF, SystemClock(), disk=BrokenDisk(), host="here")
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: store._log.failure is not None)
        with pytest.raises(StoreFailedError, match="sync failed"):
            _send(store)
    store.close()


def test_cold_reads_do_not_run_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_KEPT", 0)  # what is in the files is not in memory
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    _send(store, 5)
    store.checkpoint(most_seconds=HANG_S)
    threads: list[str] = []
    read_queue = store.read_queue

    def noted(*arguments: int) -> bytes | memoryview:
        threads.append(threading.current_thread().name)
        return read_queue(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "read_queue", noted)
    assert len(asyncio.run(store.pull(QueueKey(16, 0), 0, 10))) > 0
    assert threads[0].startswith("litemq-cold-read")
    threads.clear()
    _send(store, 1)
    assert len(asyncio.run(store.pull(QueueKey(16, 0), 5, 10))) > 0
    assert threads == ["MainThread"]
    store.close()
