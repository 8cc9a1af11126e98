"""A disk that is full at some writes of the projections: nothing that is in the log is forgotten.

The files that follow the log (queues, key index, timers) are written behind. A refused write may
have written a part. The next one must repair that, and nothing may be missing or twice meanwhile,
afterwards, and after another start.
"""

import contextlib
import errno
from pathlib import Path
from random import Random

import pytest

from litemq.broker.timers.lookup import TimerLookup, TimerName, TimerState
from litemq.clock import FakeClock
from litemq.errors import DiskFullError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, TimerMoved, TimersEnded
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import OpenFile
from litemq.storage.state import QueueKey
from litemq.storage.store import Placed
from litemq.storage.timers.timer_store import timer_end
from litemq.types import Record, RecordKind
from support.quick_disk import QuickDisk

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=7, index_entries=90, checkpoint_interval_ms=0
)
NOW = FakeClock().wall_ms()
FAR = 1 << 60
DAY = 86_400_000
STEPS = 60
FOUND_DEFECTS = (28, 36, 58, 76, 190, 196, 201, 208)  # in a day that was being split, and in the index after a crash


class _TightDisk(QuickDisk):
    """A disk that refuses some writes outside the log, after a part of their bytes."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.refused = 0
        self.refuses_one_in = 0
        self._is_cut = False

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        if self._is_cut or (
            self.refuses_one_in
            and file.path.parent.name != "commitlog"
            and self._chance.randrange(self.refuses_one_in) == 0
        ):
            if not self._is_cut and len(data) > 1 and self._chance.random() < 0.5:
                self._is_cut = True  # the next call gets the error, as on a real disk
                return super().pwrite(file, data[: self._chance.randrange(1, len(data))], offset)
            self._is_cut = False
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(file, data, offset)


class _Machine:
    """A store, and what it must know."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.disk = _TightDisk(self.chance)
        self.store = DiskStore(folder, CONFIG, FakeClock(), disk=self.disk, host="here")
        self.topic_id = self.store.create_topic("orders", 2).topic_id
        self.queues: list[list[str]] = [[], []]
        self.by_key: dict[str, list[str]] = {}  # messages in their queues, the latest last
        self.waiting: dict[str, int] = {}
        self.cancelled: list[str] = []
        self.sent = 0

    def send(self) -> None:
        queue, key = self.chance.randrange(2), f"k{self.chance.randrange(9)}"
        records = []
        for _ in range(self.chance.choice([1, 3, 40])):
            name = f"m-{self.sent}"
            self.sent += 1
            records.append(Record("orders", bytes(self.chance.choice([1, 900])), name, keys=(key,)))
            self.queues[queue].append(name)
            self.by_key.setdefault(key, []).append(name)
        self._append(records, queue)

    def hold(self) -> None:
        records = []
        for _ in range(self.chance.choice([1, 5])):
            name, due = f"m-{self.sent}", NOW + self.chance.choice([10, 70_000, DAY, 9 * DAY, 200 * DAY])
            self.sent += 1
            self.waiting[name] = due
            records.append(Record("orders", b"x", name, delay_time=due))
        self._append(records, 0)

    def _append(self, records: list[Record], queue: int) -> None:
        batch = bytearray(b"".join(map(encode_record, records)))
        end = self.store.append(batch, self.topic_id, queue, held_after=NOW).end
        self.store.wait_confirmed(end)

    def fire(self) -> None:
        until = NOW + self.chance.choice([10, 100_000, DAY])
        with contextlib.suppress(DiskFullError):
            self.store.load_timers(until)
        timers = self.store.timers.take(until, FAR, 100)
        records = self.store.read_pending(timers)
        names = [decode_record(record).record.message_id for record in records]
        for name, timer in zip(names, timers, strict=True):
            assert self.waiting.pop(name) == timer.due
        self.queues[0] += names
        placed = [
            Placed(record, self.topic_id, 0, RecordKind.FIRED, timer.pending)
            for timer, record in zip(timers, records, strict=True)
        ]
        if placed:
            self.store.wait_confirmed(self.store.append_placed(placed).end)

    def change(self) -> None:
        if not self.waiting:
            return
        name = self.chance.choice(sorted(self.waiting))
        timer_name = TimerName("orders", name)
        found = TimerLookup(self.store).find([timer_name])[timer_name]
        assert found.state is TimerState.WAITS
        timers = self.store.timers
        if self.chance.random() < 0.5:
            ended = timer_end(timers, found.pending, found.delay_time, found.size)
            self.store.append_control(Control(timers_ended=TimersEnded(timers=[ended], cancelled=True)))
            del self.waiting[name]
            self.cancelled.append(name)
        else:
            before = timers.due_time(found.pending, found.delay_time)
            due = NOW + self.chance.choice([20, 80_000, 2 * DAY, 100 * DAY])
            moved = TimerMoved(
                pending=found.pending, delay_time=found.delay_time, due_before=before, due=due, size=found.size
            )
            self.store.append_control(Control(timer_moved=moved))
            self.waiting[name] = due

    def checkpoint(self) -> None:
        with contextlib.suppress(DiskFullError):
            self.store.checkpoint()

    def look(self) -> None:
        """Compare what is read and found with what it must be."""
        for queue, names in enumerate(self.queues):
            key = QueueKey(self.topic_id, queue)
            some = self.chance.randrange(len(names)) if names else 0
            assert self.store.state.end_offsets.get(key, 0) == len(names)
            if names:
                assert decode_record(self.store.read_queue(key, some, 1)).record.message_id == names[some]
        key_name = f"k{self.chance.randrange(9)}"
        found = [one.record.message_id for one in self.store.find("orders", key_name, 10_000)]
        assert found == self.by_key.get(key_name, [])[::-1]

    def check_all(self) -> None:
        for queue, names in enumerate(self.queues):
            key = QueueKey(self.topic_id, queue)
            stored = [decode_record(self.store.read_queue(key, at, 1)).record.message_id for at in range(len(names))]
            assert stored == names
            for name in names:
                assert len(self.store.find("orders", name, 2)) == 1
        states = TimerLookup(self.store).find(TimerName("orders", name) for name in self.cancelled)
        assert {found.state for found in states.values()} <= {TimerState.CANCELLED}
        self.store.load_timers(NOW + 400 * DAY)
        timers = self.store.timers.take(FAR, FAR, 10_000)
        names = [decode_record(record).record.message_id for record in self.store.read_pending(timers)]
        assert dict(zip(names, [timer.due for timer in timers], strict=True)) == self.waiting
        assert len(names) == len(self.waiting)
        self.store.timers.give_back(timers)


@pytest.mark.parametrize("seed", [*range(12), *FOUND_DEFECTS])
def test_writes_refused_by_a_full_disk(tmp_path: Path, seed: int) -> None:
    machine = _Machine(tmp_path, seed)
    steps = [machine.send, machine.hold, machine.fire, machine.change, machine.checkpoint, machine.look]
    for _ in range(STEPS):
        machine.disk.refuses_one_in = machine.chance.choice([0, 1, 2, 5])
        machine.chance.choice(steps)()
    assert machine.disk.refused
    if seed % 2:  # also without a checkpoint on a disk with space
        machine.disk.refuses_one_in = 0
        machine.store.checkpoint()
        machine.check_all()
    machine.store.abandon()
    machine.store = DiskStore(tmp_path, CONFIG, FakeClock(), disk=QuickDisk(), host="here")
    machine.check_all()
    machine.store.close()
