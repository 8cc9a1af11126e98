"""Recovery from every state that a power cut can leave of queues, checkpoints and snapshots."""

import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Row
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.healing import ProjectionRepair
from litemq.storage.state import QueueKey
from litemq.storage.state.persistence.database import StateDatabase
from litemq.types import Record
from support.power_cut import RecordingDisk, states_after

PARTS = 4  # of one long test, side by side
CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=20, index_entries=60, checkpoint_interval_ms=0
)


def _open(folder: Path, disk: Disk = DISK) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


class _Writer:
    """A writer, and the records promised after each number of disk operations."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.folder = folder
        self.databases: list[tuple[int, bytes, bytes]] = []  # state.db and its log after each commit
        self.store = _open(folder, self.disk)
        self.sent: dict[int, list[bytes]] = {0: [], 1: []}
        self.retained_at = -1
        self.promises: list[tuple[int, dict[int, int], int]] = [(0, {0: 0, 1: 0}, -1)]

    def send(self, queue: int, count: int, size: int) -> None:
        topic = self.store.create_topic("orders", 2)
        bodies = [struct.pack(">BI", queue, len(self.sent[queue]) + n) + bytes(size) for n in range(count)]
        records = [
            Record(
                "orders",
                body,
                _message_id(body),
                keys=(f"queue-{queue}",),
                producer_id=7,
                sequence=len(self.sent[queue]) + n,
            )
            for n, body in enumerate(bodies)
        ]
        appended = self.store.append(bytearray(b"".join(map(encode_record, records))), topic.topic_id, queue)
        # All records that may have been written, promised or not.
        self.sent[queue] += bodies
        offset = len(self.sent[queue])
        end = self.store.commit_offsets("billing", [(QueueKey(topic.topic_id, queue), offset)]).end
        self.store.wait_confirmed(max(end, appended.end), 10)
        self.promises.append((len(self.disk.operations), {q: len(bodies) for q, bodies in self.sent.items()}, offset))

    def committed(self) -> None:
        """Save the new version of ``state.db``, which SQLite writes past the recording disk."""
        files = (self.folder / name for name in ("state.db", "state.db-wal"))
        main, log = (path.read_bytes() if path.exists() else b"" for path in files)
        self.databases.append((len(self.disk.operations), main, log))

    def put_database(self, folder: Path, operations: int, variant: int) -> None:
        """Write a version of ``state.db`` that a power cut may leave.

        Its commits are not synced, and the last one may be torn.
        """
        versions = [version for version in self.databases if version[0] <= operations]
        if variant == 0 or not versions:
            return
        _, main, log = versions[-1] if variant < 3 else versions[variant % len(versions)]
        (folder / "state.db").write_bytes(main)
        (folder / "state.db-wal").write_bytes(log if variant != 2 else log[: len(log) * 2 // 3])

    def promised_after(self, operations: int) -> dict[int, int]:
        return max((p for p in self.promises if p[0] <= operations), key=lambda p: p[0])[1]


def _message_id(body: bytes) -> str:
    return body[:5].hex()


def _record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> _Writer:
    writer = _Writer(folder)
    commit = StateDatabase.commit

    def recorded(database: StateDatabase, applied: int, rows: Iterable[tuple[bytes, Row]]) -> None:
        commit(database, applied, rows)
        writer.committed()

    with monkeypatch.context() as patched:
        patched.setattr(StateDatabase, "commit", recorded)
        _write(writer, folder)
    return writer


def _write(writer: _Writer, folder: Path) -> None:
    writer.send(0, 3, 10)
    writer.send(1, 2, 500)
    writer.store.checkpoint()
    writer.send(0, 40, 1500)
    writer.store.snapshot()
    writer.store.checkpoint()
    writer.send(1, 5, 2000)
    writer.store.close()
    writer.store = _open(folder, writer.disk)
    writer.send(0, 2, 100)
    writer.store.checkpoint()
    writer.send(1, 30, 1200)
    writer.send(0, 50, 1500)
    writer.retained_at = len(writer.disk.operations)
    writer.store.retain(max_bytes=2 * CONFIG.segment_bytes)
    assert max(writer.store.state.start_offsets.values()) > 0
    writer.send(1, 1, 10)
    writer.store.close()


def _contents(store: DiskStore) -> dict[int, tuple[int, list[bytes]]]:
    """Return the start offset and the records of each queue."""
    found: dict[int, tuple[int, list[bytes]]] = {}
    topic = store.state.topic("orders")
    for queue in (0, 1):
        key = QueueKey(topic.topic_id if topic is not None else 0, queue)
        start_offset = store.state.start_offsets.get(key, 0)
        bodies: list[bytes] = []
        while topic is not None and (data := store.read_queue(key, start_offset + len(bodies), 100)):
            at = 0
            while at < len(data):
                stored = decode_record(data, at)
                assert stored.stamp is not None
                assert stored.stamp.queue_offset == start_offset + len(bodies)
                bodies.append(stored.record.body)
                at += stored.size
        found[queue] = start_offset, bodies
    return found


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    states = _cut(tmp_path, monkeypatch, part, PARTS)
    assert states > 200 // PARTS  # the exact number depends on the timing of flusher and writer


def _cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int = 0, step: int = 1) -> int:
    """Check the states after every ``step``-th operation from ``first`` on; return their number."""
    # No power cut damages a queue: a rebuild would mean that a sync is missing.
    monkeypatch.setattr(ProjectionRepair, "_rebuild_queues", _refuse_to_rebuild)
    writer = _record(tmp_path / "recorded", monkeypatch)
    operations = writer.disk.operations
    states = 0
    for until in range(first, len(operations) + 1, step):
        promised = writer.promised_after(until)
        for tree in states_after(operations[:until]):
            states += 1
            folder = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", folder)
            writer.put_database(folder, until, states % 7)
            store = _open(folder)
            found = _contents(store)
            for queue, count in promised.items():
                start_offset, bodies = found[queue]
                assert start_offset + len(bodies) >= count
                assert bodies == writer.sent[queue][start_offset : start_offset + len(bodies)]
                assert start_offset == 0 or until > writer.retained_at
                # The sequences include every record, and no lost one.
                pair = (7, 16, queue)
                assert store.state.producers.expected(pair) == start_offset + len(bodies)
                receipts = [store.state.producers.receipt(pair, n) for n in range(start_offset + len(bodies))]
                assert [receipt is not None and receipt.queue_offset for receipt in receipts] == list(
                    range(start_offset + len(bodies))
                )
                for body in bodies[:1] + bodies[-1:]:
                    assert [stored.record.body for stored in store.find("orders", _message_id(body))] == [body]
                if states % 10 == 0:
                    assert len(store.find("orders", f"queue-{queue}", 1000)) == len(bodies)
            rows = _rows(store)
            store.abandon()
            # The same with only the log left.
            shutil.rmtree(folder / "consumequeue")
            shutil.rmtree(folder / "index")
            (folder / "checkpoint").unlink()
            (folder / "state.db").unlink()
            again = _open(folder)
            assert _contents(again) == found
            assert _rows(again) == rows
            again.abandon()
            shutil.rmtree(folder)
    return states


def test_the_enumeration_finds_queues_that_the_checkpoint_did_not_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the sync, the checkpoint claims entries that are missing."""
    monkeypatch.setattr(RecordingDisk, "sync_all", lambda _self, _path: None)
    with pytest.raises(AssertionError, match="had to be rebuilt"):
        _cut(tmp_path, monkeypatch)


def _refuse_to_rebuild(_repair: ProjectionRepair) -> None:
    raise AssertionError("the queues had to be rebuilt")
