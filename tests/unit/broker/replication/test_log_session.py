"""A follower's session: it checks that its log is its master's, and says when it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from litemq.broker.replication.in_sync_set import InSyncSet
from litemq.broker.replication.log_session import LogSession
from litemq.clock import SystemClock
from litemq.errors import LogDivergedError, NotMasterError
from litemq.format.record_encode import encode_record
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import damage_log
from support.on_loop import on_loop
from support.replica_group import GROUP, Master, all_have, following, serving
from support.replicas import open_replica
from support.stores import CONFIG
from support.waiting import eventually

LEFT = NotMasterError("another replica was elected")


def _open(folder: Path, *names: str) -> list[ReplicaStore]:
    return [open_replica(folder / name, CONFIG, SystemClock()) for name in names]


def _send(store: ReplicaStore, body: bytes) -> int:
    topic = store.create_topic("orders", 1)
    return store.append(bytearray(encode_record(Record("orders", body))), topic.topic_id, 0).end


def _write_epoch(store: ReplicaStore, epoch: int) -> None:
    store.begin_writing(epoch)
    _send(store, b"of this writer")
    store.stop_writing(LEFT)


def _close(*stores: ReplicaStore) -> None:
    for store in stores:
        store.abandon()


@on_loop
async def test_a_log_with_the_same_epochs_of_another_writer_is_refused(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    _write_epoch(a, 1)
    _write_epoch(b, 1)
    assert [(each.number, each.start_offset) for each in a.epochs] == [
        (each.number, each.start_offset) for each in b.epochs
    ]
    async with serving(a, epoch=2) as master:
        with pytest.raises(LogDivergedError, match=r"offset 0 is not the master's.*empty data directory"):
            await master.follow(b)
    _close(a, b)


@pytest.mark.parametrize("damaged", ["a", "b"])
@on_loop
async def test_a_damaged_record_is_not_taken_for_another_writers(tmp_path: Path, damaged: str) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        async with following(master, b):
            _send(a, b"one")
            await all_have(a, b)
        damage_log(tmp_path / damaged, 20)
        _send(a, b"two")
        async with following(master, b):
            await eventually(lambda: b.log_end == a.log_end)
    _close(a, b)


async def _run(session: LogSession) -> None:
    with pytest.raises(asyncio.CancelledError):
        await session.run()


@pytest.mark.parametrize("can_leave", [True, False])
@on_loop
async def test_a_follower_that_stops_leaves_the_set_first_if_it_is_large_enough(
    tmp_path: Path, can_leave: bool
) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, [b], min_in_sync=1 if can_leave else 2) as master:
        peer = await master.connect()
        session = LogSession(b, peer, group=GROUP)
        await session.leave()  # before it has begun: there is nothing to leave
        run = asyncio.create_task(_run(session))
        await eventually(lambda: b.log_end == a.log_end > 0)
        leaving = asyncio.create_task(session.leave())
        await _let_go(master, a, leaving, can_leave=can_leave)
        await leaving
        assert master.in_sync.current.members == ({a.store_id} if can_leave else {a.store_id, b.store_id})
        await a.confirmed(_send(a, b"one"))
        assert master.shipping.propose() is None  # it does not join again
        run.cancel()
        await run
        peer.close()
    _close(a, b)


async def _let_go(master: Master, store: ReplicaStore, leaving: asyncio.Task[None], *, can_leave: bool) -> None:
    """Keep the in-sync set, as a master does, until the follower is answered."""
    await eventually(lambda: any(each.leaving for each in master.shipping._sessions.values()))
    if can_leave:
        assert master.shipping.propose() == frozenset({store.store_id})
        assert master.shipping.propose() is None
        assert not leaving.done()  # the change is in flight: both sets count
        master.shipping.settle(InSyncSet(frozenset({store.store_id}), 2))
    assert master.shipping.propose() is None
