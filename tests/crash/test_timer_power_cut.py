"""Every state that a power cut can leave of timers: each that was promised still waits or was fired, never both, and their files never mislead."""

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.format.record import decode_record, encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files import Disk
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.types import Record, RecordKind
from support.power_cut import RecordingDisk, states_after
from support.quick_disk import QuickDisk

CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=20, index_entries=60, checkpoint_interval_ms=0)
NOW = FakeClock().wall_ms()
FAR = 1 << 60
DAY = 86_400_000
_ONE_IN = 7  # of a thousand states: which ones are next to each other differ little


def _open(folder: Path, disk: Disk) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


class _Writer:
    """Writes, and remembers what was promised after how many operations of the disk."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.store = _open(folder, self.disk)
        self.topic_id = self.store.create_topic("orders", 1).topic_id
        self.sent: list[str] = []
        self.fired: list[str] = []
        self.promises: list[tuple[int, int, int]] = [(0, 0, 0)]  # operations, how many were sent, how many fired

    def _promise(self) -> None:
        self.store.wait_confirmed(self.store.log_end)
        self.promises.append((len(self.disk.operations), len(self.sent), len(self.fired)))

    def hold(self, *dues: int) -> None:
        ids = [f"m-{len(self.sent) + number}" for number in range(len(dues))]
        records = [Record("orders", b"x", name, delay_time=NOW + due) for name, due in zip(ids, dues, strict=True)]
        self.sent += ids
        self.store.append(bytearray(b"".join(map(encode_record, records))), self.topic_id, 0, held_after=NOW)
        self._promise()

    def fire(self, until: int) -> None:
        self.store.load_timers(NOW + until)
        timers = self.store.timers.take(NOW + until, FAR, 100)
        records = self.store.read_pending(timers)
        self.fired += [decode_record(record).record.message_id for record in records]
        self.store.append_placed(
            [Placed(record, self.topic_id, 0, RecordKind.FIRED, timer.pending) for timer, record in zip(timers, records, strict=True)]
        )
        self._promise()

    def fill(self) -> None:
        filler = encode_record(Record("orders", bytes(3500), "filler"))
        for _ in range(5):
            self.store.append(bytearray(filler * 8), self.topic_id, 0)
        self._promise()


def _write(writer: _Writer) -> None:
    writer.hold(10, 20, 2 * DAY, 300 * DAY)
    writer.store.checkpoint()
    writer.fire(10)
    writer.hold(30, 90_000, 2 * DAY)
    writer.store.checkpoint()
    writer.fire(DAY)
    writer.store.checkpoint()
    writer.hold(5 * DAY)
    writer.fill()
    writer.store.retain(max_bytes=100_000)
    writer.fire(3 * DAY)
    writer.store.checkpoint()
    writer.hold(6 * DAY)
    writer.store.close()


def _found(store: DiskStore) -> tuple[list[str], list[str]]:
    """What waits, and what was fired and is still there."""
    store.load_timers(NOW + 400 * DAY)
    timers = store.timers.take(FAR, FAR, 100)
    waiting = [decode_record(record).record.message_id for record in store.read_pending(timers)]
    fired: list[str] = []
    topic = store.state.topic("orders")
    if topic is not None:
        key = QueueKey(topic.topic_id, 0)
        at = store.state.least.get(key, 0)
        while at < store.state.next.get(key, 0):
            fired.append(decode_record(store.read_queue(key, at, 1)).record.message_id)
            at += 1
    return sorted(waiting), [name for name in fired if name != "filler"]


def test_every_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = _Writer(tmp_path / "recorded")
    _write(writer)
    rebuilt: list[str] = []
    monkeypatch.setattr(BucketFiles, "clear", lambda files: rebuilt.append(str(files)))
    operations = writer.disk.operations
    states = 0
    for until in range(len(operations) + 1):
        _, sent, fired = max(promise for promise in writer.promises if promise[0] <= until)
        for tree in states_after(operations[:until]):
            states += 1
            if states % _ONE_IN:
                continue
            place = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", place)
            store = _open(place, QuickDisk())
            waiting, came = _found(store)
            assert len(set(waiting)) == len(waiting)
            assert not set(waiting) & set(writer.fired[:fired])
            assert not set(waiting) & set(came)
            assert set(writer.sent[:sent]) - set(writer.fired) <= set(waiting)
            assert set(writer.sent[:sent]) <= set(waiting) | set(writer.fired)
            assert store.state.delivery.timers.count == len(waiting)
            store.abandon()
            assert not rebuilt  # no power cut damages the files: if they had to be made anew, a sync is missing somewhere
            shutil.rmtree(place / "timers")
            (place / "checkpoint").unlink()
            anew = _open(place, QuickDisk())
            assert _found(anew)[0] == waiting
            anew.abandon()
            shutil.rmtree(place)
    assert states > 500
