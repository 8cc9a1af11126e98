"""Retention waits for archives, as the topics' settings say."""

from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import DiskFullError
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue, TopicChanged
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey, TopicSettings
from litemq.types import Archived, Record
from support.filling_disk import FillingDisk
from support.waiting import HANG_S

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=0
)
HOUR = 3_600_000
KEY = QueueKey(16, 0)
QUIET = QueueKey(16, 1)


def _store(
    path: Path, archived: Archived, clock: FakeClock | None = None, *, wait_ms: int = 0, config: StoreConfig = CONFIG
) -> DiskStore:
    store = DiskStore(path, config, clock or FakeClock(), host="here")
    store.create_topic("orders", 2, TopicSettings(archived=archived, archive_wait_ms=wait_ms))
    return store


def _fill(store: DiskStore, topic: str = "orders", rounds: int = 10) -> None:
    topic_id = store.create_topic(topic, 2).topic_id
    for _ in range(rounds):
        batch = bytearray(b"".join(encode_record(Record(topic, bytes(1000))) for _ in range(40)))
        end = store.append(batch, topic_id, 0).end
    store.wait_confirmed(end, HANG_S)


def _report(store: DiskStore, offset: int, key: QueueKey = KEY) -> None:
    queue = Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=0, next=offset)
    store.append_control(
        Control(archived_through=ArchivedThrough(topic_id=key.topic_id, location="/a", queues=[queue], at=1))
    )


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def _crossings(store: DiskStore) -> list[Control]:
    found, key = [], QueueKey(1, 0)
    for offset in range(store.state.start_offsets.get(key, 0), store.state.end_offsets[key]):
        data = bytes(store.read_queue(key, offset, 1))
        control = Control.FromString(store.read_record(int.from_bytes(data[16:24], "big")).record.body)
        if control.HasField("retention_crossed"):
            found.append(control)
    return found


def test_block_keeps_unarchived_messages_of_any_age(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store = _store(tmp_path, Archived.BLOCK, clock)
    _fill(store)
    clock.advance(10_000 * HOUR / 1000)
    assert store.retain(older_than_ms=clock.wall_ms(), max_bytes=1) == 0
    assert store.retain(older_than_ms=clock.wall_ms(), max_bytes=1) == 0
    assert caplog.text.count("retention waits for the archive of orders") == 1, "logged once"
    _report(store, 150)
    start = store.retain(max_bytes=1)
    assert 0 < start < 400 * 1100
    assert 0 < store.state.start_offsets[KEY] <= 150, "only archived messages, in whole segments"
    assert not any(control.retention_crossed.unarchived for control in _crossings(store))
    _report(store, 400)
    store.retain(max_bytes=1)
    assert store.state.start_offsets[KEY] > 300
    assert store.state.earliest(KEY) == 0
    rows = _rows(store)
    store.wait_confirmed(store.log_end)
    store.abandon()
    again = DiskStore(tmp_path, CONFIG, clock, host="here")
    assert _rows(again) == rows
    again.close()


def test_a_state_rebuilt_from_a_snapshot_is_the_same(tmp_path: Path) -> None:
    store = _store(tmp_path, Archived.BLOCK)
    _fill(store)
    _report(store, 250)
    store.retain(max_bytes=1)
    _report(store, 300)
    rows = _rows(store)
    store.wait_confirmed(store.log_end)
    store.abandon()
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    again = DiskStore(tmp_path, CONFIG, FakeClock(), host="here")
    assert _rows(again) == rows
    again.close()


def test_topics_without_an_archive_do_not_block(tmp_path: Path) -> None:
    store = _store(tmp_path, Archived.NO)
    _fill(store)
    assert store.retain(max_bytes=1) > 0
    store.append_control(
        Control(topic_changed=TopicChanged(topic=store.state.topics[16]._replace(archived=Archived.BLOCK).to_wire()))
    )
    start = store.retain(max_bytes=1)
    _fill(store)
    assert store.retain(max_bytes=1) == start, "a topic that is archived from now on blocks"
    store.delete_topic("orders")
    assert store.retain(max_bytes=1) > start
    store.close()


def test_drop_with_record_waits_and_records_the_losses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store = _store(tmp_path, Archived.DROP_WITH_RECORD, clock, wait_ms=5 * HOUR)
    _fill(store)
    clock.advance(4 * HOUR / 1000)
    _fill(store, "others", 4)
    assert store.retain(max_bytes=1) == 0
    _report(store, 10)
    store.commit_offsets("slow", [(KEY, 5)])
    clock.advance(2 * HOUR / 1000)
    assert store.retain(max_bytes=1) > 0
    (crossing,) = _crossings(store)
    (lost,) = crossing.retention_crossed.unarchived
    least = store.state.start_offsets[KEY]
    assert (lost.topic_id, lost.queue_id, lost.from_offset, lost.to_offset) == (16, 0, 10, least)
    assert f"{least - 10} messages of orders that its archive lacks" in caplog.text
    (loss,) = crossing.retention_crossed.losses
    assert (loss.from_offset, loss.to_offset) == (10, least), "archived messages are not lost to a group"
    store.close()


def test_the_waiting_time_defaults_to_the_stores(tmp_path: Path) -> None:
    clock = FakeClock()
    config = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, checkpoint_interval_ms=0, archive_wait_ms=HOUR)
    store = _store(tmp_path, Archived.DROP_WITH_RECORD, clock, config=config)
    _fill(store)
    clock.advance(0.5 * HOUR / 1000)
    _fill(store, "others", 4)
    assert store.retain(max_bytes=1) == 0
    clock.advance(HOUR / 1000)
    assert store.retain(max_bytes=1) > 0
    store.close()


@pytest.mark.parametrize("archived", [Archived.BLOCK, Archived.DROP_WITH_RECORD])
def test_a_disk_that_fills_up(archived: Archived, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segment = CONFIG.segment_bytes
    disk = FillingDisk(20 * segment)
    store = DiskStore(tmp_path, CONFIG, FakeClock(), disk=disk, host="here")
    store.create_topic("orders", 2, TopicSettings(archived=archived))
    disk.folder = tmp_path
    _fill(store)
    disk.others = 14 * segment
    store._maintenance.watch_disk()
    assert (store.state.start_offsets[KEY] > 0) == (archived == Archived.DROP_WITH_RECORD), "urgent: only block waits"
    assert ("dropped the oldest " in caplog.text) == (archived == Archived.DROP_WITH_RECORD)
    if archived == Archived.BLOCK:
        store._maintenance.watch_disk()
        with pytest.raises(DiskFullError, match=r"retention waits for the archive of orders"):
            _fill(store, rounds=1)
        _report(store, 400)
        store._maintenance.watch_disk()
        _fill(store, rounds=1)
    store.close()


def test_an_empty_queue_does_not_block(tmp_path: Path) -> None:
    store = _store(tmp_path, Archived.BLOCK)
    _fill(store)
    _report(store, 400)
    assert store.retain(max_bytes=1) > 0
    appended = store.append(bytearray(encode_record(Record("orders", b"x"))), 16, np.array([1]))
    store.wait_confirmed(appended.end)
    start = store.retain(max_bytes=1)
    _fill(store, "others")
    kept = store.retain(max_bytes=1)
    assert start <= kept <= int(appended.log_offsets[0])
    assert store.state.unarchived() == [(QUIET, 0)]
    store.close()
