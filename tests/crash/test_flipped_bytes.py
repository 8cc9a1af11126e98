"""Each byte of a small store flipped once: the damage is detected or harmless.

No wrong record is served, and ``verify`` reports the position.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, RecordFormatError, StorageError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import QueueKey
from litemq.types import Record

# Index files of one block, so that some are sealed; small segments, so that there are several.
CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=4, index_entries=20, checkpoint_interval_ms=0
)
QUEUES = 2
# Flipping each byte of the log takes minutes: `just flips`. By default, every fifth byte of the log
# and each byte of all other files is flipped.
ALL = os.environ.get("LITEMQ_FLIPS") == "all"
Contents = dict[int, list[bytes]]


def _open(folder: Path) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), host="here")


def _make(folder: Path) -> None:
    store = _open(folder)
    topic = store.create_topic("orders", QUEUES)
    for number in range(12):
        body = f"body {number} ".encode() * (number % 5 + 1)
        record = Record(
            "orders", body, f"m-{number}", tags=("t",), keys=(f"k-{number % 7}",), properties={"n": str(number)}
        )
        store.append(bytearray(encode_record(record)), topic.topic_id, number % QUEUES)
    store.commit_offsets("billing", [(QueueKey(topic.topic_id, 0), 3)])
    store.checkpoint()
    store.close()
    # Open again: a second epoch, both slots of the checkpoint, a second block of the queue file.
    store = _open(folder)
    for number in range(12, 16):
        store.append(
            bytearray(encode_record(Record("orders", b"late", f"m-{number}"))), topic.topic_id, number % QUEUES
        )
    store.close()


def _serve(store: DiskStore) -> tuple[Contents, list[CorruptStoreError]]:
    """Return all readable records, and the errors. A reader continues after a damaged record."""
    served: Contents = {}
    errors: list[CorruptStoreError] = []
    topic = store.state.topic("orders")
    assert topic is not None
    for queue in range(QUEUES):
        key = QueueKey(topic.topic_id, queue)
        got = served.setdefault(queue, [])
        at = 0
        while at < store.state.end_offsets[key]:
            try:
                data = store.read_queue(key, at, 7)
            except CorruptStoreError as error:
                errors.append(error)
                got.append(b"")
                at += 1
                continue
            position = 0
            while position < len(data):
                stored = decode_record(data, position)
                assert stored.stamp is not None
                assert stored.stamp.queue_offset == at
                got.append(bytes(data[position : position + stored.size]))
                position += stored.size
                at += 1
    return served, errors


def _damages(path: Path) -> Iterator[int]:
    """Yield the positions to flip: all of them, but only both ends of long runs of zeros."""
    data = path.read_bytes()
    unused = [(found.start() + 1, found.end() - 1) for found in re.finditer(rb"\0{100,}", data)]
    for position in range(len(data)):
        if not any(begin <= position < end for begin, end in unused):
            yield position


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"lock", "topics.json"} and not path.name.startswith("reserve")
    )


@pytest.mark.parametrize("part", ["commitlog", "consumequeue", "index", "checkpoint", "epochs", "state.db"])
def test_each_byte_flipped(tmp_path: Path, part: str) -> None:
    whole = tmp_path / "whole"
    _make(whole)
    assert verify_directory(whole).findings == []
    store = _open(whole)
    expected, errors = _serve(store)
    assert errors == []
    rows = [row for row in store.state.rows() if row.queue.topic_id != 1]
    found_by_key = [stored.record.message_id for stored in store.find("orders", "k-3")]
    store.abandon()
    shutil.rmtree(whole)
    _make(whole)
    paths = [path for path in _files(whole) if part in path.relative_to(whole).parts[0]]
    assert paths
    noticed = harmless = 0
    folder = tmp_path / "flipped"
    for path in paths:
        for position in list(_damages(path))[:: 1 if ALL or part != "commitlog" else 5]:
            shutil.copytree(whole, folder)
            target = folder / path.relative_to(whole)
            data = bytearray(target.read_bytes())
            data[position] ^= 1 << position % 8
            target.write_bytes(data)
            where = f"{path.relative_to(whole)}, byte {position}"
            findings = verify_directory(folder).findings
            try:
                store = _open(folder)
            except (StorageError, RecordFormatError):
                noticed += 1
                assert part in {"commitlog", "epochs"}, where  # all other files are rebuilt
                assert any(finding.path == str(target) for finding in findings), where
                shutil.rmtree(folder)
                continue
            served, errors = _serve(store)
            for queue, records in expected.items():
                assert len(served[queue]) == len(records), where
                lost = [n for n, (one, other) in enumerate(zip(served[queue], records, strict=True)) if one != other]
                assert all(served[queue][n] == b"" for n in lost), f"{where}: something wrong was served"
                assert len(lost) <= 1, f"{where}: records after the damaged one are lost"
            assert [row for row in store.state.rows() if row.queue.topic_id != 1] == rows, where
            if part == "commitlog":
                noticed += bool(errors)
                assert not errors or any(finding.path == str(target) for finding in findings), where
                assert all(Path(error.path) == target for error in errors), where
            else:
                assert errors == [], where
                assert [stored.record.message_id for stored in store.find("orders", "k-3")] == found_by_key, where
                noticed += bool(findings)
                assert all(Path(finding.path).with_suffix("") == target.with_suffix("") for finding in findings), where
            harmless += not errors and not findings
            store.abandon()
            shutil.rmtree(folder)
    assert noticed > 0
    assert harmless < noticed, f"{harmless} of {harmless + noticed} flips did nothing and were not noticed"
