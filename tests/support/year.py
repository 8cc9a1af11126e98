"""A year of a broker's timers in a minute, with a real store on disk and real alarms.

The clock jumps from one event to the next. A seed determines all events. The model is a dictionary
of waiting timers and their due times. A timer fires exactly once: in the 10 ms slot in which it is
due by the broker's clock, or as soon as a broker that was down is back. A cancelled timer never
fires.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.timers.changes import Found, TimerChanges, TimerTick
from litemq.broker.timers.firing import TimerFiring
from litemq.broker.timers.lookup import TimerName, TimerState
from litemq.clock import FakeClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.format.timer_batches import BATCH_ID
from litemq.proto.control_pb2 import Control, TimerBatchCancelled
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import TIMER_TOPIC_ID
from litemq.types import Record
from support.quick_disk import QuickDisk

DAY_MS: Final = 86_400_000
YEAR_MS: Final = 365 * DAY_MS
RETENTION_DAYS: Final = 3
_SLOT_MS: Final = 10
_TOPIC: Final = "reminders"
_QUEUES: Final = 2
_CONFIG: Final = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=500, index_entries=2000, checkpoint_interval_ms=0
)
_LEAST_DELAY_MS: Final = 10


@dataclass
class Waiting:
    """A waiting timer of the model."""

    due: int
    since: int
    size: int
    batch: str


@dataclass
class YearReport:
    """The report of a simulated year."""

    happened: Counter[str] = field(default_factory=Counter)
    message_bytes: int = 0
    rewritten_bytes: int = 0
    most_rewritten: int = 0  # the most times that one message was rewritten

    def __str__(self) -> str:
        happened = ", ".join(f"{what.replace('_', ' ')} {count}" for what, count in self.happened.most_common())
        again = self.rewritten_bytes / max(1, self.message_bytes)
        return f"{happened}; written again {again:.1f} x the messages, one of them {self.most_rewritten} times at most"


class SimulatedYear:
    """One broker's year. ``live`` runs it, and raises ``AssertionError`` on a broken invariant."""

    # What happens, and how often of a hundred inserts.
    EVENTS: ClassVar = {
        "insert": 100,
        "cancel": 12,
        "move": 20,
        "cancel_batch": 2,
        "restart": 2,
        "crash": 2,
        "lose_files": 1,
        "go_away": 1,
        "step_clock": 2,
        "checkpoint": 10,
    }

    def __init__(self, directory: Path, seed: int, timers: int) -> None:
        self._chance = Random(seed)
        self._directory = directory
        self._count = timers
        self._loop = asyncio.new_event_loop()
        self._clock = FakeClock()
        self._waiting: dict[str, Waiting] = {}
        self._cancelled: set[str] = set()
        self._last_ghost = (
            0  # when the last one would have been due whose batch was cancelled: until then it takes its space
        )
        self._fired: set[str] = set()
        self._copies: Counter[str] = Counter()
        self._sizes: dict[str, int] = {}
        self._waited: dict[str, int] = {}
        self._sent = 0
        self._read_to: Counter[QueueKey] = Counter()
        self.report = YearReport()
        self._open()

    # The broker -----------------------------------------------------------------------------------

    def _open(self) -> None:
        self._time = BrokerClock(self._clock)
        self._store = DiskStore(self._directory, _CONFIG, self._time, disk=QuickDisk(), host="here")
        self._topic_id = self._store.create_topic(_TOPIC, _QUEUES).topic_id
        self._loop.run_until_complete(self._start())
        self._settle()

    async def _start(self) -> None:
        context = BrokerContext.create(self._store, self._time, BrokerLimits())
        self._alarms = context.alarms
        self._timer_firing = TimerFiring(context)
        self._answers = context.answers
        self._changes = TimerChanges(self._store, context.answers)

    def _stop(self, end: Callable[[], None]) -> None:
        self._timer_firing.close()
        self._alarms.close()
        end()

    def _settle(self) -> None:
        """Wait until all alarms that rang are handled."""
        self._store.wait_confirmed(self._store.log_end)
        self._loop.run_until_complete(self._ring())
        self._read()
        now = self._time.wall_ms()
        late = {name: now - each.due for name, each in self._waiting.items() if _slot(each.due) <= now}
        assert not late, f"at {now} these should have come (ms): {dict(list(late.items())[:5])}"

    async def _ring(self) -> None:
        self._alarms.ring_due()
        while (working := self._timer_firing._task.task or self._timer_firing._loading) is not None:
            await asyncio.wait((working,))
            await asyncio.sleep(0)

    def close(self) -> None:
        """Close the store and the event loop."""
        self._stop(self._store.abandon)
        self._loop.close()
        self._answers.close()

    # A year ---------------------------------------------------------------------------------------

    def live(self) -> YearReport:
        """Simulate the year, and then until no timer waits."""
        begin = self._now
        every = YEAR_MS // self._count
        upcoming = begin
        retained = begin
        while self._now < begin + YEAR_MS or self._waiting or self._now < self._last_ghost:
            dues = [each.due for each in self._waiting.values()]
            following = min(
                [*dues, upcoming, retained + DAY_MS] if self._now < begin + YEAR_MS else [*dues, retained + DAY_MS]
            )
            self._pass_until(following)
            if upcoming <= self._now < begin + YEAR_MS:
                upcoming = self._now + self._chance.randint(1, 2 * every)
                self._something_happens()
            if self._now >= retained + DAY_MS:
                retained = self._now
                self._store.retain(older_than_ms=self._now - RETENTION_DAYS * DAY_MS)
                self._settle()
        self._judge()
        return self.report

    @property
    def _now(self) -> int:
        return self._time.wall_ms()

    def _pass_until(self, moment: int) -> None:
        """Let time pass until the slot after a moment; a slewed clock takes longer."""
        moment = _slot(moment)
        while (left := moment - self._now) > 0:
            self._clock.advance(left / 1000)
        self._settle()

    def _something_happens(self) -> None:
        what = self._chance.choices(list(self.EVENTS), list(self.EVENTS.values()))[0]
        self.report.happened[what] += 1
        getattr(self, f"_{what}")()
        self._settle()

    def _delay(self) -> int:
        """Draw a delay from 10 ms to a year: some uniform, the others log-uniform."""
        if self._chance.random() < 0.3:
            return self._chance.randint(_LEAST_DELAY_MS, YEAR_MS)
        return int(_LEAST_DELAY_MS * (YEAR_MS / _LEAST_DELAY_MS) ** self._chance.random())

    def _insert(self) -> None:
        now = self._now
        records: list[bytes] = []
        for _ in range(self._chance.choice([1, 1, 1, 4])):
            name = f"m-{self._sent}"
            self._sent += 1
            due = now + self._delay()
            batch = f"b-{self._chance.randrange(self._count // 20 + 1)}"
            body = bytes(self._chance.choice([10, 300, 3000]))
            record = encode_record(Record(_TOPIC, body, name, delay_time=due, properties={BATCH_ID: batch}))
            self._waiting[name] = Waiting(due, now, len(record), batch)
            self._sizes[name] = len(record)
            records.append(record)
        self._store.append(
            bytearray(b"".join(records)), self._topic_id, self._chance.randrange(_QUEUES), held_after=now
        )
        self._timer_firing.on_timer_added()

    def _choose(self) -> str | None:
        return self._chance.choice(list(self._waiting)) if self._waiting else None

    def _cancel(self) -> None:
        name = self._choose()
        if name is not None:
            self._change(name, lambda found, tick: tick.cancel(found[TimerName(_TOPIC, name)]))
            del self._waiting[name]
            self._cancelled.add(name)

    def _move(self) -> None:
        name = self._choose()
        if name is not None:
            due = self._now + self._delay()
            self._change(name, lambda found, tick: tick.move(found[TimerName(_TOPIC, name)], due))
            self._waiting[name].due = due
            self._timer_firing.on_timer_added()

    def _change(self, name: str, decide: Callable[[Found, TimerTick], None]) -> None:
        """As a request would."""

        states: list[TimerState] = []

        def checked(found: Found, tick: TimerTick) -> None:
            states.append(found[TimerName(_TOPIC, name)].state)
            if states[-1] is TimerState.WAITS:
                decide(found, tick)

        self._loop.run_until_complete(self._changes.change([TimerName(_TOPIC, name)], checked))
        assert states[-1] is TimerState.WAITS, (
            f"{name} is {states[-1].name}, and should wait until {self._waiting[name].due}"
        )

    def _cancel_batch(self) -> None:
        name = self._choose()
        if name is not None:
            batch = self._waiting[name].batch
            now = self._now
            cancelled = TimerBatchCancelled(topic=_TOPIC, batch_id=batch, before=self._store.log_end, at=now)
            self._store.change_timers(lambda: [Control(timer_batch_cancelled=cancelled)])
            for other in [other for other, waiting in self._waiting.items() if waiting.batch == batch]:
                self._last_ghost = max(self._last_ghost, self._waiting.pop(other).due)
                self._cancelled.add(other)

    def _checkpoint(self) -> None:
        self._store.checkpoint()

    def _restart(self) -> None:
        self._stop(self._store.close)
        self._open()

    def _crash(self) -> None:
        self._stop(self._store.abandon)
        self._open()

    def _lose_files(self) -> None:
        """Delete derived files: they are rebuilt from the log."""
        self._stop(self._store.abandon)
        shutil.rmtree(self._directory / self._chance.choice(["timers", "consumequeue", "index"]))
        if self._chance.random() < 0.5:
            for path in self._directory.glob("state.db*"):
                path.unlink()
        self._open()

    def _go_away(self) -> None:
        """Stop the broker for up to some days; overdue timers fire when it is back."""
        self._stop(self._store.abandon)
        self._clock.advance(self._chance.uniform(1, 4 * 86_400))
        self._open()

    def _step_clock(self) -> None:
        """Set the host's clock wrong, and correct it some time later."""
        step = self._chance.choice([-1, 1]) * self._chance.choice([0.05, 1.0, 3600.0, 86_400.0])
        self._clock.step_wall(step)
        for _ in range(3):
            self._clock.advance(self._chance.choice([0.01, 30.0, 100.0]))
            self._settle()
        self._clock.step_wall(-step)

    # What must be so ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read new messages and rewritten records."""
        self._store.wait_confirmed(self._store.log_end)
        for queue_id in range(_QUEUES):
            for record, stored_at in self._new(QueueKey(self._topic_id, queue_id)):
                self._came(record, stored_at)
            for record, _ in self._new(QueueKey(TIMER_TOPIC_ID, queue_id)):
                self._copies[record.message_id] += 1

    def _new(self, key: QueueKey) -> list[tuple[Record, int]]:
        found: list[tuple[Record, int]] = []
        following = self._store.state.end_offsets.get(key, 0)
        at = self._read_to[key]
        while at < following:
            data = self._store.read_queue(key, at, 1000)
            begin = 0
            while begin < len(data):
                stored = decode_record(data, begin)
                assert stored.stamp is not None
                assert stored.stamp.queue_offset == at
                begin += stored.size
                at += 1
                found.append((stored.record, stored.stamp.store_timestamp))
        self._read_to[key] = at
        return found

    def _came(self, record: Record, stored_at: int) -> None:
        name = record.message_id
        assert name not in self._cancelled, f"{name} was cancelled, and came"
        assert name not in self._fired, f"{name} came twice"
        timer = self._waiting.pop(name)
        assert stored_at >= timer.due, f"{name} came {timer.due - stored_at} ms early"
        assert self._now >= timer.due
        self._fired.add(name)
        self._waited[name] = (
            self._now - timer.since
        )  # one that was moved again and again may have waited for more than a year

    def _judge(self) -> None:
        """Check that no timer waits or is lost, and that only retention rewrote records."""
        assert len(self._fired) + len(self._cancelled) == self._sent
        assert self._store.state.parts.timers.count == 0
        for name, copies in self._copies.items():
            again = copies - 1
            bound = max(YEAR_MS, self._waited.get(name, 0)) / DAY_MS / RETENTION_DAYS + 1
            assert again <= bound, f"{name} was written again {again} times, at most {bound:.0f} were to be expected"
            self.report.most_rewritten = max(self.report.most_rewritten, again)
            self.report.rewritten_bytes += again * self._sizes[name]
        self.report.message_bytes = sum(self._sizes.values())


def _slot(moment: int) -> int:
    """Return when an alarm for a moment rings."""
    return -(-moment // _SLOT_MS) * _SLOT_MS
