"""Recovery from every state that a power cut can leave of producers' transactions.

Promised outcomes hold, and consumers see no other message.
"""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np

from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.proto.control_pb2 import Control, TransactionsDecided
from litemq.storage.batches.half_batches import rollback_controls
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import Disk
from litemq.storage.state import QueueKey
from litemq.storage.state.transactions.outcomes import Outcome
from support.power_cut import RecordingDisk, states_after
from support.quick_disk import QuickDisk
from support.transactions import half, name_of

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=20, index_entries=60, checkpoint_interval_ms=0
)


def _open(folder: Path, disk: Disk) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


class _Writer:
    """A producer, and the outcomes promised to it after each number of disk operations."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.store = _open(folder, self.disk)
        self.store.create_topic("orders", 2)
        self.sent: dict[str, int] = {}
        self.promises: list[tuple[int, str, Outcome]] = []

    def send(self, number: int, count: int) -> None:
        name = name_of(number)
        records = b"".join(half(name, each, body=bytes(600)) for each in range(count))
        end = self.store.append_producers_halves(bytearray(records), 16, np.arange(count) % 2).end
        self.sent[name] = count
        self.store.wait_confirmed(end, 10)

    def commit(self, *numbers: int) -> None:
        names = [name_of(number) for number in numbers]
        self._promise(self.store.commit_transactions(names, 0).end, names, Outcome.COMMITTED)

    def decide(self, number: int) -> None:
        name = name_of(number)
        end = self.store.append_control(Control(transactions_decided=TransactionsDecided(transactions=[name]))).end
        self._promise(end, [name], Outcome.COMMITTED)

    def roll_back(self, number: int) -> None:
        (control,) = rollback_controls([name_of(number)], "")
        self._promise(self.store.append_control(control).end, [name_of(number)], Outcome.ROLLED_BACK)

    def _promise(self, end: int, names: list[str], outcome: Outcome) -> None:
        self.store.wait_confirmed(end, 10)
        self.promises += [(len(self.disk.operations), name, outcome) for name in names]

    def promised_after(self, operations: int) -> dict[str, Outcome]:
        return {name: outcome for at, name, outcome in self.promises if at <= operations}


def _write(writer: _Writer) -> None:
    for number in range(3):
        writer.send(number, 1)
    writer.send(3, 6)
    writer.commit(0, 1)
    writer.store.checkpoint()
    writer.roll_back(2)
    writer.commit(3)
    writer.send(4, 4)
    writer.decide(4)
    _copy(writer.store, 1500)
    writer.store.checkpoint()
    _copy(writer.store)
    writer.send(5, 2)
    writer.store.snapshot()
    writer.commit(5)
    writer.store.abandon()


def _copy(store: DiskStore, max_bytes: int = 1 << 20) -> None:
    decided = store.read_decided(max_bytes)
    if decided is not None:
        store.wait_confirmed(store.append_committed(decided, 0).end, 10)


def _ids(store: DiskStore) -> list[str]:
    found = []
    topic = store.state.topic("orders")
    for queue_id in range(2) if topic is not None else ():
        data = store.read_queue(QueueKey(16, queue_id), 0, 1000, 1 << 30)
        at = 0
        while at < len(data):
            stored = decode_record(data, at)
            found.append(stored.record.message_id)
            at += stored.size
    return found


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def test_every_power_cut(tmp_path: Path) -> None:
    writer = _Writer(tmp_path / "recorded")
    _write(writer)
    decided = {name: outcome for _, name, outcome in writer.promises}
    operations = writer.disk.operations
    states = 0
    for until in range(0, len(operations) + 1, 2):
        promised = writer.promised_after(until)
        for tree in states_after(operations[:until]):
            states += 1
            folder = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", folder)
            store = _open(folder, QuickDisk())
            if states % 4 == 0:  # the same with only the log left
                rows = _rows(store)
                store.abandon()
                shutil.rmtree(folder / "consumequeue")
                (folder / "checkpoint").unlink()
                (folder / "state.db").unlink()
                store = _open(folder, QuickDisk())
                assert _rows(store) == rows
            while store.state.parts.halves.first_decided is not None:
                _copy(store)
            ids = _ids(store)
            assert len(set(ids)) == len(ids)
            seen = Counter(each.partition("#")[0] for each in ids)
            for name, count in seen.items():
                assert (decided.get(name), count) == (Outcome.COMMITTED, writer.sent[name]), "whole, or not at all"
            for name, outcome in promised.items():
                assert (name in seen) is (outcome is Outcome.COMMITTED)
                assert store.state.parts.halves.outcomes.get(name) is outcome
            store.abandon()
            shutil.rmtree(folder)
    assert states > 60
