"""Failures that RocketMQ had with replicas, by the numbers of its issues."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.broker.replication.in_sync_set import InSyncTracker
from litemq.clock import SystemClock
from litemq.errors import NotMasterError
from litemq.format.record_encode import encode_record
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.replica_store import ReplicaStore
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.on_loop import on_loop
from support.replica_group import all_have, following, serving
from support.replicas import confirm_all, open_replica, ship
from support.stores import CONFIG
from support.waiting import eventually

LEFT = NotMasterError("another replica was elected")


def _open(folder: Path, *names: str) -> list[ReplicaStore]:
    return [open_replica(folder / name, CONFIG, SystemClock()) for name in names]


def _send(store: ReplicaStore, *bodies: bytes) -> list[int]:
    """Append messages; return their offsets in the queue."""
    topic = store.create_topic("orders", 1)
    batch = bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies))
    offsets: list[int] = store.append(batch, topic.topic_id, 0).queue_offsets.tolist()
    return offsets


@on_loop
async def test_6662_the_confirm_offset_of_a_fenced_master_stays(
    tmp_path: Path, is_guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: both sets count until the cluster store has answered (rule 4).

    The first master wants to drop ``b`` and gets no answer, since ``b`` was elected meanwhile.
    """
    if not is_guarded:
        monkeypatch.setattr(InSyncTracker, "counted", property(lambda it: it.proposed or it.current.members))
    a, b, c = _open(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as fenced, following(fenced, c) as at_the_fenced:
        async with following(fenced, b):
            _send(a, b"one")
            await all_have(a, b, c)
        confirmed = a.confirm_offset
        _send(a, b"two")
        await eventually(lambda: c.log_end == a.log_end)
        fenced.in_sync.propose(frozenset({a.store_id, c.store_id}))
        await eventually(lambda: fenced.shipping.followers[0].flushed == a.log_end == a.flushed_offset)
        fenced.shipping.advance()
        assert (a.confirm_offset == confirmed) is is_guarded
        at_the_fenced.cancel()
    b.begin_writing(2)
    assert _send(b, b"not two") == [1]
    for store in (a, b, c):
        store.abandon()


def test_7689_queue_offsets_continue_after_the_unconfirmed_records(tmp_path: Path, is_guarded: bool) -> None:
    """Guard: a replica applies records when it appends them, not when they are confirmed.

    A master that counted from the confirm offset gave two messages the same offset of a queue.
    """
    a, b = _open(tmp_path, "a", "b")
    a.begin_writing(1)
    given = _send(a, b"one")
    ship(a, b, 1 << 20)
    confirm_all(b)
    given += _send(a, b"two", b"three")
    ship(a, b, 1 << 20)
    assert b.confirm_offset < b.log_end
    topic = b.state.topic("orders")
    assert topic is not None
    if not is_guarded:
        b.state.end_offsets[QueueKey(topic.topic_id, 0)] = 1  # what is confirmed
    b.begin_writing(2)
    given += _send(b, b"four")
    assert (given == [0, 1, 2, 3]) is is_guarded
    for store in (a, b):
        store.abandon()


def test_10666_a_cut_is_durable(tmp_path: Path, is_guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: ``cut`` truncates the files and moves the checkpoint before it returns.

    A broker that truncated in memory only had the records again after a restart.
    """
    (a,) = _open(tmp_path, "a")
    a.begin_writing(1)
    _send(a, b"one")
    confirm_all(a)
    confirmed = a.confirm_offset
    _send(a, b"never confirmed")
    a.stop_writing(LEFT)
    if not is_guarded:
        monkeypatch.setattr(LogDirectory, "cut", lambda files, _offset: files._release() or 0)
    a.cut(confirmed)
    a.abandon()
    (again,) = _open(tmp_path, "a")
    assert (again.log_end == confirmed) is is_guarded
    again.abandon()
