"""Retention carries forward waiting retries and dead letters, but nothing that has ended."""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError
from litemq.format.dead_letters import DeadLetterHistory, encode_dead_letter
from litemq.proto.control_pb2 import Control, TryFailed
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey, dead_letter_topic, retry_topic
from litemq.storage.store import Placed
from litemq.types import DeadReason, RecordKind
from support.stores import send_blank

BY_HAND = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=100, index_entries=1000, checkpoint_interval_ms=0
)
DAY = 24 * 3600


def _open(directory: Path, clock: FakeClock) -> DiskStore:
    return DiskStore(directory, BY_HAND, clock, host="here")


def _fail(store: DiskStore, group: str, predecessor: int, offset: int, due: int) -> None:
    retry = store.system_topic(retry_topic(group))
    failed = TryFailed(
        group=group,
        topic_id=16,
        queue_id=0,
        queue_offset=offset,
        predecessor=predecessor,
        due=due,
        count=2,
        retry_topic_id=retry.topic_id,
    )
    store.append_control(Control(try_failed=failed))


def _drop_the_first_segments(store: DiskStore) -> int:
    for _ in range(6):
        send_blank(store, 10, 3000)
    start = store.retain(max_bytes=100_000)
    assert start > 0
    return start


def test_messages_that_wait_for_a_retry_are_carried(tmp_path: Path) -> None:
    clock = FakeClock()
    store = _open(tmp_path, clock)
    first, second, third = send_blank(store, 3)
    due = clock.wall_ms() + 1000
    for group in ("billing", "shipping"):
        _fail(store, group, first, 0, due)
    _fail(store, "billing", second, 1, due)
    raw = store.read_raw(first)
    start = _drop_the_first_segments(store)
    tries = sorted((group, predecessor, waiting) for predecessor, group, waiting in store.state.parts.tries)
    assert [group for group, _, _ in tries] == ["billing", "billing", "shipping"]
    assert all(predecessor >= start and waiting.due == due for _, predecessor, waiting in tries)
    moved = store.state.parts.tries.moved_to(first)
    assert store.read_raw(moved)[64:] == raw[64:]
    assert store.state.parts.tries.moved_to(third) == third
    # The copies are not timers.
    assert store.state.parts.timers.count == 0
    store.load_timers(due + 10_000)
    assert store.timers.take(1 << 60, 1 << 60, 10) == []
    # A caller with the old offset is refused.
    retry = store.system_topic(retry_topic("billing"))
    with pytest.raises(InvalidArgumentError, match="retention moved"):
        store.append_placed([Placed(raw, retry.topic_id, 16, RecordKind.RETRY, first, 2)])
    store.append_placed([Placed(raw, retry.topic_id, 16, RecordKind.RETRY, moved, 2)])
    assert store.state.parts.tries.get(moved, "billing") is None
    rows = [row.SerializeToString(deterministic=True) for row in store.state.parts.rows()]
    store.wait_confirmed(store.log_end)
    store.abandon()
    again = _open(tmp_path, clock)
    assert [row.SerializeToString(deterministic=True) for row in again.state.parts.rows()] == rows
    _drop_the_first_segments(again)
    assert sorted(group for _, group, _ in again.state.parts.tries) == ["billing", "shipping"]
    again.close()


def test_dead_letters_are_carried_within_their_retention(tmp_path: Path) -> None:
    clock = FakeClock()
    store = _open(tmp_path, clock)
    old, young, sent_on = send_blank(store, 3)
    topic = store.system_topic(dead_letter_topic("orders"))
    dead_letters = []
    for number, offset in enumerate((old, young, sent_on)):
        history = DeadLetterHistory(
            DeadReason.MAX_RETRY, group="billing", dead_at=clock.wall_ms() - (29 if number == 0 else 1) * DAY * 1000
        )
        dead_letter = encode_dead_letter(store.read_raw(offset), history)
        appended = store.append_placed([Placed(dead_letter, topic.topic_id, 0, RecordKind.DEAD, offset)])
        dead_letters.append(int(appended.log_offsets[0]))
    store.wait_confirmed(store.log_end)
    redriven = Placed(store.read_record(dead_letters[2]).record.body, 16, 0, RecordKind.MESSAGE, dead_letters[2])
    store.append_placed([redriven])
    with pytest.raises(InvalidArgumentError, match="redriven already"):
        store.append_placed([redriven])
    key = QueueKey(topic.topic_id, 0)
    _drop_the_first_segments(store)
    carried = list(store.state.parts.dead_letters.in_queue(key))
    assert [offset for offset, _ in carried] == [3, 4]
    assert store.read_record(carried[0][1]).record.message_id == "m-0"
    clock.advance(2 * DAY)
    _drop_the_first_segments(store)
    kept = list(store.state.parts.dead_letters.in_queue(key))
    assert [store.read_record(log_offset).record.message_id for _, log_offset in kept] == ["m-1"]
    store.close()
    again = _open(tmp_path, clock)
    assert list(again.state.parts.dead_letters.in_queue(key)) == kept
    again.close()
