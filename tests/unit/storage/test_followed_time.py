"""The time of a log that a master with a wrong clock wrote, at the next master."""

from pathlib import Path

from litemq.clock import FakeClock
from litemq.format.record_encode import encode_record
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.replicas import open_replica, ship
from support.stores import CONFIG

HOUR = 3600


def _send(store: ReplicaStore) -> int:
    """Send a message; return its store time."""
    topic = store.create_topic("orders", 1)
    return store.append(bytearray(encode_record(Record("orders", b"one"))), topic.topic_id, 0).store_timestamp


def test_the_next_master_goes_on_from_the_time_of_a_fast_one(tmp_path: Path) -> None:
    right, fast = FakeClock(), FakeClock()
    fast.step_wall(HOUR)
    first, second = open_replica(tmp_path / "a", CONFIG, fast), open_replica(tmp_path / "b", CONFIG, right)
    first.begin_writing(1)
    latest = _send(first)
    ship(first, second, 1 << 20)
    first.abandon()
    second.begin_writing(2)
    right.advance(10)
    assert second.log_clock.wall_ms() == _send(second) == latest + 9_000
    second.abandon()


def test_a_slow_master_holds_no_one_back(tmp_path: Path) -> None:
    right, slow = FakeClock(), FakeClock()
    slow.step_wall(-HOUR)
    first, second = open_replica(tmp_path / "a", CONFIG, slow), open_replica(tmp_path / "b", CONFIG, right)
    first.begin_writing(1)
    _send(first)
    ship(first, second, 1 << 20)
    first.abandon()
    second.begin_writing(2)
    assert second.log_clock.wall_ms() == _send(second) == right.wall_ms()
    second.abandon()
