"""Halves in a store: events, copying, retention, and damage."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, SequenceGapError, TransactionRefusedError
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control
from litemq.storage.batches.half_batches import DecidedHalves
from litemq.storage.batches.record_events import numbered_events
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.storage.state.jobs.jobs import TicksPlaced
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired
from litemq.storage.state.topics import ROLLBACK_TOPIC_ID
from litemq.storage.state.transactions.half_events import HalvesCopied, HalvesPlaced
from litemq.types import Record, RecordKind, Stamp

BY_HAND = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=100, index_entries=1000, checkpoint_interval_ms=0
)
KEY = QueueKey(16, 0)


def _open(directory: Path, clock: FakeClock | None = None) -> DiskStore:
    store = DiskStore(directory, BY_HAND, clock or FakeClock(), host="here")
    store.create_topic("orders", 2)
    return store


def _records(name: str, count: int, first: int = 0, size: int = 100, due: int = 0) -> bytearray:
    ids = [f"{name}#{number}" for number in range(first, first + count)]
    records = [Record("orders", bytes(size), each, transaction_id=name, delay_time=due) for each in ids]
    return bytearray(b"".join(map(encode_record, records)))


def _halves(store: DiskStore, name: str, count: int, first: int = 0, queue_id: int = 0, size: int = 100) -> int:
    appended = store.append_halves(_records(name, count, first, size), 16, queue_id, name, first)
    store.wait_confirmed(appended.end)
    return int(appended.log_offsets[0])


def _commit(store: DiskStore, *names: str, query: str = "q", batch: int = 0) -> None:
    winners = {(int(name.split("/")[2]), int(name.split("/")[3])): name for name in names}
    store.wait_confirmed(store.commit_sink(query, batch, lambda _: winners).end)


def _copy(store: DiskStore, max_bytes: int = 1 << 20) -> int:
    """Copy once; return the number of new messages."""
    decided = store.read_decided(max_bytes)
    if decided is None:
        return 0
    store.wait_confirmed(store.append_committed(decided, 0).end)
    return decided.length


def _ids(store: DiskStore, queue_id: int = 0, topic_id: int = 16) -> list[str]:
    store.wait_confirmed(store.log_end)
    key = QueueKey(topic_id, queue_id)
    data = store.read_queue(key, store.state.start_offsets.get(key, 0), 100_000, 1 << 30)
    starts = scan(data).starts.tolist()
    return [decode_record(data, at).record.message_id for at in starts]


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def _drop_the_first_segments(store: DiskStore) -> None:
    filler = encode_record(Record("orders", bytes(3000), "filler"))
    for _ in range(6):
        store.wait_confirmed(store.append(bytearray(filler * 10), 16, 1).end)
    assert store.retain(max_bytes=100_000) > 0


def test_events_of_halves_are_split_where_necessary() -> None:
    def stored(
        number: int,
        name: str,
        kind: RecordKind,
        offset: int,
        topic: str = "orders",
        queue_id: int = 0,
        origin: int = -1,
    ) -> bytes:
        stamp = Stamp(0, offset, 7 + number, origin, 3, queue_id, 1, kind, 0)
        return encode_record(Record(topic, b"x", transaction_id=name), stamp)

    half, copy = RecordKind.HALF, RecordKind.COMMITTED
    rows = [
        ("a", half, 0), ("a", half, 1), ("b", half, 2), ("b", half, 3), ("cc", half, 4),
        ("a", RecordKind.MESSAGE, 9),
        ("a", half, 5), ("a", half, 7), ("a", copy, 8), ("a", copy, 9), ("b", copy, 10),
    ]  # fmt: skip
    data = b"".join(stored(number, name, kind, offset) for number, (name, kind, offset) in enumerate(rows))
    data += stored(11, "b", half, 11, "bills") + stored(12, "b", half, 12) + stored(13, "b", half, 13, queue_id=1)
    data += stored(14, "b", RecordKind.PENDING, 0, origin=5)
    columns = RecordColumns(data, scan(data).starts)
    events = numbered_events(columns, np.arange(len(columns)) * 100)
    found = [
        (number, event.transaction, event.length if isinstance(event, HalvesPlaced | HalvesCopied) else 1, type(event))
        for number, event in events
        if not isinstance(event, TimersBegun | TimersFired | TicksPlaced)
    ]
    assert found == [
        (0, "a", 2, HalvesPlaced),
        (2, "b", 2, HalvesPlaced),
        (4, "cc", 1, HalvesPlaced),
        (6, "a", 1, HalvesPlaced),
        (7, "a", 1, HalvesPlaced),
        (8, "a", 2, HalvesCopied),
        (10, "b", 1, HalvesCopied),
        (11, "b", 1, HalvesPlaced),
        (12, "b", 1, HalvesPlaced),
        (13, "b", 1, HalvesPlaced),
        (14, "b", 1, PlacedRecord),
    ]
    first, bills = events[0][1], events[7][1]
    assert isinstance(first, HalvesPlaced)
    assert (first.first_log_offset, first.last_log_offset, first.first_half_offset, first.store_timestamp) == (
        0,
        100,
        0,
        8,
    )
    assert isinstance(bills, HalvesPlaced)
    assert bills.topic == "bills"


def test_a_reopened_store_has_the_same_state(tmp_path: Path) -> None:
    store = _open(tmp_path)
    _halves(store, "q/0/0/0", 30)
    _halves(store, "q/0/1/0", 5, queue_id=1)
    _halves(store, "q/0/0/0", 30, first=30)
    _halves(store, "q/1/0/0", 5)
    _halves(store, "q/0/2/0", 5)
    store.snapshot()
    _commit(store, "q/0/0/0", "q/0/1/0")
    assert _copy(store, 4000) == 14
    store.checkpoint()
    assert _copy(store, 4000) == 14
    for lost in ("", "state.db", "checkpoint"):
        before = _rows(store)
        store.abandon()
        if lost:
            for path in tmp_path.glob(f"{lost}*"):
                path.unlink()
        store = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
        assert _rows(store) == before
    while _copy(store):
        pass
    assert _ids(store) == [f"q/0/0/0#{number}" for number in range(60)]
    assert _ids(store, 1) == [f"q/0/1/0#{number}" for number in range(5)]
    assert [name for _, name, _ in store.state.parts.halves.query_transactions("q")] == ["q/1/0/0"]
    store.close()


def test_halves_belong_to_the_topic_that_had_the_name(tmp_path: Path) -> None:
    store = _open(tmp_path)
    _halves(store, "q/0/0/0", 3)
    store.delete_topic("orders")
    store.create_topic("orders", 2)
    for name in ("q/0/0/0", "q/0/1/0"):
        store.wait_confirmed(store.append_halves(_records(name, 2), 17, 0, name, 0).end)
    before = _rows(store)
    known = store.state.parts.halves.get("q/0/0/0")
    assert known is not None
    assert [(run.topic_id, run.length) for run in known.runs] == [(0, 3), (17, 2)]
    store.abandon()
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    assert _rows(store) == before
    _commit(store, "q/0/0/0", "q/0/1/0")
    while _copy(store):
        pass
    assert _ids(store, topic_id=17) == ["q/0/0/0#0", "q/0/0/0#1", "q/0/1/0#0", "q/0/1/0#1"]
    store.close()


def test_nothing_is_copied_twice(tmp_path: Path) -> None:
    store = _open(tmp_path)
    _halves(store, "q/0/0/0", 4)
    assert store.read_decided(1 << 20) is None
    _commit(store, "q/0/0/0")
    decided = store.read_decided(550)
    assert decided is not None
    assert decided.length == 2
    store.append_committed(decided, 0)
    with pytest.raises(InvalidArgumentError, match="copied already"):
        store.append_committed(decided, 0)
    second = store.read_decided(1 << 20)
    assert second is not None
    store.append_committed(second, 0)
    with pytest.raises(InvalidArgumentError, match="copied already"):
        store.append_committed(second, 0)
    store.delete_topic("orders")
    store.create_topic("orders", 2)
    name = "q/1/0/0"
    store.wait_confirmed(store.append_halves(_records(name, 2), 17, 0, name, 0).end)
    _commit(store, name, batch=1)
    third = store.read_decided(1 << 20)
    assert third is not None
    store.delete_topic("orders")
    with pytest.raises(InvalidArgumentError, match="topic was deleted"):
        store.append_committed(third, 0)
    with pytest.raises(InvalidArgumentError, match="copied already"):
        store.append_committed(DecidedHalves("q/9/0/0", third.runs, third.records), 0)
    assert len(store.state.parts.halves) == 0
    store.close()


def test_the_writer_refuses_halves_out_of_order(tmp_path: Path) -> None:
    store = _open(tmp_path)
    _halves(store, "q/0/0/0", 2)
    with pytest.raises(SequenceGapError) as caught:
        store.append_halves(_records("q/0/0/0", 1), 16, 0, "q/0/0/0", 1)
    assert caught.value.expected == 2
    with pytest.raises(TransactionRefusedError, match="rolled back"):
        store.append_halves(_records("q/0/0/1", 1), 16, 0, "q/0/0/1", 1)
    _commit(store, "q/0/0/0")
    with pytest.raises(TransactionRefusedError, match="is already decided"):
        store.append_halves(_records("q/0/0/0", 1, 2), 16, 0, "q/0/0/0", 2)
    store.close()


def test_retention_copies_decided_halves_and_rolls_back_others(tmp_path: Path) -> None:
    store = _open(tmp_path)
    _halves(store, "q/0/0/0", 20)
    _halves(store, "q/1/0/0", 20)
    _halves(store, "p/0/0/0", 3)
    _commit(store, "q/0/0/0")
    _drop_the_first_segments(store)
    late = _halves(store, "p/1/0/0", 3)
    assert late > 100_000
    # The copies are at the end of the log; the halves are gone.
    assert _ids(store) == [f"q/0/0/0#{number}" for number in range(20)]
    assert [name for query in ("p", "q") for _, name, _ in store.state.parts.halves.query_transactions(query)] == [
        "p/1/0/0"
    ]
    data = store.read_queue(QueueKey(ROLLBACK_TOPIC_ID, 0), 0, 9)
    rolled_back = Control.FromString(decode_record(data).record.body).halves_rolled_back
    assert sorted(rolled_back.transactions) == ["p/0/0/0", "q/1/0/0"]
    assert "retention" in rolled_back.reason
    before = _rows(store)
    store.abandon()
    for path in tmp_path.glob("state.db*"):
        path.unlink()
    again = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    assert _rows(again) == before
    again.close()


def test_a_damaged_half_is_skipped_with_a_record(tmp_path: Path) -> None:
    store = _open(tmp_path)
    _halves(store, "q/0/0/0", 2)
    at = _halves(store, "q/0/0/0", 1, first=2)
    _halves(store, "q/0/0/0", 2, first=3)
    _commit(store, "q/0/0/0")
    store.close()
    with (tmp_path / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(at + 230)
        file.write(b"\xff")
    store = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    assert [_copy(store), _copy(store), _copy(store)] == [2, 2, 0]
    assert _ids(store) == ["q/0/0/0#0", "q/0/0/0#1", "q/0/0/0#3", "q/0/0/0#4"]
    before = _rows(store)
    store.abandon()
    shutil.rmtree(tmp_path / "index")
    again = DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    assert _rows(again) == before
    again.abandon()


def test_many_rollbacks_take_several_records(tmp_path: Path) -> None:
    store = _open(tmp_path)
    for partition in range(300):
        store.append_halves(_records(f"q/0/{partition}/0", 1), 16, 0, f"q/0/{partition}/0", 0)
    _commit(store, "q/0/7/0")
    assert store.state.end_offsets[QueueKey(ROLLBACK_TOPIC_ID, 0)] == 2
    assert _copy(store) == 1
    assert len(store.state.parts.halves) == 0
    store.close()
