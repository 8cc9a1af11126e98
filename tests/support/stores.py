"""Small data directories for tests, and functions that read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.format.v1.record import decode_record_v1
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import Appended, DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.state import QueueKey
from litemq.types import Record, StoredRecord
from support.waiting import HANG_S

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=0
)


def open_store(directory: Path, clock: FakeClock | None = None, host: str = "here", *, disk: Disk = DISK) -> DiskStore:
    return DiskStore(directory, CONFIG, clock or FakeClock(), disk=disk, host=host)


def send(store: DiskStore, records: list[Record], queue_ids: list[int] | int = 0, *, queues: int = 4) -> None:
    """Create the topic if it is missing, append its records and wait until they are safe."""
    topic = store.create_topic(records[0].topic, queues)
    batch = bytearray(b"".join(map(encode_record, records)))
    appended = store.append(batch, topic.topic_id, queue_ids if isinstance(queue_ids, int) else np.array(queue_ids))
    store.wait_confirmed(appended.end, 10)


def send_blank(store: DiskStore, count: int, size: int = 100) -> list[int]:
    """Append ``count`` messages to queue 0 of ``orders``, wait, and return their log offsets."""
    topic = store.create_topic("orders", 1)
    records = [Record("orders", bytes(size), f"m-{number}") for number in range(count)]
    appended = store.append(bytearray(b"".join(map(encode_record, records))), topic.topic_id, 0)
    store.wait_confirmed(appended.end, HANG_S)
    return [int(offset) for offset in appended.log_offsets]


def send_bodies(store: DiskStore, topic: str, bodies: list[bytes], queue: int = 0) -> Appended:
    """Append a message for each body to a queue of an existing topic; wait until confirmed."""
    facts = store.state.topic(topic)
    assert facts is not None
    batch = bytearray(b"".join(encode_record(Record(topic, body)) for body in bodies))
    appended = store.append(batch, facts.topic_id, queue)
    store.wait_confirmed(appended.end, HANG_S)
    return appended


def read_bodies(store: DiskStore, topic: str, queue: int = 0, first: int = 0) -> list[bytes]:
    """Read the bodies of all messages in a queue from offset ``first`` on; check their offsets."""
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


def rows_of(store: DiskStore) -> list[bytes]:
    """Return the rows of a store's state, comparable."""
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def bytes_of(directory: Path) -> dict[Path, bytes]:
    """Return the bytes of every file below a directory."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def records_of(file: Path) -> list[StoredRecord]:
    """Return the records of a file of version 1."""
    data, records, at = file.read_bytes(), [], 0
    while at < len(data):
        records.append(decode_record_v1(data, at))
        at += records[-1].size
    return records
