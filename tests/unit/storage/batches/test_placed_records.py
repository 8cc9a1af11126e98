"""Records that the broker appends: any queues in one write, with the producer's bytes unchanged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.format.record import PRODUCER_BYTES_AT
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey, dead_letter_topic, retry_topic
from litemq.storage.store import Placed, Store
from litemq.types import Record, RecordKind

BY_HAND = StoreConfig(
    segment_bytes=1 << 20, max_record_bytes=65536, index_slots=100, index_entries=1000, checkpoint_interval_ms=0
)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = (
        MemoryStore(FakeClock())
        if request.param == "memory"
        else DiskStore(tmp_path, BY_HAND, FakeClock(), host="here")
    )
    yield made
    made.close()


def _send(store: Store, *bodies: bytes) -> list[int]:
    topic = store.create_topic("orders", 2)
    batch = b"".join(encode_record(Record("orders", body, message_id=body.decode(), keys=("k",))) for body in bodies)
    appended = store.append(bytearray(batch), topic.topic_id, 0)
    store.wait_confirmed(appended.end)
    return list(map(int, appended.log_offsets))


def test_a_copy_keeps_the_producers_bytes(store: Store) -> None:
    first, second = _send(store, b"one", b"two")
    retry, orders = store.system_topic(retry_topic("billing")), store.create_topic("orders", 2)
    appended = store.append_placed(
        [
            Placed(store.read_raw(first), retry.topic_id, orders.topic_id, RecordKind.RETRY, first, 3),
            Placed(store.read_raw(second), orders.topic_id, 1, RecordKind.COMMITTED, second),
            Placed(store.read_raw(second), retry.topic_id, orders.topic_id, RecordKind.RETRY, second, 1),
        ]
    )
    store.wait_confirmed(appended.end)
    assert appended.queue_offsets.tolist() == [0, 0, 1]
    tried = bytes(store.read_queue(QueueKey(retry.topic_id, orders.topic_id), 0, 10))
    again = decode_record(tried)
    assert again.stamp is not None
    assert (again.stamp.origin, again.stamp.kind, again.stamp.consume_count, again.record.body) == (
        first,
        RecordKind.RETRY,
        3,
        b"one",
    )
    assert tried[PRODUCER_BYTES_AT : again.size] == store.read_raw(first)[PRODUCER_BYTES_AT:]
    assert [
        int(offset) for offset in store.read_entries(QueueKey(retry.topic_id, orders.topic_id), 0, 10)["log_offset"]
    ] == [
        int(appended.log_offsets[0]),
        int(appended.log_offsets[2]),
    ]


def test_a_copy_in_another_topic_is_not_found_in_its_own(store: Store) -> None:
    (first,) = _send(store, b"one")
    timer = Placed(store.read_raw(first), 2, 0, RecordKind.PENDING)
    store.wait_confirmed(store.append_placed([timer]).end)
    assert [found.stamp.commitlog_offset for found in store.find("orders", "k") if found.stamp] == [first]


def test_only_existing_queues(store: Store) -> None:
    (first,) = _send(store, b"one")
    raw = store.read_raw(first)
    orders = store.create_topic("orders", 2)
    end = store.log_end
    for placed in ([], [Placed(raw, 999, 0, RecordKind.RETRY)], [Placed(raw, orders.topic_id, 2, RecordKind.FIRED)]):
        with pytest.raises(InvalidArgumentError):
            store.append_placed(placed)
    with pytest.raises(LiteMQError):
        store.append_placed([Placed(raw + raw, orders.topic_id, 0, RecordKind.FIRED)])
    with pytest.raises(InvalidArgumentError):
        store.system_topic("orders")
    with pytest.raises(LiteMQError):
        store.read_raw(first + 8)
    assert store.log_end == end


def test_a_system_topic_is_created_once(store: Store) -> None:
    dead = store.system_topic(dead_letter_topic("orders"))
    assert store.system_topic("%DLQ%orders") == dead
    assert dead.queues == 1
    with pytest.raises(InvalidArgumentError):
        store.delete_topic("LITEMQ_SYS_TIMER")


def test_a_reopened_store_knows_placed_records(tmp_path: Path) -> None:
    clock = FakeClock()
    store = DiskStore(tmp_path, BY_HAND, clock, host="here")
    (first,) = _send(store, b"one")
    retry = store.system_topic(retry_topic("billing"))
    placed = [Placed(store.read_raw(first), retry.topic_id, 16, RecordKind.RETRY, first, 1)]
    store.wait_confirmed(store.append_placed(placed).end)
    store.checkpoint()
    store.wait_confirmed(store.append_placed(placed).end)
    rows = [row.SerializeToString(deterministic=True) for row in store.state.rows()]
    store.abandon()
    again = DiskStore(tmp_path, BY_HAND, clock, host="here")
    assert [row.SerializeToString(deterministic=True) for row in again.state.rows()] == rows
    assert again.read_entries(QueueKey(retry.topic_id, 16), 0, 10).size == 2
    again.close()
