"""Timers of a store on disk: reopened, rebuilt from the log, and carried forward."""

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, TimerEnded
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.offline.rebuild import rebuild_directory
from litemq.storage.state.topics import CONTROL_TOPIC_ID, TIMER_TOPIC_ID, QueueKey
from litemq.storage.store import Placed
from litemq.storage.timers.entries import Timer
from litemq.types import Record, RecordKind

BY_HAND = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=100, index_entries=1000, checkpoint_interval_ms=0
)
FAR = 1 << 60
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR


def _open(directory: Path, clock: FakeClock | None = None, config: StoreConfig = BY_HAND) -> DiskStore:
    return DiskStore(directory, config, clock or FakeClock(), host="here")


def _send(store: DiskStore, now: int, *dues: int, producer_id: int = 0, first: int = 0, size: int = 10) -> list[int]:
    topic = store.create_topic("orders", 2)
    records = [
        Record("orders", bytes(size), f"m-{first + n}", delay_time=due, producer_id=producer_id, sequence=first + n)
        for n, due in enumerate(dues)
    ]
    appended = store.append(bytearray(b"".join(map(encode_record, records))), topic.topic_id, 1, held_after=now)
    store.wait_confirmed(appended.end)
    return [int(offset) for offset in appended.queue_offsets]


def _waiting(store: DiskStore) -> list[Timer]:
    """Return all timers without changing them."""
    store.load_timers(FakeClock().wall_ms() + 2 * YEAR)
    timers = store.timers.take(FAR, FAR, 1_000_000)
    store.timers.give_back(timers)
    return timers


def _rows(store: DiskStore) -> list[bytes]:
    """Return the rows of the state, except those of the control topic."""
    rows = (row for row in store.state.rows() if row.queue.topic_id != CONTROL_TOPIC_ID)
    return [row.SerializeToString(deterministic=True) for row in rows]


def _fire(store: DiskStore, timers: list[Timer]) -> None:
    topic = store.create_topic("orders", 2)
    placed = [
        Placed(record, topic.topic_id, 1, RecordKind.FIRED, timer.pending)
        for timer, record in zip(timers, store.read_pending(timers), strict=True)
    ]
    store.wait_confirmed(store.append_placed(placed).end)


def test_messages_due_later_are_held(tmp_path: Path) -> None:
    store = _open(tmp_path)
    now = FakeClock().wall_ms()
    assert _send(store, now, 0, now + 1, now, now + HOUR) == [0, -1, 1, -1]
    topic = store.create_topic("orders", 2)
    assert (
        store.state.end_offsets[QueueKey(topic.topic_id, 1)],
        store.state.end_offsets[QueueKey(TIMER_TOPIC_ID, 1)],
    ) == (2, 2)
    assert [timer.due for timer in _waiting(store)] == [now + 1, now + HOUR]
    totals = store.state.parts.timers
    assert (totals.count, totals.bytes) == (2, sum(timer.size for timer in _waiting(store)))
    store.close()


@pytest.mark.parametrize(
    "how", ["close", "abandon", "checkpoint", "lost files", "lost checkpoint", "damaged", "rebuild"]
)
def test_a_reopened_store_knows_its_timers(tmp_path: Path, how: str) -> None:
    clock = FakeClock()
    now = clock.wall_ms()
    store = _open(tmp_path, clock)
    dues = [now + 1, now + 90 * 60_000, now + 50 * HOUR, now + YEAR, now + YEAR + 5]
    _send(store, now, *dues, producer_id=7)
    store.load_timers(now + 60_000)
    (first,) = store.timers.take(now + 1, FAR, 10)
    if how != "abandon":
        store.checkpoint()
    _fire(store, [first])
    last = _waiting(store)[-1]
    store.append_control(Control(timer_ended=TimerEnded(pending=last.pending, due=last.due, size=last.size)))
    _send(store, now, now + 2 * HOUR, producer_id=7, first=5)
    expected = _waiting(store)
    rows = _rows(store)
    if how in {"close", "rebuild"}:
        store.close()
    else:
        if how in {"lost files", "damaged"}:
            store.checkpoint()
        store.wait_confirmed(store.log_end)
        store.abandon()
    if how == "lost files":
        shutil.rmtree(tmp_path / "timers")
    elif how == "lost checkpoint":
        (tmp_path / "checkpoint").unlink()
    elif how == "damaged":
        for path in (tmp_path / "timers").glob("minute-*"):
            raw = bytearray(path.read_bytes())
            raw[9] ^= 1
            path.write_bytes(raw)
    elif how == "rebuild":
        rebuild_directory(tmp_path, BY_HAND, clock)
    again = _open(tmp_path, clock)
    assert _waiting(again) == expected
    assert [timer.due for timer in expected] == [*dues[1:2], now + 2 * HOUR, *dues[2:4]]
    assert _rows(again) == rows
    pair = (7, again.create_topic("orders", 2).topic_id, 1)
    assert again.state.producers.expected(pair) == 6
    assert [again.state.producers.receipt(pair, n) is not None for n in range(6)] == [True] * 6
    assert {receipt.queue_offset for n in range(6) if (receipt := again.state.producers.receipt(pair, n))} == {-1}
    again.close()


def test_nothing_fires_twice(tmp_path: Path) -> None:
    now = FakeClock().wall_ms()
    store = _open(tmp_path)
    _send(store, now, now + 1, now + 2)
    store.load_timers(now + 60_000)
    first, second = store.timers.take(now + 2, FAR, 10)
    _fire(store, [first])
    end = store.log_end
    for again in ([first], [second, first]):
        with pytest.raises(InvalidArgumentError, match="ended"):
            _fire(store, again)
    assert store.log_end == end
    store.timers.give_back([first, second])
    assert store.timers.take(FAR, FAR, 10) == [second]
    store.timers.give_back([second])
    with pytest.raises(InvalidArgumentError):  # it was not taken
        _fire(store, [second])
    store.close()


def test_timers_are_carried_before_their_segment_is_dropped(tmp_path: Path) -> None:
    clock = FakeClock()
    now = clock.wall_ms()
    store = _open(tmp_path, clock)
    _send(store, now, now + 5, now + 50 * HOUR, now + YEAR, producer_id=7, size=1000)
    store.load_timers(now + 60_000)
    taken = store.timers.take(now + 5, FAR, 10)
    for number in range(60):
        _send(store, now, 0, first=number, size=3000)
    before = _waiting(store)
    bodies = store.read_pending(before)
    assert store.retain(max_bytes=100_000) > 69_000
    after = _waiting(store)
    assert [timer.due for timer in after] == [now + 5, *(timer.due for timer in before)]
    assert min(timer.pending for timer in after) > max(timer.pending for timer in before)
    assert [record[64:] for record in store.read_pending(after[1:])] == [record[64:] for record in bodies]
    assert store.state.parts.timers.count == 3
    with pytest.raises(InvalidArgumentError):  # it was taken before it was carried
        store.append_placed([Placed(bodies[0], 16, 1, RecordKind.FIRED, taken[0].pending)])
    store.abandon()
    again = _open(tmp_path, clock)
    assert _waiting(again) == after
    assert again.state.producers.expected((7, 16, 1)) == 3
    for _ in range(3):  # and on and on
        for number in range(60):
            _send(again, now, 0, first=number, size=3000)
        again.retain(max_bytes=100_000)
    shutil.rmtree(tmp_path / "timers")
    again.abandon()
    last = _open(tmp_path, clock)
    assert [timer.due for timer in _waiting(last)] == [timer.due for timer in after]
    last.close()


def test_ended_timers_are_not_carried(tmp_path: Path) -> None:
    now = FakeClock().wall_ms()
    store = _open(tmp_path)
    _send(store, now, *[now + n for n in range(1, 21)], size=1000)
    store.load_timers(now + 60_000)
    _fire(store, store.timers.take(FAR, FAR, 10))
    store.checkpoint()
    _fire(store, store.timers.take(FAR, FAR, 5))
    for number in range(60):
        _send(store, now, 0, first=number, size=3000)
    store.retain(max_bytes=100_000)
    assert [timer.due for timer in _waiting(store)] == [now + n for n in range(16, 21)]
    store.close()


def test_timers_may_use_half_of_the_disk(tmp_path: Path) -> None:
    now = FakeClock().wall_ms()
    config = StoreConfig(
        segment_bytes=69_632,
        max_record_bytes=4096,
        index_slots=9,
        index_entries=9,
        checkpoint_interval_ms=0,
        max_log_bytes=20_000,
    )
    store = _open(tmp_path, config=config)
    assert store.timer_bytes_left == 10_000
    _send(store, now, now + HOUR, size=1000)
    (timer,) = _waiting(store)
    assert store.timer_bytes_left == 10_000 - timer.size
    _send(store, now, *[now + HOUR] * 20, size=1000)
    assert store.timer_bytes_left == 0
    store.close()
    unlimited = _open(tmp_path / "other")
    assert unlimited.timer_bytes_left > 1 << 20
    unlimited.close()
