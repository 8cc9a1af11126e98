"""Timers under any order of sends, time, stops and retention: never early, none lost, none twice, and what is cancelled never comes (I8)."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.broker.alarms import Alarms
from litemq.broker.time import BrokerTime
from litemq.broker.timers import Timers
from litemq.clock import FakeClock
from litemq.format.record import decode_record, encode_record
from litemq.proto.control_pb2 import Control, TimerEnded
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.quick_disk import QuickDisk

SMALL = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0)
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
DELAYS = st.sampled_from([0, 10, SECOND, 61 * SECOND, 119 * SECOND, 2 * HOUR, 30 * HOUR, 3 * DAY, 40 * DAY, 365 * DAY])
SPANS = st.sampled_from([0.01, 1.0, 61.0, 7200.0, 86_400.0, 40 * 86_400.0])
STEPS = st.sampled_from([-86_400.0, -3600.0, -1.0, -0.05, 0.05, 1.0, 3600.0, 86_400.0])


class TimerHistories(RuleBasedStateMachine):
    """A store, and what fires its timers, beside a dictionary of what is to come."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="litemq-timers-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.waiting: dict[str, int] = {}  # due times
        self.cancelled: set[str] = set()
        self.sent = 0
        self.read_to = 0
        self._open()

    def _open(self) -> None:
        self.time = BrokerTime(self.clock)
        self.store = DiskStore(self.folder, SMALL, self.time, disk=QuickDisk(), host="here")
        self.key = QueueKey(self.store.create_topic("orders", 1).topic_id, 0)
        self.timers = self.runner.run(self._start())

    async def _start(self) -> Timers:
        self.alarms = Alarms(self.time)
        return Timers(self.store, self.time, self.alarms, lambda _keys, _end: None)

    def _stop_firing(self) -> None:
        self.timers.close()
        self.alarms.close()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self._stop_firing()
            self.store.abandon()
            self.runner.close()
            shutil.rmtree(self.folder)

    # What happens -------------------------------------------------------------------------------------------------------------

    @rule(delays=st.lists(DELAYS, min_size=1, max_size=4), size=st.sampled_from([0, 2000]))
    def send(self, delays: list[int], size: int) -> None:
        records = []
        now = self.time.wall_ms()
        for delay in delays:
            due = now + delay if delay else 0
            message_id = f"m-{self.sent}"
            records.append(encode_record(Record("orders", bytes(size), message_id, delay_time=due, producer_id=7, sequence=self.sent)))
            self.sent += 1
            self.waiting[message_id] = due
        appended = self.store.append(bytearray(b"".join(records)), self.key.topic_id, 0, held_after=now)
        self.store.wait_confirmed(appended.end)
        assert [offset < 0 for offset in appended.queue_offsets.tolist()] == [delay > 0 for delay in delays]
        assert self.store.state.producers.expected((7, self.key.topic_id, 0)) == self.sent
        self._read()

    @precondition(lambda self: any(self.waiting.values()))
    @rule(number=st.integers(0, 99))
    def cancel(self, number: int) -> None:
        self.fire()  # what it might be is due, and no longer cancelled
        self.store.load_timers(self.time.wall_ms() + 2 * 365 * DAY)
        timers = self.store.timers.take(1 << 60, 1 << 60, 1000)
        self.store.timers.give_back(timers)
        assert len(timers) == len(self.waiting)
        if timers:
            timer = timers[number % len(timers)]
            message_id = decode_record(self.store.read_pending([timer])[0]).record.message_id
            ended = TimerEnded(pending=timer.pending, due=timer.due, size=timer.size)
            self.store.append_control(Control(timer_ended=ended))
            del self.waiting[message_id]
            self.cancelled.add(message_id)

    @rule(seconds=SPANS)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=STEPS)
    def the_wall_clock_is_set(self, seconds: float) -> None:
        self.clock.step_wall(seconds)

    @rule()
    def fire(self) -> None:
        self.store.wait_confirmed(self.store.log_end)
        self.runner.run(self.timers.fire_due())
        self._read()
        now = self.time.wall_ms()
        assert all(due > now for due in self.waiting.values())

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def retain(self) -> None:
        for _ in range(3):
            filler = encode_record(Record("orders", bytes(3500), "filler"))
            self.store.wait_confirmed(self.store.append(bytearray(filler * 8), self.key.topic_id, 0).end)
        self._read()
        self.store.retain(max_bytes=70_000)

    @rule()
    def crash(self) -> None:
        self._stop_firing()
        self.store.abandon()
        self._open()

    @rule()
    def restart(self) -> None:
        self._stop_firing()
        self.store.close()
        self._open()

    @rule()
    def lose_the_bucket_files(self) -> None:
        self._stop_firing()
        self.store.abandon()
        shutil.rmtree(self.folder / "timers")
        self._open()

    # What must be so ----------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """What has come since: each once, and not before its time."""
        self.store.wait_confirmed(self.store.log_end)
        now = self.time.wall_ms()
        while self.read_to < self.store.state.next.get(self.key, 0):
            data = self.store.read_queue(self.key, self.read_to, 1000)
            at = 0
            while at < len(data):
                stored = decode_record(data, at)
                at += stored.size
                self.read_to += 1
                message_id = stored.record.message_id
                if message_id != "filler":
                    assert message_id not in self.cancelled
                    assert self.waiting.pop(message_id) <= now

    @invariant()
    def totals_are_right(self) -> None:
        if hasattr(self, "store"):
            assert self.store.state.delivery.timers.count == len(self.waiting)


TestTimerHistories = TimerHistories.TestCase
TestTimerHistories.settings = settings(max_examples=150, stateful_step_count=20)
