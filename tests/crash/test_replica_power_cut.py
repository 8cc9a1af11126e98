"""A replica after a power cut at any point of cutting its log, following, and becoming master."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from litemq.clock import FakeClock
from litemq.errors import NotMasterError
from litemq.format.record_encode import encode_record
from litemq.storage.log.reader import read_log
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record, RecordKind
from support.power_cut import RecordingDisk, states_after
from support.replicas import confirm_all, open_replica, ship
from support.stores import CONFIG

LEFT = NotMasterError("another replica was elected")
PARTS: Final = 4  # of one long test, side by side


def _send(store: ReplicaStore, *bodies: bytes) -> None:
    topic = store.create_topic("orders", 1)
    store.append(bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies)), topic.topic_id, 0)


def _bodies(store: ReplicaStore) -> list[bytes]:
    """Return the first bytes of the messages in the log, confirmed or not."""
    found: list[bytes] = []
    for window in read_log(store._log, store._log.start, store.log_end):
        begins, _ = window.columns.part("body")
        kinds = window.columns.header["kind"]
        found += [
            bytes(window.columns.buffer[at : at + 1])
            for at, kind in zip(begins.tolist(), kinds.tolist(), strict=True)
            if kind == RecordKind.MESSAGE
        ]
    return found


class _History:
    """A replica that was master of epoch 1, and follows the master of epoch 2."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.folder = folder / "recorded"
        other = open_replica(folder / "other", CONFIG, FakeClock())
        store = ReplicaStore(self.folder, CONFIG, FakeClock(), disk=self.disk, host="here")
        store.begin_writing(1)
        _send(store, b"a")
        ship(store, other, 1 << 20)
        confirm_all(store)
        confirm_all(other)
        store.checkpoint()
        self.confirmed_at = len(self.disk.operations)
        _send(store, *[b"x" + bytes(3000)] * 30)  # into a second segment, and never confirmed
        store._flusher.wait(store.log_end, 10)
        store.stop_writing(LEFT)
        self.old = _bodies(store)
        other.begin_writing(2)
        _send(other, b"b", b"c")
        store.cut(store.confirm_offset)
        self.cut_at = len(self.disk.operations)
        ship(other, store, 1)
        confirm_all(store)
        self.followed_at = len(self.disk.operations)
        store.checkpoint()
        store.begin_writing(3)
        _send(store, b"d")
        confirm_all(store)
        self.new = _bodies(store)
        store.close()
        other.abandon()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_power_cut(tmp_path: Path, part: int) -> None:
    history = _History(tmp_path)
    operations = history.disk.operations
    states = 0
    for until in range(part, len(operations) + 1, PARTS):
        for tree in states_after(operations[:until]):
            states += 1
            folder = tmp_path / "state"
            tree.write_to(history.folder, folder)
            store = open_replica(folder, CONFIG, FakeClock())
            found = _bodies(store)
            assert found in (history.old[: len(found)], history.new[: len(found)])
            if until >= history.confirmed_at:
                assert found[:1] == [b"a"]
            if until >= history.cut_at:
                assert b"x" not in found
            if until >= history.followed_at:
                assert found[:3] == history.new[:3]
            assert [epoch.number for epoch in store.epochs] == sorted({epoch.number for epoch in store.epochs})
            assert store.last_epoch == (store.epochs[-1].number if store.epochs else 0)
            store.abandon()
            shutil.rmtree(folder)
    assert states > 200 // PARTS
