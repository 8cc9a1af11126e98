"""Expiry by a topic's ``retention``: at once for readers, whatever becomes of the segments."""

import asyncio
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import OffsetOutOfRangeError
from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue
from litemq.storage.disk_store import DiskStore
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import NO_SETTINGS, QueueKey, TopicSettings
from litemq.storage.state.delivery.losses import Loss
from litemq.types import Archived
from support.quick_disk import QuickDisk
from support.stores import CONFIG, read_bodies, send_bodies

_KEY = QueueKey(16, 0)
_HOUR_S = 3600
_HOUR_MS = 3_600_000


def _open(path: Path, clock: FakeClock, *, keep_unread: bool = False) -> DiskStore:
    return DiskStore(path, replace(CONFIG, keep_unread=keep_unread), clock, disk=QuickDisk(), host="here")


def _filled(
    path: Path, clock: FakeClock, *, keep_unread: bool = False, settings: TopicSettings = NO_SETTINGS
) -> DiskStore:
    """A store with three messages in queue 0 of ``orders``, an hour apart; it is 3:30 h old."""
    store = _open(path, clock, keep_unread=keep_unread)
    store.create_topic("orders", 1, settings._replace(retention_ms=2 * _HOUR_MS))
    store.create_topic("kept", 1)
    send_bodies(store, "kept", [b"old"])
    for body in (b"one", b"two", b"three"):
        send_bodies(store, "orders", [body])
        clock.advance(_HOUR_S)
    clock.advance(_HOUR_S / 2)
    return store


def _expire(store: DiskStore) -> int | None:
    return asyncio.run(store.expire_messages())


def test_old_messages_are_gone_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    store = _filled(tmp_path, clock)
    assert read_bodies(store, "orders") == [b"one", b"two", b"three"]
    next_at = _expire(store)
    assert store.state.start_offsets[_KEY] == 2
    assert read_bodies(store, "orders", first=2) == [b"three"]
    with pytest.raises(OffsetOutOfRangeError):
        store.read_queue(_KEY, 1, 1)
    assert read_bodies(store, "kept") == [b"old"]
    assert next_at == clock.wall_ms() + _HOUR_MS // 2  # of the third message
    end = store.log_end
    assert _expire(store) == next_at
    assert store.log_end == end  # nothing is written while nothing expires
    clock.advance(_HOUR_S / 2)
    _expire(store)
    assert store.state.start_offsets[_KEY] == store.state.end_offsets[_KEY] == 3
    send_bodies(store, "orders", [b"four"])
    assert read_bodies(store, "orders", first=3) == [b"four"]
    store.close()


@pytest.mark.parametrize("lost", ["", "state.db", "consumequeue"])
def test_expiry_survives_a_restart(tmp_path: Path, lost: str) -> None:
    clock = FakeClock()
    store = _filled(tmp_path, clock)
    _expire(store)
    store.close()
    if lost == "state.db":
        (tmp_path / lost).unlink()
    elif lost:
        shutil.rmtree(tmp_path / lost)
    store = _open(tmp_path, clock)
    assert store.state.start_offsets[_KEY] == 2
    assert read_bodies(store, "orders", first=2) == [b"three"]
    store.close()
    assert verify_directory(tmp_path).findings == []


def test_a_segment_that_is_dropped_later_loses_nothing_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    store = _filled(tmp_path, clock)
    store.commit_offsets("slow", [(_KEY, 1)])
    with caplog.at_level(logging.WARNING):
        _expire(store)
    assert store.state.parts.losses.of("slow", _KEY) == Loss(1, clock.wall_ms())
    assert "retention deleted unread messages of group slow: 1 " in caplog.text
    for _ in range(4):
        send_bodies(store, "kept", [bytes(3000)] * 20)
    before = store.state.parts.losses.of("slow", _KEY)
    assert store.retain(max_bytes=70_000) > 0
    assert store.state.parts.losses.of("slow", _KEY).messages == before.messages + 1  # the third message
    assert store.state.start_offsets[_KEY] == 3
    store.close()


def test_unread_messages_stay_if_they_are_to_be_kept(tmp_path: Path) -> None:
    store = _filled(tmp_path, FakeClock(), keep_unread=True)
    store.commit_offsets("slow", [(_KEY, 1)])
    _expire(store)
    assert store.state.start_offsets[_KEY] == 1
    store.commit_offsets("slow", [(_KEY, 3)])
    _expire(store)
    assert store.state.start_offsets[_KEY] == 2
    store.close()


def test_unarchived_messages_stay(tmp_path: Path) -> None:
    store = _filled(tmp_path, FakeClock(), settings=TopicSettings(archived=Archived.BLOCK))
    _expire(store)
    assert store.state.start_offsets.get(_KEY, 0) == 0
    archived = ArchivedThrough(topic_id=16, location="/a", queues=[Queue(topic_id=16, least=0, next=1)], at=1)
    store.append_control(Control(archived_through=archived))
    _expire(store)
    assert store.state.start_offsets[_KEY] == 1
    store.close()


def test_unarchived_messages_stay_for_the_archive_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    settings = TopicSettings(archived=Archived.DROP_WITH_RECORD, archive_wait_ms=3 * _HOUR_MS)
    store = _filled(tmp_path, clock, settings=settings)
    with caplog.at_level(logging.WARNING):
        _expire(store)
    assert store.state.start_offsets[_KEY] == 1  # stored 3:30 h ago
    assert "dropping 1 messages of orders that its archive lacks" in caplog.text
    store.close()


def test_a_store_without_retention_of_topics_needs_no_expiry(tmp_path: Path) -> None:
    store = _open(tmp_path, FakeClock())
    store.create_topic("orders")
    assert _expire(store) is None
    store.close()
    assert _expire(store) is None  # closed
