"""The store on disk: what is sent is read, what is known comes back, and nothing is read before it is safe."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError, OffsetOutOfRangeError, RecordFormatError
from litemq.format.record import decode_record, encode_record
from litemq.proto.control_pb2 import Control
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import Appended, DiskStore
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.waiting import HANG_S

CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=0)


def _open(folder: Path, clock: FakeClock | None = None, disk: Disk | None = None) -> DiskStore:
    return DiskStore(folder, CONFIG, clock or FakeClock(), disk=disk or Disk(), host="here")


def _send(store: DiskStore, topic: str, bodies: list[bytes], queue: int = 0) -> Appended:
    facts = store.state.topic(topic)
    assert facts is not None
    batch = bytearray(b"".join(encode_record(Record(topic, body)) for body in bodies))
    appended = store.append(batch, facts.topic_id, queue)
    store.wait_confirmed(appended.end, HANG_S)
    return appended


def _bodies(store: DiskStore, topic: str, queue: int = 0, first: int = 0) -> list[bytes]:
    facts = store.state.topic(topic)
    assert facts is not None
    bodies: list[bytes] = []
    while True:
        data = store.read_queue(QueueKey(facts.topic_id, queue), first, 100)
        if not data:
            return bodies
        at = 0
        while at < len(data):
            stored = decode_record(data, at)
            assert stored.stamp is not None
            assert stored.stamp.queue_offset == first
            bodies.append(stored.record.body)
            at += stored.size
            first += 1


def test_what_is_sent_is_read_also_after_a_restart(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.create_topic("orders", 2)
    bodies = [f"message {n}".encode() * (n % 50) for n in range(500)]
    for at in range(0, 500, 50):
        _send(store, "orders", bodies[at : at + 50], queue=at // 50 % 2)
        if at == 200:
            store.checkpoint()
    even = [body for at in range(0, 500, 100) for body in bodies[at : at + 50]]
    odd = [body for at in range(50, 500, 100) for body in bodies[at : at + 50]]
    assert (_bodies(store, "orders", 0), _bodies(store, "orders", 1)) == (even, odd)
    store.close()
    again = _open(tmp_path)
    assert (_bodies(again, "orders", 0), _bodies(again, "orders", 1)) == (even, odd)
    again.close()


def test_a_batch_for_several_queues(tmp_path: Path) -> None:
    store = _open(tmp_path)
    topic = store.create_topic("orders", 3)
    batch = bytearray(b"".join(encode_record(Record("orders", bytes([n]))) for n in range(6)))
    appended = store.append(batch, topic.topic_id, np.array([0, 1, 2, 0, 1, 0]))
    assert appended.queue_offsets.tolist() == [0, 0, 0, 1, 1, 2]
    store.wait_confirmed(appended.end, HANG_S)
    assert [_bodies(store, "orders", queue) for queue in range(3)] == [[b"\0", b"\3", b"\5"], [b"\1", b"\4"], [b"\2"]]
    store.close()


@pytest.mark.parametrize("how", ["close", "crash", "crash after a checkpoint", "crash after a snapshot"])
def test_what_is_known_comes_back_the_same(tmp_path: Path, how: str) -> None:
    store = _open(tmp_path)
    for name in ("orders", "payments", "orders.returned"):
        store.create_topic(name, 3)
    _send(store, "orders", [b"a"] * 7, 1)
    _send(store, "payments", [b"b"] * 3)
    key = QueueKey(store.state.topic_ids["orders"], 1)
    store.commit_offsets("billing", [(key, 3), (QueueKey(store.state.topic_ids["payments"], 0), 1)])
    if how == "crash after a checkpoint":
        store.checkpoint()
    if how == "crash after a snapshot":
        store.snapshot()
        store.checkpoint()
    _send(store, "orders", [b"c"] * 2, 1)
    store.commit_offsets("billing", [(key, 8)])
    store.delete_topic("payments")
    recreated = store.create_topic("payments", 2)
    appended = store.commit_offsets("audit", [(key, 1)])
    store.wait_confirmed(appended.end, HANG_S)
    if how == "close":
        store.snapshot()
    expected = list(store.state.rows())
    store.close() if how == "close" else store.abandon()
    again = _open(tmp_path)
    rows = list(again.state.rows())
    if how == "close":
        # Stopping wrote another snapshot, whose records are themselves entries of the control queue.
        rows, expected = ([row for row in some if row.queue.topic_id != 1] for some in (rows, expected))
    assert rows == expected
    assert again.state.group_offsets["billing", key] == 8
    assert recreated.topic_id > key.topic_id
    # A topic that was created again goes on with its offsets.
    assert _send(again, "payments", [b"d"]).queue_offsets.tolist() == [3]
    assert _bodies(again, "orders", 1) == [b"a"] * 7 + [b"c"] * 2
    again.close()


def test_nothing_is_read_before_it_is_safe(tmp_path: Path) -> None:
    class GatedDisk(Disk):
        gate = threading.Event()

        def fsync(self, file: OpenFile) -> None:
            if file.path.parent.name == "commitlog":
                self.gate.wait(HANG_S)
            super().fsync(file)

    disk = GatedDisk()
    disk.gate.set()
    store = _open(tmp_path, disk=disk)
    topic = store.create_topic("orders", 1)
    _send(store, "orders", [b"safe"])
    disk.gate.clear()
    appended = store.append(bytearray(encode_record(Record("orders", b"not yet"))), topic.topic_id, 0)
    assert _bodies(store, "orders") == [b"safe"]
    with pytest.raises(OffsetOutOfRangeError, match="may be read from"):
        store.read_record(int(appended.log_offsets[0]))
    disk.gate.set()
    store.wait_confirmed(appended.end, HANG_S)
    assert _bodies(store, "orders") == [b"safe", b"not yet"]
    store.close()


@pytest.mark.parametrize("damage", ["flip", "partial block", "cut", "gone", "all gone"])
def test_damaged_queues_heal_from_the_log_and_say_so(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    store = _open(tmp_path)
    store.create_topic("orders", 1)
    bodies = [f"{n}".encode() for n in range(300)]
    _send(store, "orders", bodies)
    store.close()
    path = next((tmp_path / "consumequeue" / "orders" / "0").glob("*0"))
    data = bytearray(path.read_bytes())
    assert len(data) == 300 * 24
    match damage:
        case "flip":
            data[1000] ^= 1
            path.write_bytes(data)
        case "partial block":
            data[-20] ^= 1
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[:5000])
        case "gone":
            path.unlink()
        case "all gone":
            shutil.rmtree(tmp_path / "consumequeue")
    again = _open(tmp_path)
    assert _bodies(again, "orders") == bodies
    assert "made anew from the log" in caplog.text
    again.close()
    caplog.clear()
    healed = _open(tmp_path)
    assert _bodies(healed, "orders") == bodies
    assert "made anew" not in caplog.text
    healed.close()


def test_damage_in_the_log_is_not_healed_but_named(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.create_topic("orders", 1)
    _send(store, "orders", [b"one", b"two"])
    store.close()
    segment = next((tmp_path / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    at = data.index(b"two") // 8 * 8 - 152 + 24  # its queue offset
    data[at + 7] ^= 64
    segment.write_bytes(data)
    again = _open(tmp_path)
    with pytest.raises(CorruptStoreError, match="broker-crc") as caught:
        _bodies(again, "orders")
    assert caught.value.path == str(segment)
    again.abandon()


def test_what_was_known_long_ago_survives_retention_of_all_its_records(tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=1_000_000_000_000)
    store = _open(tmp_path, clock)
    day = 86_400
    old = store.create_topic("old", 2)
    _send(store, "old", [b"x"] * 5, 1)
    store.commit_offsets("billing", [(QueueKey(old.topic_id, 1), 3)])
    store.create_topic("busy", 1)
    sent = 0
    for _ in range(60):  # ten years
        clock.advance(61 * day)
        _send(store, "busy", [b"y" * 3000] * 10)
        sent += 10
        store.retain(older_than_ms=clock.wall_ms() - 3 * day * 1000)
    assert store._log.start > 10 * CONFIG.segment_bytes
    assert len(store._log.segments) < 5
    key, busy = QueueKey(old.topic_id, 1), QueueKey(store.state.topic_ids["busy"], 0)
    assert (store.state.least[key], store.state.next[key]) == (5, 5)
    assert store.state.next[busy] == sent
    least = store.state.least[busy]
    assert 0 < least < sent
    assert len(_bodies(store, "busy", first=least)) == sent - least
    with pytest.raises(OffsetOutOfRangeError, match=f"it has {least}"):
        store.read_queue(busy, least - 1, 10)
    rows = [row for row in store.state.rows() if row.queue.topic_id != 1]
    store.close()
    # Everything but the log is lost.
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "checkpoint").unlink()
    again = _open(tmp_path, clock)
    assert [row for row in again.state.rows() if row.queue.topic_id != 1] == rows
    assert len(_bodies(again, "busy", first=least)) == sent - least
    assert again.state.group_offsets["billing", key] == 3
    # An idle queue never uses an offset twice.
    assert _send(again, "old", [b"z"], 1).queue_offsets.tolist() == [5]
    again.close()


def test_retention_says_what_it_takes_and_from_whom(tmp_path: Path) -> None:
    store = _open(tmp_path)
    topic = store.create_topic("orders", 1)
    key = QueueKey(topic.topic_id, 0)
    for _ in range(8):
        _send(store, "orders", [b"x" * 3000] * 10)
    store.commit_offsets("slow", [(key, 2)])
    store.commit_offsets("fast", [(key, 60)])
    end = store._log.end
    start = store.retain(max_bytes=2 * CONFIG.segment_bytes)
    least = store.state.least[key]
    assert 2 < least < 60
    data = bytes(store._log.segment_of(end).read(end, end + 4096))
    said = Control.FromString(decode_record(data).record.body).retention_crossed
    assert said.log_start == start
    assert [(queue.topic_id, queue.queue_id, queue.least) for queue in said.queues if queue.topic_id != 1] == [(key.topic_id, 0, least)]
    assert [(loss.group, loss.from_offset, loss.to_offset) for loss in said.losses] == [("slow", 2, least)]
    assert store.retain(max_bytes=1 << 40) == start
    store.close()


def _send_keyed(store: DiskStore, numbers: range) -> None:
    facts = store.state.topic("orders")
    assert facts is not None
    records = [Record("orders", b"x" * 200, f"id-{n}", keys=(f"key-{n % 10}", "every")) for n in numbers]
    store.wait_confirmed(store.append(bytearray(b"".join(map(encode_record, records))), facts.topic_id, 0).end, HANG_S)


def _ids(store: DiskStore, key: str, most: int = 1000) -> list[str]:
    return [stored.record.message_id for stored in store.find("orders", key, most)]


@pytest.mark.parametrize("how", ["open", "closed", "crashed", "index gone", "damaged"])
def test_messages_are_found_by_key_and_by_id(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    store = _open(tmp_path)
    store.create_topic("orders", 1)
    for begin in range(0, 500, 50):
        _send_keyed(store, range(begin, begin + 50))
        if begin == 200:
            store.checkpoint()
    if how == "closed":
        store.close()
    elif how != "open":
        store.abandon()
    if how == "index gone":
        shutil.rmtree(tmp_path / "index")
    if how == "damaged":
        sealed = min((tmp_path / "index").glob("*[0-9]"))
        data = bytearray(sealed.read_bytes())
        data[5000] ^= 1
        sealed.write_bytes(data)
    if how != "open":
        store = _open(tmp_path)
    assert _ids(store, "id-7") == ["id-7"]
    assert _ids(store, "key-3") == [f"id-{n}" for n in range(493, 0, -10)]
    assert len(_ids(store, "every")) == 500
    assert _ids(store, "every", 3) == ["id-499", "id-498", "id-497"]
    assert store.find("payments", "id-7") == []
    assert _ids(store, "nothing") == []
    assert len(list((tmp_path / "index").glob("*[0-9]"))) > 3
    assert ("key index is made anew" in caplog.text) == (how == "damaged")
    _send_keyed(store, range(500, 501))
    assert _ids(store, "key-0", 2) == ["id-500", "id-490"]
    store.close()


def test_what_retention_took_is_not_found(tmp_path: Path) -> None:
    store = _open(tmp_path)
    store.create_topic("orders", 1)
    for begin in range(0, 2000, 50):
        _send_keyed(store, range(begin, begin + 50))
    store.checkpoint()
    files = len(list((tmp_path / "index").iterdir()))
    store.retain(max_bytes=2 * CONFIG.segment_bytes)
    assert _ids(store, "id-7") == []
    assert _ids(store, "id-1999") == ["id-1999"]
    assert len(list((tmp_path / "index").iterdir())) < files
    store.close()


def test_seek_by_time(tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=1_000_000)
    store = _open(tmp_path, clock)
    topic = store.create_topic("orders", 1)
    key = QueueKey(topic.topic_id, 0)
    assert store.offset_at_time(key, 0) == 0
    for n in range(20):
        clock.advance(1)
        _send(store, "orders", [b"x"] * (n % 3 + 1))
    times = [decode_record(store.read_queue(key, n, 1)).stamp.store_timestamp for n in range(store.state.next[key])]  # type: ignore[union-attr]
    for moment in (0, 1_001_000, 1_001_001, 1_010_500, 1_020_000, 1_020_001):
        expected = next((n for n, time in enumerate(times) if time >= moment), len(times))
        assert store.offset_at_time(key, moment) == expected
    store.close()


def test_store_time_never_falls(tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=1_000_000)
    store = _open(tmp_path, clock)
    store.create_topic("orders", 1)
    first = _send(store, "orders", [b"x"]).store_timestamp
    clock.step_wall(-500)
    assert _send(store, "orders", [b"x"]).store_timestamp == first
    store.close()
    again = _open(tmp_path, clock)
    assert _send(again, "orders", [b"x"]).store_timestamp == first
    again.close()


def test_bad_requests_change_nothing(tmp_path: Path) -> None:
    store = _open(tmp_path)
    topic = store.create_topic("orders", 2)
    end = store._log.end
    good = encode_record(Record("orders", b"x"))
    with pytest.raises(RecordFormatError):
        store.append(bytearray(good + b"garbage!"), topic.topic_id, 0)
    with pytest.raises(InvalidArgumentError, match="not of topic"):
        store.append(bytearray(encode_record(Record("../../etc", b"x"))), topic.topic_id, 0)
    with pytest.raises(InvalidArgumentError, match="no topic"):
        store.append(bytearray(good), 999, 0)
    with pytest.raises(InvalidArgumentError, match="has 2"):
        store.append(bytearray(good), topic.topic_id, 2)
    with pytest.raises(InvalidArgumentError, match="empty"):
        store.append(bytearray(), topic.topic_id, 0)
    with pytest.raises(InvalidArgumentError, match="choose"):
        store.create_topic("other", 0)
    with pytest.raises(InvalidArgumentError, match="no topic"):
        store.delete_topic("other")
    with pytest.raises(OffsetOutOfRangeError, match="it has 0 … 0"):
        store.read_queue(QueueKey(topic.topic_id, 0), 5, 10)
    assert store._log.end == end
    assert store.create_topic("orders", 7) == topic
    store.close()
