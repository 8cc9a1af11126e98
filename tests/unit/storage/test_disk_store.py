"""The store on disk: appends, confirmation, and refused requests."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, OffsetOutOfRangeError, RecordFormatError, StoreFailedError
from litemq.format.record_encode import encode_record
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.stores import open_store, read_bodies, send, send_bodies
from support.waiting import HANG_S


def test_messages_are_read_before_and_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 2)
    bodies = [f"message {n}".encode() * (n % 50) for n in range(500)]
    for at in range(0, 500, 50):
        send_bodies(store, "orders", bodies[at : at + 50], queue=at // 50 % 2)
        if at == 200:
            store.checkpoint()
    even = [body for at in range(0, 500, 100) for body in bodies[at : at + 50]]
    odd = [body for at in range(50, 500, 100) for body in bodies[at : at + 50]]
    assert (read_bodies(store, "orders", 0), read_bodies(store, "orders", 1)) == (even, odd)
    store.close()
    again = open_store(tmp_path)
    assert (read_bodies(again, "orders", 0), read_bodies(again, "orders", 1)) == (even, odd)
    again.close()


def test_a_batch_for_several_queues(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    topic = store.create_topic("orders", 3)
    batch = bytearray(b"".join(encode_record(Record("orders", bytes([n]))) for n in range(6)))
    appended = store.append(batch, topic.topic_id, np.array([0, 1, 2, 0, 1, 0]))
    assert appended.queue_offsets.tolist() == [0, 0, 0, 1, 1, 2]
    store.wait_confirmed(appended.end, HANG_S)
    assert [read_bodies(store, "orders", queue) for queue in range(3)] == [
        [b"\0", b"\3", b"\5"],
        [b"\1", b"\4"],
        [b"\2"],
    ]
    store.close()


def test_level_memory_loses_only_unflushed_records_that_were_never_read(tmp_path: Path) -> None:
    class StuckDisk(Disk):
        stuck = False

        def fsync(self, file: OpenFile) -> None:
            if self.stuck and file.path.parent.name == "commitlog":
                raise OSError(5, "Input/output error")
            super().fsync(file)

    disk = StuckDisk()
    store = open_store(tmp_path, disk=disk)
    send(store, [Record("orders", bytes(10))] * 3)
    safe = store.confirm_offset
    disk.stuck = True
    topic = store.create_topic("orders")
    appended = store.append(
        bytearray(encode_record(Record("orders", b"level 1"))), topic.topic_id, 0
    )  # acknowledged at once
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
    with segment.open("r+b") as file:  # a power cut: unsynced bytes are lost
        file.seek(safe)
        file.write(bytes(appended.end - safe))
    again = open_store(tmp_path)
    assert again.state.end_offsets[key] == 3
    again.close()


def test_store_time_never_falls(tmp_path: Path) -> None:
    clock = FakeClock(wall_ms=1_000_000)
    store = open_store(tmp_path, clock)
    store.create_topic("orders", 1)
    first = send_bodies(store, "orders", [b"x"]).store_timestamp
    clock.step_wall(-500)
    assert send_bodies(store, "orders", [b"x"]).store_timestamp == first
    store.close()
    again = open_store(tmp_path, clock)
    assert send_bodies(again, "orders", [b"x"]).store_timestamp == first
    again.close()


def test_bad_requests_change_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
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
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        store.delete_topic("other")
    with pytest.raises(OffsetOutOfRangeError, match="it has 0 … 0"):
        store.read_queue(QueueKey(topic.topic_id, 0), 5, 10)
    assert store._log.end == end
    assert store.create_topic("orders", 7) == topic
    store.close()
