"""Recovery from every state that a power cut can leave of timers.

Each promised timer is pending at its last promised due time, fired, or cancelled: exactly one of
these. The timer files are never ahead of the log.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from litemq.broker.timers.lookup import FoundTimer, TimerLookup, TimerName
from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, TimerMoved, TimersEnded
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import Disk
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.timer_store import timer_end
from litemq.types import Record, RecordKind
from support.power_cut import RecordingDisk, states_after
from support.quick_disk import QuickDisk

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=20, index_entries=60, checkpoint_interval_ms=0
)
NOW = FakeClock().wall_ms()
FAR = 1 << 60
DAY = 86_400_000
_ONE_IN = 7  # of thousands of states: neighbours differ little


def _open(folder: Path, disk: Disk) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


class _Promise(NamedTuple):
    """The numbers of timers sent, fired, cancelled and moved after ``operations`` of the disk."""

    operations: int
    sent: int
    fired: int
    cancelled: int
    moves: int


class _Writer:
    """A writer, and the promises made after each number of disk operations."""

    def __init__(self, folder: Path) -> None:
        self.disk = RecordingDisk()
        self.store = _open(folder, self.disk)
        self.topic_id = self.store.create_topic("orders", 1).topic_id
        self.sent: list[str] = []
        self.fired: list[str] = []
        self.cancelled: list[str] = []
        self.moves: list[tuple[str, int]] = []
        self.promises = [_Promise(0, 0, 0, 0, 0)]

    def _promise(self) -> None:
        self.store.wait_confirmed(self.store.log_end)
        self.promises.append(
            _Promise(len(self.disk.operations), len(self.sent), len(self.fired), len(self.cancelled), len(self.moves))
        )

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
            [
                Placed(record, self.topic_id, 0, RecordKind.FIRED, timer.pending)
                for timer, record in zip(timers, records, strict=True)
            ]
        )
        self._promise()

    def _find(self, message_id: str) -> FoundTimer:
        name = TimerName("orders", message_id)
        return TimerLookup(self.store).find([name])[name]

    def cancel(self, *message_ids: str) -> None:
        found = map(self._find, message_ids)
        ended = [timer_end(self.store.timers, timer.pending, timer.delay_time, timer.size) for timer in found]
        self.cancelled += message_ids
        self.store.append_control(Control(timers_ended=TimersEnded(timers=ended, cancelled=True)))
        self._promise()

    def move(self, message_id: str, due: int) -> None:
        found = self._find(message_id)
        before = self.store.timers.due_time(found.pending, found.delay_time)
        moved = TimerMoved(
            pending=found.pending, delay_time=found.delay_time, due_before=before, due=NOW + due, size=found.size
        )
        self.moves.append((message_id, NOW + due))
        self.store.append_control(Control(timer_moved=moved))
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
    writer.move("m-3", 6 * DAY)
    writer.store.checkpoint()
    writer.move("m-6", 7 * DAY)
    writer.cancel("m-1", "m-2")
    writer.fire(DAY)
    writer.store.checkpoint()
    writer.hold(5 * DAY, 5 * DAY)
    writer.fill()
    writer.store.retain(max_bytes=100_000)
    writer.move("m-3", 2 * DAY)
    writer.cancel("m-7")
    writer.fire(3 * DAY)
    writer.store.checkpoint()
    writer.hold(6 * DAY)
    writer.store.close()


def _found(store: DiskStore) -> tuple[dict[str, int], list[str]]:
    """Return the pending timers with their due times, and the fired messages."""
    store.load_timers(NOW + 400 * DAY)
    timers = store.timers.take(FAR, FAR, 100)
    ids = [decode_record(record).record.message_id for record in store.read_pending(timers)]
    assert len(set(ids)) == len(ids)
    waiting = dict(zip(ids, [timer.due for timer in timers], strict=True))
    fired: list[str] = []
    topic = store.state.topic("orders")
    if topic is not None:
        key = QueueKey(topic.topic_id, 0)
        at = store.state.start_offsets.get(key, 0)
        while at < store.state.end_offsets.get(key, 0):
            fired.append(decode_record(store.read_queue(key, at, 1)).record.message_id)
            at += 1
    return waiting, [name for name in fired if name != "filler"]


def test_every_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = _Writer(tmp_path / "recorded")
    _write(writer)
    rebuilt: list[str] = []
    monkeypatch.setattr(BucketFiles, "clear", lambda files: rebuilt.append(str(files)))
    operations = writer.disk.operations
    states = 0
    for until in range(len(operations) + 1):
        promise = max(promise for promise in writer.promises if promise.operations <= until)
        sent, gone = writer.sent[: promise.sent], {*writer.fired, *writer.cancelled}
        for tree in states_after(operations[:until]):
            states += 1
            if states % _ONE_IN:
                continue
            folder = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", folder)
            store = _open(folder, QuickDisk())
            waiting, came = _found(store)
            assert not set(waiting) & {*writer.fired[: promise.fired], *writer.cancelled[: promise.cancelled], *came}
            assert set(sent) - gone <= set(waiting)
            assert not set(came) & set(writer.cancelled)
            for number, (name, due) in enumerate(writer.moves[: promise.moves], 1):
                later = [moved for other, moved in writer.moves[number:] if other == name]
                assert name not in waiting or waiting[name] in (due, *later)
            assert store.state.parts.timers.count == len(waiting)
            store.abandon()
            assert not rebuilt  # a rebuild would mean that a sync is missing
            shutil.rmtree(folder / "timers")
            (folder / "checkpoint").unlink()
            again = _open(folder, QuickDisk())
            assert _found(again)[0] == waiting
            again.abandon()
            shutil.rmtree(folder)
    assert states > 500
