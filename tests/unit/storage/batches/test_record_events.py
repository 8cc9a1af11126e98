"""Events of records, one by one and in bulk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, TimerEnded
from litemq.storage.batches.record_events import numbered_events
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired
from litemq.storage.store import Placed
from litemq.types import Record, RecordKind
from support.quick_disk import QuickDisk

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0
)
NOW = FakeClock().wall_ms()
HOUR = 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path, CONFIG, FakeClock(), disk=QuickDisk(), host="here")


def test_consecutive_new_timers_are_one_event(store: DiskStore) -> None:
    topic_id = store.create_topic("orders", 1).topic_id
    records = [Record("orders", b"x", f"m-{n}", delay_time=NOW + n * HOUR if n % 3 else 0) for n in range(1, 7)]
    sent = store.append(bytearray(b"".join(map(encode_record, records))), topic_id, 0, held_after=NOW)
    first, *_ = held = [int(at) for at, offset in zip(sent.log_offsets, sent.queue_offsets, strict=True) if offset < 0]
    size = int(sent.log_offsets[1] - first)
    store.append_control(Control(timer_ended=TimerEnded(pending=held[1], due=NOW + 2 * HOUR, size=size)))
    later = store.append(
        bytearray(encode_record(Record("orders", b"x", delay_time=NOW + HOUR))), topic_id, 0, held_after=NOW
    )
    store.load_timers(NOW + 2 * HOUR)
    store.wait_confirmed(store.log_end)
    (taken, *others) = store.timers.take(NOW + HOUR, store.log_end, 9)
    store.timers.give_back(others)
    store.append_placed([Placed(store.read_pending([taken])[0], topic_id, 0, RecordKind.FIRED, taken.pending)])
    last = store.append(
        bytearray(encode_record(Record("orders", b"x", delay_time=NOW + HOUR))), topic_id, 0, held_after=NOW
    )
    store.wait_confirmed(store.log_end)
    log = store._log.read(0, store.log_end)
    columns = RecordColumns(log, scan(log, limits=STORED_LIMITS).starts)
    events = [event for _, event in numbered_events(columns, columns.starts)]
    begun = [event for event in events if isinstance(event, TimersBegun)]
    assert [event.log_offsets.tolist() for event in begun] == [
        held,
        later.log_offsets.tolist(),
        last.log_offsets.tolist(),
    ]
    assert np.concatenate([event.dues for event in begun]).tolist() == [NOW + n * HOUR for n in (1, 2, 4, 5, 1, 1)]
    (fired,) = (event for event in events if isinstance(event, TimersFired))
    assert (fired.origins.tolist(), fired.dues.tolist(), fired.sizes.tolist()) == ([first], [NOW + HOUR], [size])
    numbers = [number for number, _ in numbered_events(columns, columns.starts)]
    assert numbers == sorted(numbers)
    assert store.state.parts.timers.count == 4
    store.abandon()
