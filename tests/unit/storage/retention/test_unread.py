"""Unread messages and retention: what is counted, recorded and logged, and what is kept instead."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import BacklogFullError
from litemq.format.offset_runs import pack_runs
from litemq.proto.control_pb2 import (
    Control,
    Group,
    GroupChanged,
    GroupOffset,
    LeaseTick,
    OffsetsCommitted,
    QueueLeases,
)
from litemq.storage.disk_store import DiskStore
from litemq.storage.retention.unread import Unread, unread
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.losses import NO_LOSS, Loss
from support.quick_disk import QuickDisk
from support.stores import CONFIG, send_blank

_KEY = QueueKey(16, 0)


def _open(directory: Path, clock: FakeClock, *, keep_unread: bool = False) -> DiskStore:
    config = replace(CONFIG, keep_unread=keep_unread, max_log_bytes=100_000 if keep_unread else None)
    return DiskStore(directory, config, clock, disk=QuickDisk(), host="here")


def _fill(store: DiskStore) -> None:
    for _ in range(6):
        send_blank(store, 10, 3000)


def _commit(store: DiskStore, group: str, offset: int) -> None:
    offsets = [GroupOffset(group=group, topic_id=16, queue_id=0, offset=offset)]
    store.append_control(Control(offsets_committed=OffsetsCommitted(offsets=offsets)))


def _settle(store: DiskStore, group: str, begin: int, end: int) -> None:
    queue = QueueLeases(topic_id=16, queue_id=0, done=pack_runs([(begin, end)]))
    store.append_control(Control(lease_tick=LeaseTick(group=group, queues=[queue])))


def _delete_group(store: DiskStore, group: str) -> None:
    store.append_control(Control(group_changed=GroupChanged(group=Group(group=group, gone=True))))


def test_only_messages_that_were_not_read_are_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store = _open(tmp_path, clock)
    _fill(store)
    _commit(store, "slow", 2)
    _commit(store, "leasing", 1)
    _settle(store, "leasing", 3, 5)  # message 1 and 2 are not done
    _commit(store, "quick", store.state.end_offsets[_KEY])
    assert [each for each in unread(store.state) if each.group != "slow"] == [Unread("leasing", _KEY, 1)]
    with caplog.at_level(logging.WARNING):
        assert store.retain(max_bytes=100_000) > 0
    start = store.state.start_offsets[_KEY]
    at = clock.wall_ms()
    losses = store.state.parts.losses
    assert losses.of("slow", _KEY) == Loss(start - 2, at)
    assert losses.of("leasing", _KEY) == Loss(start - 1 - 2, at)
    assert losses.of("quick", _KEY) == NO_LOSS
    assert f"retention deleted unread messages of group leasing: {start - 3}, group slow: {start - 2} " in caplog.text
    store.close()
    store = _open(tmp_path, clock)  # from state.db
    assert store.state.parts.losses.of("slow", _KEY) == Loss(start - 2, at)
    _delete_group(store, "slow")
    assert store.state.parts.losses.of("slow", _KEY) == NO_LOSS
    store.close()
    store = _open(tmp_path, clock)
    assert store.state.parts.losses.of("slow", _KEY) == NO_LOSS
    assert store.state.parts.losses.of("leasing", _KEY) == Loss(start - 3, at)
    store.close()


def test_losses_are_logged_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store = _open(tmp_path, clock)
    lost = 0
    with caplog.at_level(logging.WARNING):
        for seconds in (0, 20, 20, 21):
            clock.advance(seconds)
            _fill(store)
            if not lost:
                _commit(store, "slow", 0)
            store.retain(max_bytes=100_000)
            lost = store.state.parts.losses.of("slow", _KEY).messages
    lines = [record.getMessage() for record in caplog.records if "unread messages" in record.getMessage()]
    counts = [int(line.partition("group slow: ")[2].partition(" ")[0]) for line in lines]
    assert (len(counts), sum(counts)) == (2, lost)
    store.close()


def test_a_group_reads_every_queue_of_its_topics(tmp_path: Path) -> None:
    store = _open(tmp_path, FakeClock())
    topic = store.create_topic("orders", 2)
    _fill(store)
    offsets = [GroupOffset(group="half", topic_id=topic.topic_id, queue_id=1, offset=0)]
    store.append_control(Control(offsets_committed=OffsetsCommitted(offsets=offsets)))
    assert [each.begin for each in unread(store.state) if each.key.queue_id == 0] == [0]
    store.close()


def test_unread_messages_are_kept_and_sends_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = _open(tmp_path, FakeClock(), keep_unread=True)
    _fill(store)
    _commit(store, "slow", 2)
    with caplog.at_level(logging.INFO):
        store._maintenance.watch_unread()
    assert store.state.start_offsets[_KEY] == 0
    with pytest.raises(BacklogFullError, match=r"unread messages of group slow: 58 \(retention.keep_unread\)"):
        send_blank(store, 1)
    assert store.retain(older_than_ms=1 << 60) == 0  # age does not delete them either
    _commit(store, "slow", 50)  # the consumers have caught up in part
    with caplog.at_level(logging.INFO):
        store._maintenance.watch_unread()
    assert 0 < store.state.start_offsets[_KEY] <= 50
    assert store.state.parts.losses.of("slow", _KEY) == NO_LOSS
    assert "the log has space again" in caplog.text
    send_blank(store, 1)
    store.close()


def test_without_groups_nothing_is_unread(tmp_path: Path) -> None:
    store = _open(tmp_path, FakeClock(), keep_unread=True)
    _fill(store)
    store._maintenance.watch_unread()
    assert store.state.start_offsets[_KEY] > 0
    send_blank(store, 1)
    store.close()
