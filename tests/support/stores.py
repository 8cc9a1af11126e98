"""Small data directories for tests, and a look at what is in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from litemq.clock import FakeClock
from litemq.format.record import encode_record
from litemq.format.v1.record import decode_record_v1
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.types import Record, StoredRecord

CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=400, checkpoint_interval_ms=0)


def open_store(directory: Path, clock: FakeClock | None = None, host: str = "here") -> DiskStore:
    return DiskStore(directory, CONFIG, clock or FakeClock(), host=host)


def send(store: DiskStore, records: list[Record], queue_ids: list[int] | int = 0, *, queues: int = 4) -> None:
    """Append records of one topic, which is created if it is missing, and wait until they are safe."""
    topic = store.create_topic(records[0].topic, queues)
    batch = bytearray(b"".join(map(encode_record, records)))
    appended = store.append(batch, topic.topic_id, queue_ids if isinstance(queue_ids, int) else np.array(queue_ids))
    store.wait_confirmed(appended.end, 10)


def bytes_of(directory: Path) -> dict[Path, bytes]:
    """Every file below a directory."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def records_of(file: Path) -> list[StoredRecord]:
    """The records of a file of version 1."""
    data, records, at = file.read_bytes(), [], 0
    while at < len(data):
        records.append(decode_record_v1(data, at))
        at += records[-1].size
    return records
