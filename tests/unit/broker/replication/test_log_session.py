"""A follower's session: it checks that its log is its master's, cuts it, and says when it stops."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.broker.replication.in_sync_set import InSyncSet
from litemq.broker.replication.log_session import CopyNeeded, LogSession
from litemq.clock import SystemClock
from litemq.errors import (
    LogDivergedError,
    NotMasterError,
    StorageError,
)
from litemq.storage.log_copy import LogCopy
from litemq.storage.replica_store import ReplicaStore
from support.damage import damage_log
from support.on_loop import on_loop
from support.quick_disk import QuickDisk
from support.replica_group import (
    GROUP,
    LEFT,
    Master,
    all_have,
    close_stores,
    following,
    open_stores,
    send_bodies,
    serving,
)
from support.replicas import assert_same, confirm_all
from support.stores import CONFIG, read_bodies
from support.waiting import eventually


@on_loop
async def test_a_former_master_cuts_its_log_and_follows(tmp_path: Path) -> None:
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as first, following(first, b), following(first, c):
        await a.confirmed(send_bodies(a, b"one"))
        await all_have(a, b, c)
    send_bodies(a, b"never confirmed")
    a.stop_writing(LEFT)
    assert a.log_end > b.log_end
    async with serving(b, [a, c], epoch=2) as second, following(second, a), following(second, c):
        await b.confirmed(send_bodies(b, b"two"))
        await all_have(b, a, c)
        assert a.bytes_cut > 0
        assert read_bodies(a, "orders") == [b"one", b"two"]
        assert_same(a, b)
    # An epoch that a does not know, and one that b did not begin.
    b.stop_writing(LEFT)
    async with serving(a, [b, c], epoch=5) as third, following(third, b), following(third, c):
        await a.confirmed(send_bodies(a, b"three"))
        await all_have(a, b, c)
        assert_same(a, b)
        assert [epoch.number for epoch in c.epochs] == [1, 2, 5]
    close_stores(a, b, c)


@on_loop
async def test_a_follower_refuses_a_master_that_was_replaced(tmp_path: Path) -> None:
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    async with serving(a, [b, c], epoch=1) as old, serving(b, [a, c], epoch=2) as new:
        async with following(new, c):
            await eventually(lambda: c.log_end == b.log_end)
        with pytest.raises(NotMasterError, match="replaced"):
            await old.follow(c)
    close_stores(a, b, c)


@on_loop
async def test_segments_of_another_size_need_an_empty_directory(tmp_path: Path) -> None:
    [a] = open_stores(tmp_path, "a")
    size = CONFIG.segment_bytes
    [b] = open_stores(tmp_path, "b", config=replace(CONFIG, segment_bytes=2 * size))
    async with serving(a, [b]) as master:
        said = rf"have {size} bytes, not {2 * size}: start .* an empty data directory and `--file-size {size}` \("
        with pytest.raises(StorageError, match=said):
            await master.follow(b)
    close_stores(a, b)


@on_loop
async def test_confirmed_records_are_never_cut_off(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    a.begin_writing(1)
    send_bodies(a, b"one")
    confirm_all(a)
    a.stop_writing(LEFT)
    async with serving(b, [a], epoch=2) as master:
        with pytest.raises(LogDivergedError):
            await master.follow(a)
    assert read_bodies(a, "orders") == [b"one"]
    close_stores(a, b)


@on_loop
async def test_a_follower_behind_the_masters_log_start_needs_a_copy(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, min_in_sync=1) as master:
        for _ in range(100):
            await a.confirmed(send_bodies(a, bytes(2000)))
        a.retain(max_bytes=70_000)
        await a.confirmed(a.log_end)
        a._maintenance.take_marks()
        assert a.log_start > 0
        assert await master.follow(b) == CopyNeeded(a.log_start, CONFIG.segment_bytes, 0)
    close_stores(a, b)


@pytest.mark.parametrize("is_confirmed", [False, True])
@on_loop
async def test_a_log_that_parts_where_the_masters_is_dropped_needs_a_copy(tmp_path: Path, is_confirmed: bool) -> None:
    """The unconfirmed end of the log crosses the boundary at which the master's log begins now."""
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(b, [a]) as first, following(first, a):
        await b.confirmed(send_bodies(b, b"one"))
        await all_have(b, a)
    common = b.log_end
    for _ in range(100):
        send_bodies(b, bytes(2000))
    b.stop_writing(LEFT)
    end = b.log_end
    if is_confirmed:
        confirm_all(b)
    async with serving(a, min_in_sync=1, epoch=2) as master:
        for _ in range(100):
            await a.confirmed(send_bodies(a, bytes(2000)))
        a.retain(max_bytes=150_000)
        await a.confirmed(a.log_end)
        a._maintenance.take_marks()
        assert common < a.log_start < end
        if is_confirmed:
            with pytest.raises(LogDivergedError, match="Nothing is removed"):
                await master.follow(b)
        else:
            needed = await master.follow(b)
            assert needed == CopyNeeded(a.log_start, CONFIG.segment_bytes, common)
            b.close()
            copy = LogCopy(tmp_path / "b", CONFIG, SystemClock(), needed.log_start, common, disk=QuickDisk())
            assert copy.start == a.log_start
            assert copy.bytes_cut == end - common
            copy.close()
    close_stores(a, b)


@on_loop
async def test_confirmed_records_are_given_up_only_after_an_unclean_election(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as first, following(first, b):
        await a.confirmed(send_bodies(a, b"one"))
        await all_have(a, b)
    common = a.log_end
    a.stop_writing(LEFT)
    async with serving(a, min_in_sync=1, epoch=2):
        await a.confirmed(send_bodies(a, b"lost"))
    a.stop_writing(LEFT)
    async with serving(b, min_in_sync=1, epoch=3) as second:
        with pytest.raises(LogDivergedError) as stopped:
            await second.follow(a)
        assert str(stopped.value).startswith(
            f"the log differs from its master's from offset {common} on, but everything below {a.confirm_offset} is "
            f"confirmed. It ends at {a.log_end} in epoch 2, the master's at {b.log_end} in epoch 3. Nothing is "
            "removed, and this replica stops. Keep its data directory: the master may be the one that lacks messages."
        )
    b.stop_writing(LEFT)
    async with serving(b, min_in_sync=1, epoch=4, unclean=True):
        pass
    b.stop_writing(LEFT)
    async with serving(b, min_in_sync=1, epoch=5) as third:  # its log still tells
        assert await third.follow(a) == CopyNeeded(0, CONFIG.segment_bytes, common)
    assert a.log_end > common
    close_stores(a, b)


def _write_epoch(store: ReplicaStore, epoch: int) -> None:
    store.begin_writing(epoch)
    send_bodies(store, b"of this writer")
    store.stop_writing(LEFT)


@on_loop
async def test_a_log_with_the_same_epochs_of_another_writer_is_refused(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    _write_epoch(a, 1)
    _write_epoch(b, 1)
    assert [(each.number, each.start_offset) for each in a.epochs] == [
        (each.number, each.start_offset) for each in b.epochs
    ]
    async with serving(a, epoch=2) as master:
        with pytest.raises(LogDivergedError, match=r"offset 0 is not the master's.*Keep its data directory"):
            await master.follow(b)
    close_stores(a, b)


@pytest.mark.parametrize("damaged", ["a", "b"])
@on_loop
async def test_a_damaged_record_is_not_taken_for_another_writers(tmp_path: Path, damaged: str) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        async with following(master, b):
            send_bodies(a, b"one")
            await all_have(a, b)
        damage_log(tmp_path / damaged, 20)
        send_bodies(a, b"two")
        async with following(master, b):
            await eventually(lambda: b.log_end == a.log_end)
    close_stores(a, b)


async def _run(session: LogSession) -> None:
    with pytest.raises(asyncio.CancelledError):
        await session.run()


@pytest.mark.parametrize("can_leave", [True, False])
@on_loop
async def test_a_follower_that_stops_leaves_the_set_first_if_it_is_large_enough(
    tmp_path: Path, can_leave: bool
) -> None:
    a, b = open_stores(tmp_path, "a", "b")
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
        await a.confirmed(send_bodies(a, b"one"))
        assert master.shipping.propose() is None  # it does not join again
        run.cancel()
        await run
        peer.close()
    close_stores(a, b)


async def _let_go(master: Master, store: ReplicaStore, leaving: asyncio.Task[None], *, can_leave: bool) -> None:
    """Keep the in-sync set, as a master does, until the follower is answered."""
    await eventually(lambda: any(each.leaving for each in master.shipping._sessions.values()))
    if can_leave:
        assert master.shipping.propose() == frozenset({store.store_id})
        assert master.shipping.propose() is None
        assert not leaving.done()  # the change is in flight: both sets count
        master.shipping.settle(InSyncSet(frozenset({store.store_id}), 2))
    assert master.shipping.propose() is None
