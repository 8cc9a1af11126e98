"""The contract of stores, on disk and in memory."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, OffsetOutOfRangeError, RecordFormatError, StoreFailedError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey, TopicSettings
from litemq.storage.store import Store
from litemq.types import Record, StoredRecord
from support.waiting import HANG_S

SMALL = StoreConfig(segment_bytes=1 << 20, max_record_bytes=65536, index_slots=100, index_entries=1000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    made: Store = DiskStore(tmp_path, SMALL, clock, host="here") if request.param == "disk" else MemoryStore(clock)
    yield made
    made.close()


def _encoded(topic: str, *bodies: bytes, **fields: object) -> bytearray:
    return bytearray(b"".join(encode_record(Record(topic, body, **fields)) for body in bodies))  # type: ignore[arg-type]


def _decoded(data: bytes | memoryview) -> list[StoredRecord]:
    found = []
    at = 0
    while at < len(data):
        found.append(decode_record(data, at))
        at += found[-1].size
    return found


def _bodies(data: bytes | memoryview) -> list[bytes]:
    return [stored.record.body for stored in _decoded(data)]


def test_appended_messages_are_read_from_their_queue(store: Store) -> None:
    topic = store.create_topic("orders", 2)
    first = store.append(_encoded("orders", b"a", b"b", b"c"), topic.topic_id, 0)
    second = store.append(_encoded("orders", b"d", b"e", b"f"), topic.topic_id, np.array([0, 1, 0]))
    store.wait_confirmed(second.end, HANG_S)
    assert first.queue_offsets.tolist() == [0, 1, 2]
    assert second.queue_offsets.tolist() == [3, 0, 4]
    assert second.end == store.confirm_offset
    key = QueueKey(topic.topic_id, 0)
    assert _bodies(store.read_queue(key, 0, 100)) == [b"a", b"b", b"c", b"d", b"f"]
    assert _bodies(store.read_queue(key, 2, 2)) == [b"c", b"d"]
    assert _bodies(store.read_queue(key, 0, 100, max_bytes=1)) == [b"a"]
    assert store.read_queue(key, 5, 100) == b""
    with pytest.raises(OffsetOutOfRangeError):
        store.read_queue(key, 6, 100)
    found = _decoded(store.read_queue(key, 4, 1))[0]
    assert found.stamp is not None
    assert (found.stamp.queue_offset, found.stamp.commitlog_offset) == (4, int(second.log_offsets[2]))
    assert store.read_record(int(second.log_offsets[2])) == found
    with pytest.raises(OffsetOutOfRangeError):
        store.read_record(second.end)


def test_nothing_of_a_refused_batch_is_kept(store: Store) -> None:
    topic = store.create_topic("orders", 2)
    spoilt = _encoded("orders", b"a", b"b")
    spoilt[-5] ^= 1
    before = store.confirm_offset
    for batch, topic_id, queues, error in (
        (spoilt, topic.topic_id, 0, RecordFormatError),
        (_encoded("orders", b"a"), topic.topic_id, 2, InvalidArgumentError),
        (_encoded("orders", b"a"), topic.topic_id, -1, InvalidArgumentError),
        (_encoded("orders", b"a"), 1, 0, InvalidArgumentError),
        (_encoded("orders", b"a"), 99, 0, InvalidArgumentError),
        (_encoded("other", b"a"), topic.topic_id, 0, InvalidArgumentError),
        (_encoded("orders", b"a", b"b"), topic.topic_id, np.array([0]), InvalidArgumentError),
        (bytearray(), topic.topic_id, 0, InvalidArgumentError),
    ):
        with pytest.raises(error):
            store.append(batch, topic_id, queues)
    assert QueueKey(topic.topic_id, 0) not in store.state.end_offsets
    assert store.append(_encoded("orders", b"a"), topic.topic_id, 0).queue_offsets.tolist() == [0]
    assert before <= store.confirm_offset


def test_a_recreated_topic_continues_its_offsets(store: Store) -> None:
    topic = store.create_topic("orders", 1)
    assert store.create_topic("orders", 9) == topic
    store.append(_encoded("orders", b"a", b"b"), topic.topic_id, 0)
    store.delete_topic("orders")
    assert store.state.topic("orders") is None
    with pytest.raises(InvalidArgumentError):
        store.append(_encoded("orders", b"c"), topic.topic_id, 0)
    for name in ("orders", "never", "LITEMQ_SYS_CONTROL"):
        with pytest.raises(InvalidArgumentError):
            store.delete_topic(name)
    with pytest.raises(InvalidArgumentError):
        store.create_topic("orders", 0)
    again = store.create_topic("orders", 1)
    appended = store.append(_encoded("orders", b"c"), again.topic_id, 0)
    store.wait_confirmed(appended.end, HANG_S)
    assert appended.queue_offsets.tolist() == [2]
    assert _bodies(store.read_queue(QueueKey(again.topic_id, 0), 2, 10)) == [b"c"]


def test_a_topic_recreated_with_fewer_and_then_more_queues_continues_all_offsets(store: Store) -> None:
    for queues, sent_to in ((3, (0, 1, 2)), (1, (0,)), (3, (2,))):
        topic = store.create_topic("orders", queues)
        for queue_id in sent_to:
            store.append(_encoded("orders", b"a"), topic.topic_id, queue_id)
        ends = [store.state.end_offsets.get(QueueKey(topic.topic_id, queue_id), 0) for queue_id in range(queues)]
        store.delete_topic("orders")
    assert ends == [2, 1, 2]


def test_offsets_of_groups_are_kept(store: Store) -> None:
    key = QueueKey(store.create_topic("orders", 1).topic_id, 0)
    store.append(_encoded("orders", *[b"x"] * 5), key.topic_id, 0)
    store.commit_offsets("billing", [(key, 5)])
    store.commit_offsets("billing", [(key, 3)])
    for wrong in ((key, 6), (key, -1), (QueueKey(key.topic_id, 1), 0), (QueueKey(99, 0), 0)):
        with pytest.raises(InvalidArgumentError):
            store.commit_offsets("billing", [(key, 1), wrong])
    with pytest.raises(InvalidArgumentError):
        store.commit_offsets("", [(key, 1)])
    assert store.state.group_offsets == {("billing", key): 3}


def _numbered(topic: str, producer_id: int, sequences: range) -> bytearray:
    return bytearray(
        b"".join(encode_record(Record(topic, b"x", producer_id=producer_id, sequence=n)) for n in sequences)
    )


def test_sequences_of_producers_are_known(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("orders", 2)
    producers = store.state.producers
    first = store.append(
        _numbered("orders", 7, range(3)) + _numbered("orders", 8, range(2)), topic.topic_id, np.array([0, 0, 0, 1, 0])
    )
    store.append(_encoded("orders", b"nobody's"), topic.topic_id, 0)
    clock.advance(5)
    second = store.append(_numbered("orders", 7, range(3, 5)), topic.topic_id, 0)
    assert producers.expected((7, topic.topic_id, 0)) == 5
    assert producers.expected((7, topic.topic_id, 1)) == 0
    assert producers.receipt((7, topic.topic_id, 0), 2) == (2, first.store_timestamp)
    assert producers.receipt((7, topic.topic_id, 0), 3) == (5, second.store_timestamp)
    assert producers.receipt((7, topic.topic_id, 0), 5) is None
    # Sequence 1 of producer 8 is in another queue than 0: the store takes it and continues from it.
    assert producers.receipt((8, topic.topic_id, 0), 1) == (3, first.store_timestamp)
    assert producers.expected((0, topic.topic_id, 0)) == 0
    assert len(producers) == 3


def test_a_producer_is_forgotten_after_seven_days_or_with_its_topic(store: Store, clock: FakeClock) -> None:
    topic, other = store.create_topic("orders", 1), store.create_topic("payments", 1)
    producers = store.state.producers
    for facts in (topic, other):
        store.append(_numbered(facts.name, 7, range(3)), facts.topic_id, 0)
    clock.advance(167 * 3600)
    store.append(_numbered("payments", 7, range(3, 4)), other.topic_id, 0)
    assert producers.expected((7, topic.topic_id, 0)) == 3
    clock.advance(2 * 3600)
    store.append(_encoded("payments", b"nobody's"), other.topic_id, 0)
    assert producers.expected((7, topic.topic_id, 0)) == 0
    assert producers.expected((7, other.topic_id, 0)) == 4
    store.append(_numbered("orders", 7, range(1)), topic.topic_id, 0)
    assert producers.receipt((7, topic.topic_id, 0), 0) is not None
    store.delete_topic("payments")
    assert producers.expected((7, other.topic_id, 0)) == 0
    again = store.create_topic("payments", 1)
    assert producers.expected((7, again.topic_id, 0)) == 0
    assert store.append(_numbered("payments", 7, range(1)), again.topic_id, 0).queue_offsets.tolist() == [5]
    assert producers.receipt((7, again.topic_id, 0), 0) is not None
    assert len(producers) == 2


def test_a_closed_store_refuses_appends(store: Store) -> None:
    topic = store.create_topic("orders", 1)
    store.close()
    with pytest.raises(StoreFailedError):
        store.append(_encoded("orders", b"x"), topic.topic_id, 0)
    with pytest.raises(StoreFailedError):
        store.create_topic("other")


def test_messages_are_found_by_key_id_and_time(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("orders", 1)
    times = []
    for number in range(5):
        times.append(clock.wall_ms())
        batch = _encoded(
            "orders", str(number).encode(), message_id=f"m-{number}", keys=("even" if number % 2 == 0 else "odd",)
        )
        end = store.append(batch, topic.topic_id, 0).end
        clock.advance(10)
    store.wait_confirmed(end, HANG_S)
    assert [stored.record.body for stored in store.find("orders", "even")] == [b"4", b"2", b"0"]
    assert [stored.record.body for stored in store.find("orders", "even", 1)] == [b"4"]
    assert [stored.record.message_id for stored in store.find("orders", "m-3")] == ["m-3"]
    assert store.find("other", "even") == []
    assert store.find("orders", "") == []
    assert store.find("orders", "even", -1) == []
    key = QueueKey(topic.topic_id, 0)
    assert [store.offset_at_time(key, time) for time in times] == [0, 1, 2, 3, 4]
    assert (
        store.offset_at_time(key, 0),
        store.offset_at_time(key, times[2] - 1),
        store.offset_at_time(key, times[4] + 1),
    ) == (0, 2, 5)
    assert store.offset_at_time(QueueKey(topic.topic_id, 7), 0) == 0


def test_an_event_loop_pulls(store: Store) -> None:
    topic = store.create_topic("orders", 1)
    key = QueueKey(topic.topic_id, 0)

    async def run() -> None:
        assert await store.pull(key, 0, 10) == b""
        appended = store.append(_encoded("orders", b"a", b"b"), topic.topic_id, 0)
        await store.confirmed(appended.end)
        assert _bodies(await store.pull(key, 0, 10)) == [b"a", b"b"]
        with pytest.raises(OffsetOutOfRangeError):
            await store.pull(key, 3, 10)
        with pytest.raises(OffsetOutOfRangeError):
            await store.confirmed(appended.end + 1)

    asyncio.run(run())


def test_messages_expire_by_their_topics_retention(store: Store, clock: FakeClock) -> None:
    topic = store.create_topic("orders", 2, TopicSettings(retention_ms=10_000))
    key = QueueKey(topic.topic_id, 0)
    for body in (b"one", b"two"):
        store.wait_confirmed(store.append(_encoded("orders", body), topic.topic_id, 0).end, HANG_S)
        clock.advance(6)
    assert asyncio.run(store.expire_messages()) == clock.wall_ms() + 4000
    assert store.state.start_offsets[key] == 1
    assert _bodies(store.read_queue(key, 1, 10)) == [b"two"]
    clock.advance(60)
    asyncio.run(store.expire_messages())
    assert store.state.start_offsets[key] == store.state.end_offsets[key] == 2
    store.delete_topic("orders")
    assert asyncio.run(store.expire_messages()) is None
