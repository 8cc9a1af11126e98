"""A replica copies its master's log over TCP, opens it and follows."""

from __future__ import annotations

from pathlib import Path

from litemq.broker.replication.copy_session import CopySession
from litemq.clock import SystemClock
from litemq.format.record_encode import encode_record
from litemq.storage.log_copy import LogCopy
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.on_loop import on_loop
from support.quick_disk import QuickDisk
from support.replica_group import GROUP, Master, following, serving
from support.replicas import assert_same, open_replica
from support.stores import CONFIG
from support.waiting import eventually


def _send(store: ReplicaStore, size: int) -> int:
    topic = store.create_topic("orders", 1)
    return store.append(bytearray(encode_record(Record("orders", bytes(size)))), topic.topic_id, 0).end


async def _copy(master: Master, folder: Path) -> bool:
    """Run one session of a copy into ``folder``; finish it if it is complete."""
    copy = LogCopy(folder, CONFIG, SystemClock(), 0, disk=QuickDisk())
    peer = await master.connect()
    try:
        session = CopySession(copy, peer, group=GROUP, segment_bytes=CONFIG.segment_bytes)
        is_complete = await session.run()
    finally:
        peer.close()
    copy.finish() if is_complete else copy.close()
    return is_complete


@on_loop
async def test_a_newcomer_copies_a_log_whose_beginning_is_gone(tmp_path: Path) -> None:
    a = open_replica(tmp_path / "a", CONFIG, SystemClock())
    async with serving(a, min_in_sync=1) as master:
        for _ in range(100):
            await a.confirmed(_send(a, 2000))
        a.retain(max_bytes=70_000)
        await a.confirmed(a.log_end)
        a._maintenance.take_marks()
        assert a.log_start > 0
        assert await _copy(master, tmp_path / "b")
        assert not master.shipping.followers or master.shipping.followers[0].copies
        b = open_replica(tmp_path / "b", CONFIG, SystemClock())
        assert b.log_start == a.log_start
        async with following(master, b):
            _send(a, 2000)
            await eventually(lambda: b.confirm_offset == a.log_end)
            assert_same(a, b)
    a.abandon()
    b.abandon()


@on_loop
async def test_a_copy_that_was_stopped_continues(tmp_path: Path) -> None:
    a = open_replica(tmp_path / "a", CONFIG, SystemClock())
    async with serving(a, min_in_sync=1) as master:
        for _ in range(50):
            await a.confirmed(_send(a, 2000))
        copy = LogCopy(tmp_path / "b", CONFIG, SystemClock(), 0, disk=QuickDisk())
        chunk = a.read_chunk(0, 10_000)
        copy.append(chunk.begin, chunk.data, a.confirm_offset)
        copy.close()
        assert await _copy(master, tmp_path / "b")
        b = open_replica(tmp_path / "b", CONFIG, SystemClock())
        assert b.log_end == a.log_end
    a.abandon()
    b.abandon()
