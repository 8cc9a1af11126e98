"""Every state that a power cut can leave of the store, its queues, checkpoints and snapshots is recovered from."""

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
CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=20, index_entries=60, checkpoint_interval_ms=0)


def _open(folder: Path, disk: Disk = DISK) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


class _Writer:
    """Writes, and remembers what was promised after how many operations of the disk."""

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
            Record("orders", body, _message_id(body), keys=(f"queue-{queue}",), producer_id=7, sequence=len(self.sent[queue]) + n)
            for n, body in enumerate(bodies)
        ]
        appended = self.store.append(bytearray(b"".join(map(encode_record, records))), topic.topic_id, queue)
        # What may have been written, promised or not, is what it is.
        self.sent[queue] += bodies
        offset = len(self.sent[queue])
        end = self.store.commit_offsets("billing", [(QueueKey(topic.topic_id, queue), offset)]).end
        self.store.wait_confirmed(max(end, appended.end), 10)
        self.promises.append((len(self.disk.operations), {q: len(bodies) for q, bodies in self.sent.items()}, offset))

    def committed(self) -> None:
        """``state.db`` has a new version; SQLite writes it past the disk that remembers."""
        files = (self.folder / name for name in ("state.db", "state.db-wal"))
        main, log = (path.read_bytes() if path.exists() else b"" for path in files)
        self.databases.append((len(self.disk.operations), main, log))

    def put_database(self, place: Path, operations: int, variant: int) -> None:
        """One of the versions of ``state.db`` that a power cut may leave: its commits are not synced, and the last may be torn."""
        versions = [version for version in self.databases if version[0] <= operations]
        if variant == 0 or not versions:
            return
        _, main, log = versions[-1] if variant < 3 else versions[variant % len(versions)]
        (place / "state.db").write_bytes(main)
        (place / "state.db-wal").write_bytes(log if variant != 2 else log[: len(log) * 2 // 3])

    def promised_after(self, operations: int) -> dict[int, int]:
        return max((p for p in self.promises if p[0] <= operations), key=lambda p: p[0])[1]


def _message_id(body: bytes) -> str:
    return body[:5].hex()


def _record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> _Writer:
    writer = _Writer(folder)
    commit = StateDatabase.commit

    def noted(database: StateDatabase, applied: int, rows: Iterable[tuple[bytes, Row]]) -> None:
        commit(database, applied, rows)
        writer.committed()

    with monkeypatch.context() as patched:
        patched.setattr(StateDatabase, "commit", noted)
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
    assert max(writer.store.state.least.values()) > 0
    writer.send(1, 1, 10)
    writer.store.close()


def _contents(store: DiskStore) -> dict[int, tuple[int, list[bytes]]]:
    """For each queue the least offset that it keeps, and everything from there on."""
    found: dict[int, tuple[int, list[bytes]]] = {}
    topic = store.state.topic("orders")
    for queue in (0, 1):
        key = QueueKey(topic.topic_id if topic is not None else 0, queue)
        least = store.state.least.get(key, 0)
        bodies: list[bytes] = []
        while topic is not None and (data := store.read_queue(key, least + len(bodies), 100)):
            at = 0
            while at < len(data):
                stored = decode_record(data, at)
                assert stored.stamp is not None
                assert stored.stamp.queue_offset == least + len(bodies)
                bodies.append(stored.record.body)
                at += stored.size
        found[queue] = least, bodies
    return found


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    states = _cut(tmp_path, monkeypatch, part, PARTS)
    assert states > 200 // PARTS  # how many there are depends on how the flusher and the writer took turns


def _cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int = 0, step: int = 1) -> int:
    """Look at what a power cut can leave after each so many operations; returns how many states that were."""
    # No power cut damages a queue: if one had to be made anew, a sync is missing somewhere.
    monkeypatch.setattr(ProjectionRepair, "_rebuild_queues", _refuse_to_rebuild)
    writer = _record(tmp_path / "recorded", monkeypatch)
    operations = writer.disk.operations
    states = 0
    for until in range(first, len(operations) + 1, step):
        promised = writer.promised_after(until)
        for tree in states_after(operations[:until]):
            states += 1
            place = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", place)
            writer.put_database(place, until, states % 7)
            store = _open(place)
            found = _contents(store)
            for queue, count in promised.items():
                least, bodies = found[queue]
                assert least + len(bodies) >= count
                assert bodies == writer.sent[queue][least : least + len(bodies)]
                assert least == 0 or until > writer.retained_at
                # Each record is known to have been sent, and none that the power cut took.
                pair = (7, 16, queue)
                assert store.state.producers.expected(pair) == least + len(bodies)
                receipts = [store.state.producers.receipt(pair, n) for n in range(least + len(bodies))]
                assert [receipt is not None and receipt.queue_offset for receipt in receipts] == list(range(least + len(bodies)))
                for body in bodies[:1] + bodies[-1:]:
                    assert [stored.record.body for stored in store.find("orders", _message_id(body))] == [body]
                if states % 10 == 0:
                    assert len(store.find("orders", f"queue-{queue}", 1000)) == len(bodies)
            rows = _rows(store)
            store.abandon()
            # The same, with everything but the log gone.
            shutil.rmtree(place / "consumequeue")
            shutil.rmtree(place / "index")
            (place / "checkpoint").unlink()
            (place / "state.db").unlink()
            anew = _open(place)
            assert _contents(anew) == found
            assert _rows(anew) == rows
            anew.abandon()
            shutil.rmtree(place)
    return states


def test_the_enumeration_finds_queues_that_the_checkpoint_did_not_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that sync the checkpoint claims entries that are not there."""
    monkeypatch.setattr(RecordingDisk, "sync_all", lambda _self, _path: None)
    with pytest.raises(AssertionError, match="made anew"):
        _cut(tmp_path, monkeypatch)


def _refuse_to_rebuild(_repair: ProjectionRepair) -> None:
    raise AssertionError("the queues had to be made anew")
