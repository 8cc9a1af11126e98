"""Timers under any order of sends, cancels, moves, time, stops and retention.

Each timer fires once, at its last due time, or never if it was cancelled (I8).
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.timers.firing import TimerFiring
from litemq.broker.timers.lookup import FoundTimer, TimerLookup, TimerName, TimerState
from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.format.timer_batches import BATCH_ID
from litemq.proto.control_pb2 import Control, TimerBatchCancelled, TimerMoved, TimersEnded
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.storage.timers.timer_store import timer_end
from litemq.types import Record
from support.quick_disk import QuickDisk
from support.replicas import assert_follower_agrees

SMALL = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0
)
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
DELAYS = st.sampled_from([0, 10, SECOND, 61 * SECOND, 119 * SECOND, 2 * HOUR, 30 * HOUR, 3 * DAY, 40 * DAY, 365 * DAY])
SPANS = st.sampled_from([0.01, 1.0, 61.0, 7200.0, 86_400.0, 40 * 86_400.0])
BATCHES = st.sampled_from(["", "a", "b"])
STEPS = st.sampled_from([-86_400.0, -3600.0, -1.0, -0.05, 0.05, 1.0, 3600.0, 86_400.0])


class TimerHistories(RuleBasedStateMachine):
    """A store and its firing, and a model of the waiting timers."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="litemq-timers-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.waiting: dict[str, int] = {}  # due times
        self.batches: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.lingering: dict[str, int] = {}  # cancelled with their batch, and perhaps still held until they are due
        self.sent = 0
        self.read_to = 0
        self._open()

    def _open(self) -> None:
        self.time = BrokerClock(self.clock)
        self.store = DiskStore(self.folder, SMALL, self.time, disk=QuickDisk(), host="here")
        self.key = QueueKey(self.store.create_topic("orders", 1).topic_id, 0)
        self.timers = self.runner.run(self._start())
        self._read()  # what became due meanwhile

    async def _start(self) -> TimerFiring:
        context = BrokerContext.create(self.store, self.time, BrokerLimits())
        self.alarms = context.alarms
        self.alarms.close()  # nothing rings by itself: what happens, and when, depends on nothing but the steps
        timers = TimerFiring(context)
        if timers._task.task is not None:
            await timers._task.task
        return timers

    def _stop_firing(self) -> None:
        self.timers.close()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self._stop_firing()
            assert_follower_agrees(self.store)
            self.store.abandon()
            self.runner.close()
            shutil.rmtree(self.folder)

    # What happens ---------------------------------------------------------------------------------

    @rule(delays=st.lists(DELAYS, min_size=1, max_size=4), size=st.sampled_from([0, 2000]), batch=BATCHES)
    def send(self, delays: list[int], size: int, batch: str) -> None:
        records = []
        now = self.time.wall_ms()
        for delay in delays:
            due = now + delay if delay else 0
            message_id = f"m-{self.sent}"
            properties = {BATCH_ID: batch} if batch else {}
            record = Record(
                "orders", bytes(size), message_id, (), (), properties, delay_time=due, producer_id=7, sequence=self.sent
            )
            records.append(encode_record(record))
            self.sent += 1
            self.waiting[message_id] = due
            self.batches[message_id] = batch
        appended = self.store.append(bytearray(b"".join(records)), self.key.topic_id, 0, held_after=now)
        self.store.wait_confirmed(appended.end)
        assert [offset < 0 for offset in appended.queue_offsets.tolist()] == [delay > 0 for delay in delays]
        assert self.store.state.producers.expected((7, self.key.topic_id, 0)) == self.sent
        self._read()

    def _find(self, number: int) -> tuple[str, FoundTimer]:
        """Choose a timer that waits or was cancelled."""
        candidates = sorted([*self.waiting, *self.cancelled])
        message_id = candidates[number % len(candidates)]
        name = TimerName("orders", message_id)
        return message_id, TimerLookup(self.store).find([name])[name]

    @precondition(lambda self: self.waiting or self.cancelled)
    @rule(number=st.integers(0, 99))
    def cancel(self, number: int) -> None:
        message_id, found = self._find(number)
        if message_id in self.cancelled:
            assert found.state is not TimerState.WAITS
            assert found.state is not TimerState.DELIVERED
            return
        assert found.state is TimerState.WAITS
        ended = timer_end(self.store.timers, found.pending, found.delay_time, found.size)
        assert (ended.moved_due or ended.due) == self.waiting[message_id]
        self.store.change_timers(lambda: [Control(timers_ended=TimersEnded(timers=[ended], cancelled=True))])
        del self.waiting[message_id]
        self.cancelled.add(message_id)

    @precondition(lambda self: self.waiting)
    @rule(number=st.integers(0, 99), delay=DELAYS)
    def move(self, number: int, delay: int) -> None:
        message_id, found = self._find(number)
        if message_id in self.cancelled:
            return
        before = self.store.timers.due_time(found.pending, found.delay_time)
        assert before == self.waiting[message_id]
        due = self.time.wall_ms() + delay
        moved = TimerMoved(
            pending=found.pending, delay_time=found.delay_time, due_before=before, due=due, size=found.size
        )
        self.store.change_timers(lambda: [Control(timer_moved=moved)])
        self.waiting[message_id] = due

    @rule(batch=st.sampled_from(["a", "b"]))
    def cancel_batch(self, batch: str) -> None:
        cancel = TimerBatchCancelled(topic="orders", batch_id=batch, before=self.store.log_end, at=self.time.wall_ms())
        self.store.change_timers(lambda: [Control(timer_batch_cancelled=cancel)])
        for message_id in [message_id for message_id in self.waiting if self.batches[message_id] == batch]:
            self.lingering[message_id] = self.waiting.pop(message_id)
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
        self.lingering = {message_id: due for message_id, due in self.lingering.items() if due > now}

    @rule()
    def list(self) -> None:
        """Check that all waiting timers are listed in order, with their last due times."""
        self.store.wait_confirmed(self.store.log_end)
        timers = self.store.timers_after((0, -1), 1 << 62, 10_000)
        assert timers == sorted(timers)
        found = {
            decode_record(record).record.message_id: timer.due
            for timer, record in zip(timers, self.store.read_pending(timers), strict=True)
        }
        assert len(found) == len(timers)
        assert self.waiting.items() <= found.items() <= (self.waiting | self.lingering).items()

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

    # What must be so ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Check that new messages fired once each, and not early."""
        self.store.wait_confirmed(self.store.log_end)
        now = self.time.wall_ms()
        while self.read_to < self.store.state.end_offsets.get(self.key, 0):
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
            count = self.store.state.parts.timers.count
            assert len(self.waiting) <= count <= len(self.waiting) + len(self.lingering)


TestTimerHistories = TimerHistories.TestCase
TestTimerHistories.settings = settings(max_examples=100, stateful_step_count=25)
