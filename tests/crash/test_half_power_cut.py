"""Recovery from every state that a power cut can leave of halves, decisions and copies.

Promised commits hold, and consumers see no other half.
"""

import shutil
from pathlib import Path

from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import Disk
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.power_cut import RecordingDisk, states_after
from support.quick_disk import QuickDisk

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=20, index_entries=60, checkpoint_interval_ms=0
)


def _open(folder: Path, disk: Disk) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


class _Writer:
    """A job, and the commits promised to it after each number of disk operations."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.store = _open(folder, self.disk)
        self.store.create_topic("orders", 1)
        self.seen: list[str] = []  # in the order of the decisions
        self.promises: list[tuple[int, int]] = []  # operations, acknowledged batches

    def send(self, name: str, count: int) -> None:
        first = self.store.state.parts.halves.sent(name, QueueKey(16, 0))
        ids = [f"{name}#{number}" for number in range(first, first + count)]
        records = [encode_record(Record("orders", bytes(700), each, transaction_id=name)) for each in ids]
        self.store.wait_confirmed(self.store.append_halves(bytearray(b"".join(records)), 16, 0, name, first).end, 10)

    def commit(self, batch: int, name: str) -> None:
        count = self.store.state.parts.halves.sent(name, QueueKey(16, 0))
        end = self.store.commit_sink("q", batch, lambda _: {(0, int(name[-1])): name}).end
        self.seen += [f"{name}#{number}" for number in range(count)]
        self.store.wait_confirmed(end, 10)
        self.promises.append((len(self.disk.operations), batch))

    def copy(self, max_bytes: int = 1 << 20) -> None:
        decided = self.store.read_decided(max_bytes)
        assert decided is not None
        self.store.wait_confirmed(self.store.append_committed(decided, 0).end, 10)

    def promised_after(self, operations: int) -> int:
        return max((batch for at, batch in self.promises if at <= operations), default=-1)


def _write(writer: _Writer) -> None:
    writer.send("q/0/0/0", 10)
    writer.send("q/0/0/1", 20)
    writer.send("q/0/0/0", 5)
    writer.store.checkpoint()
    writer.commit(0, "q/0/0/1")
    writer.copy(8 * 1024)
    writer.store.checkpoint()
    writer.send("q/1/0/0", 30)
    writer.commit(1, "q/1/0/0")
    writer.copy()
    writer.store.snapshot()
    writer.copy(10 * 1024)
    writer.copy()
    writer.store.checkpoint()
    writer.send("q/2/0/0", 5)
    writer.store.close()


def _finish(store: DiskStore) -> list[str]:
    while (decided := store.read_decided(1 << 20)) is not None:
        store.wait_confirmed(store.append_committed(decided, 0).end, 10)
    return _ids(store)


def _ids(store: DiskStore) -> list[str]:
    data = store.read_queue(QueueKey(16, 0), 0, 1000, 1 << 30) if store.state.topic("orders") is not None else b""
    ids, at = [], 0
    while at < len(data):
        stored = decode_record(data, at)
        ids.append(stored.record.message_id)
        at += stored.size
    return ids


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def test_every_power_cut(tmp_path: Path) -> None:
    writer = _Writer(tmp_path / "recorded")
    _write(writer)
    decided = {-1: 0, 0: 20, 1: 50}
    operations = writer.disk.operations
    states = 0
    for until in range(len(operations) + 1):
        for tree in states_after(operations[:until]):
            states += 1
            folder = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", folder)
            store = _open(folder, QuickDisk())
            seen = _ids(store)
            assert seen == writer.seen[: len(seen)]
            committed = store.state.parts.sinks.committed("q")
            assert committed >= writer.promised_after(until)
            if states % 4 == 0:  # the same with only the log left
                rows = _rows(store)
                store.abandon()
                shutil.rmtree(folder / "consumequeue")
                (folder / "checkpoint").unlink()
                (folder / "state.db").unlink()
                store = _open(folder, QuickDisk())
                assert _rows(store) == rows
            # After copying: all decided halves, and no others.
            assert _finish(store) == writer.seen[: decided[committed]]
            store.abandon()
            shutil.rmtree(folder)
    assert states > 60
