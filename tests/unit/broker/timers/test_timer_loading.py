"""Timers load while others fire: if retention holds the files, timers in memory still fire."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.timers.firing import TimerFiring
from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.damaged_record import damaged
from support.quick_disk import QuickDisk
from support.waiting import HANG_S

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0
)
SECOND = 1000


class SlowStore(DiskStore):
    """A store whose timer files may be locked, as by retention."""

    def __init__(self, directory: Path, clock: FakeClock) -> None:
        self.files_are_free = threading.Event()
        self.files_are_free.set()
        self.failure: CorruptStoreError | None = None
        super().__init__(directory, CONFIG, clock, disk=QuickDisk(), host="here")

    def load_timers(self, until: int) -> None:
        assert self.files_are_free.wait(HANG_S)
        if self.failure is not None:
            raise self.failure
        super().load_timers(until)

    def send(self, *dues: int, body: bytes = b"x") -> None:
        topic_id = self.create_topic("orders", 1).topic_id
        batch = b"".join(encode_record(Record("orders", body, delay_time=due)) for due in dues)
        self.wait_confirmed(self.append(bytearray(batch), topic_id, 0, held_after=1).end)


def test_loaded_timers_fire_while_the_next_load_is_blocked(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        store = SlowStore(tmp_path, clock)
        context = BrokerContext.create(store, clock, BrokerLimits())
        alarms = context.alarms
        timers = TimerFiring(context)
        await timers.fire_due()
        now = clock.wall_ms()
        store.send(now + 100 * SECOND, now + 300 * SECOND)
        store.files_are_free.clear()
        clock.advance(100)
        assert store.timers.near_end < clock.wall_ms() + 100 * SECOND
        await timers.fire_due()  # no load is possible now
        assert store.state.parts.timers.count == 1
        clock.advance(200)
        waiting = asyncio.create_task(timers.fire_due())  # and what is due now is not in memory
        await asyncio.sleep(0.02)
        assert not waiting.done()
        store.files_are_free.set()
        await waiting
        assert store.state.parts.timers.count == 0
        timers.close()
        alarms.close()
        store.abandon()

    asyncio.run(main())


def _loading(timers: TimerFiring) -> asyncio.Future[None] | None:
    return timers._loading


def test_a_failed_load_is_retried_a_second_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = FakeClock()
        store = SlowStore(tmp_path, clock)
        context = BrokerContext.create(store, clock, BrokerLimits())
        alarms = context.alarms
        timers = TimerFiring(context)
        await timers.fire_due()
        store.failure = CorruptStoreError("day-1", 0, "damaged")
        clock.advance(110)
        for _ in range(3):
            await timers.fire_due()
            if (loading := _loading(timers)) is not None:
                await asyncio.wait((loading,))
                await asyncio.sleep(0)
        near_end = store.timers.near_end
        assert [record.message for record in caplog.records if "damaged" in record.message] == [
            caplog.records[-1].message
        ]
        store.failure = None
        await timers.fire_due()
        assert _loading(timers) is None  # not yet
        clock.advance(1)
        await timers.fire_due()
        loading = _loading(timers)
        assert loading is not None
        await loading
        assert store.timers.near_end > near_end
        timers.close()
        alarms.close()
        store.abandon()

    asyncio.run(main())


def test_a_damaged_timer_of_a_replica_fires_once_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = FakeClock()
        store = SlowStore(tmp_path, clock)
        context = BrokerContext.create(store, clock, BrokerLimits())
        timers = TimerFiring(context)
        await timers.fire_due()
        now = clock.wall_ms()
        store.send(now + SECOND, body=b"first")
        store.send(now + SECOND, body=b"second")
        monkeypatch.setattr(DiskStore, "is_replicated", True)
        clock.advance(2)
        for text in (b"orders", b"second"):  # topic and body of the last
            with damaged(tmp_path, text), pytest.raises(CorruptStoreError):
                await timers.fire_due()
            assert store.state.end_offsets[QueueKey(16, 0)] == 1, "the other one fires"
        assert await timers.fire_due() == 1
        timers.close()
        context.alarms.close()
        store.abandon()

    asyncio.run(main())
