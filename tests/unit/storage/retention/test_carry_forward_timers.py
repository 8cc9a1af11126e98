"""Carrying many timers: those that end meanwhile stay ended, and maintenance continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.clock import FakeClock, SystemClock
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, TimerEnded, TimersEnded
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.maintenance import Maintenance
from litemq.storage.retention import carry_forward as carrying
from litemq.types import Record
from support.quick_disk import QuickDisk

SMALL = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=100, index_entries=1000, checkpoint_interval_ms=0
)
KEPT = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=100, index_entries=1000, checkpoint_interval_ms=20
)
HOUR = 3_600_000
FAR = 1 << 60


def _hold(store: DiskStore, count: int, now: int) -> list[int]:
    topic_id = store.create_topic("orders", 1).topic_id
    batch = b"".join(
        encode_record(Record("orders", b"x", f"m-{number}", delay_time=now + HOUR)) for number in range(count)
    )
    return [int(at) for at in store.append(bytearray(batch), topic_id, 0, held_after=now).log_offsets]


def _fill(store: DiskStore) -> None:
    topic = store.state.topic("orders")
    assert topic is not None
    filler = encode_record(Record("orders", bytes(3500)))
    for _ in range(5):
        store.wait_confirmed(store.append(bytearray(filler * 8), topic.topic_id, 0).end)


def test_a_timer_that_ends_meanwhile_is_not_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    store = DiskStore(tmp_path, SMALL, clock, disk=QuickDisk(), host="here")
    places = _hold(store, 3, clock.wall_ms())
    _fill(store)
    chunks: list[int] = []

    def cancel_the_last(_maintenance: Maintenance) -> None:
        chunks.append(store.log_end)
        if len(chunks) == 1:
            ended = TimerEnded(pending=places[2], due=clock.wall_ms() + HOUR, size=places[1] - places[0])
            store.append_control(Control(timers_ended=TimersEnded(timers=[ended], cancelled=True)))
            store.wait_confirmed(store.log_end)
            store.timers.write_behind(store.log_end)  # so that no ended timer is found among unwritten entries

    monkeypatch.setattr(carrying, "_MAX_APPEND_TIMERS", 1)
    monkeypatch.setattr(Maintenance, "_yield_to_others", cancel_the_last)
    assert store.retain(max_bytes=70_000) > 0
    assert len(chunks) == 3
    assert store.state.parts.timers.count == 2
    store.load_timers(clock.wall_ms() + 2 * HOUR)
    assert len(store.timers.take(FAR, FAR, 9)) == 2
    store.abandon()


def test_maintenance_continues_while_many_timers_are_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "_MAX_APPEND_TIMERS", 1)
    store = DiskStore(tmp_path, KEPT, SystemClock(), disk=QuickDisk(), host="here")
    _hold(store, 150, SystemClock().wall_ms())
    _fill(store)
    begun, checkpoint = store.log_end, store._maintenance.checkpoint
    seen: list[int] = []

    def watched(*, whole: bool = True) -> None:
        seen.append(store.log_end)
        checkpoint(whole=whole)

    monkeypatch.setattr(store._maintenance, "checkpoint", watched)
    with store._parts.maintaining:  # retention alone does it
        before = SystemClock().wall_ms()
        store.retain(max_bytes=70_000)
        carried = [end for end in seen if end > begun]
        assert len(carried) > 1
        assert store.timers.near_end > before + 120_000
    store.abandon()
