"""A master and its followers over TCP."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from litemq.broker.replication.in_sync_set import InSyncSet
from litemq.clock import FakeClock
from litemq.errors import (
    InvalidArgumentError,
    NotMasterError,
    OutdatedStoreError,
    OverloadedError,
    RemoteError,
    StorageError,
    StoreFailedError,
)
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import (
    FetchLogAnswer,
    FetchLogRequest,
    FollowLogAnswer,
    FollowLogRequest,
    LogEpoch,
    Opcode,
    ReportLogRequest,
)
from litemq.storage import replica_store
from litemq.storage.log.chunks import Chunk
from litemq.storage.log_repair import LogRepair
from litemq.storage.replica_store import ReplicaStore
from support.damage import damage_log
from support.on_loop import on_loop
from support.replica_group import GROUP, LEFT, all_have, close_stores, following, open_stores, send_bodies, serving
from support.replicas import assert_same
from support.stores import read_bodies
from support.waiting import HANG_S, eventually


@on_loop
async def test_followers_get_the_log_and_the_confirm_offset(tmp_path: Path) -> None:
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as master, following(master, b), following(master, c):
        for number in range(200):  # several segments
            send_bodies(a, b"%d" % number, bytes(1000))
            if number % 20 == 0:
                await all_have(a, b, c)
        await all_have(a, b, c)
        assert_same(a, b)
        assert_same(a, c)
        assert [(one.received, one.flushed, one.copies) for one in master.shipping.followers] == 2 * [
            (a.log_end, a.log_end, False)
        ]
    close_stores(a, b, c)


@on_loop
async def test_nothing_is_confirmed_without_the_whole_set(tmp_path: Path) -> None:
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as master:
        async with following(master, b):
            end = send_bodies(a, b"one")
            await eventually(lambda: [each.flushed for each in master.shipping.followers] == [end])
            await eventually(lambda: a.flushed_offset == end)
            assert (a.confirm_offset, b.confirm_offset) == (0, 0)
            async with following(master, c):
                await a.confirmed(end)
                await all_have(a, b, c)
        end = send_bodies(a, b"two")
        await eventually(lambda: a.flushed_offset == end)
        assert a.confirm_offset < end
        assert read_bodies(a, "orders") == [b"one"]
    close_stores(a, b, c)


@on_loop
async def test_a_member_with_an_old_directory_does_not_follow_until_it_is_no_member(tmp_path: Path) -> None:
    """Until it has caught up, it could be elected without the confirmed records that it lacks."""
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as master, following(master, c):
        async with following(master, b):
            await a.confirmed(send_bodies(a, b"one"))
            await all_have(a, b, c)
            b.close()
            shutil.copytree(tmp_path / "b", tmp_path / "backup")
            (b,) = open_stores(tmp_path, "b")
        async with following(master, b):
            await a.confirmed(send_bodies(a, b"two"))
            await all_have(a, b, c)
        b.close()
        (b,) = open_stores(tmp_path, "backup")
        end = b.log_end
        with pytest.raises(
            OutdatedStoreError, match=f"of the group up to offset {end}, but it had everything below {a.confirm_offset}"
        ):
            await master.follow(b)
        assert len(master.shipping.followers) == 1
        master.shipping.settle(InSyncSet(frozenset({a.store_id, c.store_id}), 2))
        async with following(master, b):
            await all_have(a, b, c)
            assert_same(a, b)
    close_stores(a, b, c)


@on_loop
async def test_a_master_alone_confirms_what_it_has_flushed(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, min_in_sync=1) as master:
        await a.confirmed(send_bodies(a, b"one"))
        async with following(master, b):
            both = frozenset({a.store_id, b.store_id})
            await eventually(lambda: master.shipping.propose() == both)
        await eventually(lambda: not master.shipping.followers)
        end = send_bodies(a, b"two")
        await eventually(lambda: a.flushed_offset == end)
        assert a.confirm_offset < end  # the follower may be in the set, and has not flushed this
        master.shipping.settle(InSyncSet(frozenset({a.store_id}), 2))
        await a.confirmed(end)
    close_stores(a, b)


@on_loop
async def test_a_newcomer_has_what_was_flushed_until_the_change_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flusher's thread confirms records of a master alone, also while the change is decided."""
    a, b = open_stores(tmp_path, "a", "b")
    hold = a.confirmation.hold

    def flush_and_hold() -> None:
        a.wait_confirmed(send_bodies(a, b"two"))
        hold()

    async with serving(a, min_in_sync=1) as master, following(master, b):
        await a.confirmed(send_bodies(a, b"one"))
        await eventually(lambda: master.in_sync.wanted(a.confirm_offset, 0))
        monkeypatch.setattr(a.confirmation, "hold", flush_and_hold)
        assert master.shipping.propose() is None
        monkeypatch.undo()
        await eventually(master.shipping.propose)
    close_stores(a, b)


@on_loop
async def test_a_master_that_was_replaced_confirms_nothing(tmp_path: Path) -> None:
    """RocketMQ 6662: the confirm offset of a fenced master moved."""
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as old:
        async with following(old, b), following(old, c):
            await a.confirmed(send_bodies(a, b"one"))
            await all_have(a, b, c)
        confirmed = a.confirm_offset
        async with serving(b, [a, c], epoch=2) as new, following(new, c):  # a does not know it
            end = send_bodies(a, b"never confirmed")
            send_bodies(b, b"two")
            await eventually(lambda: c.log_end == b.log_end and a.flushed_offset == end)
            assert a.confirm_offset == confirmed
            with pytest.raises(NotMasterError, match="replaced"):
                await old.follow(c)
            assert a.confirm_offset == confirmed
    close_stores(a, b, c)


@on_loop
async def test_reports_after_the_end_of_the_epoch_confirm_nothing(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, records = await _fetch(peer, begun.session)
        master.shipping.close()
        with pytest.raises(NotMasterError, match="ended"):
            await _report(peer, begun.session, len(records))
        await eventually(lambda: a.flushed_offset == a.log_end)
        assert a.confirm_offset == 0
        peer.close()
    close_stores(a, b)


@on_loop
async def test_old_records_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    monkeypatch.setattr(ReplicaStore, "is_hot", lambda _store, _offset: False)
    async with serving(a, [b]) as master:
        for _ in range(100):
            send_bodies(a, bytes(2000))
        async with following(master, b):
            await all_have(a, b)
            assert_same(a, b)
    close_stores(a, b)


@on_loop
async def test_a_read_that_fails_ends_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    monkeypatch.setattr(ReplicaStore, "is_hot", lambda _store, _offset: False)
    for error, kind in ((OSError("no descriptors"), StorageError), (ValueError("a defect"), StoreFailedError)):

        def read(*_args: object, error: Exception = error) -> Chunk:
            raise error

        monkeypatch.setattr(replica_store, "read_chunk", read)
        async with serving(a, [b], epoch=a.begun_epoch + 1) as master:
            with pytest.raises(kind):
                await master.follow(b)
            assert not master.shipping.followers
        a.stop_writing(LEFT)
    close_stores(a, b)


@on_loop
async def test_damage_of_a_recent_record_is_searched_for_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    threads: list[int] = []
    note = LogRepair.note

    def noting(repair: LogRepair, offset: int) -> None:
        threads.append(threading.get_ident())
        note(repair, offset)

    monkeypatch.setattr(LogRepair, "note", noting)
    async with serving(a, [b]) as master:
        end = send_bodies(a, b"one")
        damage_log(tmp_path / "a", end - 20)
        with pytest.raises(RemoteError, match="is damaged"):
            await master.follow(b)
    assert threads
    assert threading.get_ident() not in threads
    close_stores(a, b)


@on_loop
async def test_a_follower_that_catches_up_is_slowed_down(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    clock = FakeClock()
    async with serving(a, min_in_sync=1, clock=clock, catch_up_bytes_per_s=100_000) as master:
        for _ in range(10):
            send_bodies(a, bytes(3900))
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, first = await _fetch(peer, begun.session, max_bytes=20_000)
        late = asyncio.create_task(_fetch(peer, begun.session, received=len(first)))
        await peer.request(Opcode.PING, b"", timeout=HANG_S)
        assert not late.done()  # what it may get in 0.1 s is used up
        clock.advance(1)
        assert (await late)[1]
        peer.close()
    close_stores(a, b)


# What no follower of ours sends -------------------------------------------------------------------


async def _begin(
    peer: Peer,
    store: ReplicaStore,
    *,
    group: str = GROUP,
    store_id: bytes | None = None,
    log_end: int = 0,
    epochs: Sequence[tuple[int, int]] = (),
    copies: bool = False,
) -> FollowLogAnswer:
    asked = FollowLogRequest(
        group=group,
        store_id=store.store_id if store_id is None else store_id,
        log_end=log_end,
        epochs=[LogEpoch(number=number, start=start) for number, start in epochs],
        copies=copies,
    )
    answer = await peer.request(Opcode.FOLLOW_LOG, asked.SerializeToString(), timeout=HANG_S)
    return FollowLogAnswer.FromString(answer.header)


async def _fetch(
    peer: Peer, session: int, *, received: int = 0, max_bytes: int = 1 << 20, wait_ms: int = 30_000
) -> tuple[FetchLogAnswer, bytes]:
    asked = FetchLogRequest(session=session, received=received, max_bytes=max_bytes, wait_ms=wait_ms)
    answer = await peer.request(Opcode.FETCH_LOG, asked.SerializeToString(), timeout=HANG_S)
    return FetchLogAnswer.FromString(answer.header), answer.attachment


async def _report(peer: Peer, session: int, received: int, flushed: int | None = None) -> None:
    asked = ReportLogRequest(session=session, received=received, flushed=received if flushed is None else flushed)
    await peer.request(Opcode.REPORT_LOG, asked.SerializeToString(), timeout=HANG_S)


@on_loop
async def test_invalid_handshakes_are_refused(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer = await master.connect()
        with pytest.raises(InvalidArgumentError, match="not of 'others'"):
            await _begin(peer, b, group="others")
        for store_id in (b"", bytes(15), a.store_id):
            with pytest.raises(InvalidArgumentError, match="store id"):
                await _begin(peer, b, store_id=store_id)
        for epochs in ([(1, 50)], [(1, 0), (1, 8)], [(1, 8), (2, 8)], [(2, 0), (1, 8)]):
            with pytest.raises(InvalidArgumentError, match="epochs"):
                await _begin(peer, b, log_end=50, epochs=epochs)
        with pytest.raises(NotMasterError, match="replaced"):
            await _begin(peer, b, log_end=50, epochs=[(2, 0)])
        assert not master.shipping.followers
        peer.close()
    close_stores(a, b)


@on_loop
async def test_only_what_was_shipped_in_this_session_counts(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer, other = await master.connect(), await master.connect()
        begun = await _begin(peer, b)
        with pytest.raises(InvalidArgumentError, match="only 0 was shipped"):
            await _report(peer, begun.session, a.log_end)
        _, records = await _fetch(peer, begun.session)
        with pytest.raises(InvalidArgumentError, match="flushed"):
            await _report(peer, begun.session, 0, len(records))
        with pytest.raises(NotMasterError, match="ended"):  # of another connection
            await _report(other, begun.session, len(records))
        assert a.confirm_offset == 0
        again = await _begin(other, b)  # it ends the first session
        with pytest.raises(NotMasterError, match="ended"):
            await _report(peer, begun.session, len(records))
        with pytest.raises(NotMasterError, match="ended"):
            await _fetch(peer, begun.session)
        assert a.confirm_offset == 0
        await _fetch(other, again.session)
        await _report(other, again.session, len(records))
        await eventually(lambda: a.confirm_offset == a.log_end)
        peer.close()
        other.close()
    close_stores(a, b)


@on_loop
async def test_fetches_in_flight_are_bounded(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, records = await _fetch(peer, begun.session)
        waiting = [asyncio.create_task(_fetch(peer, begun.session)) for _ in range(4)]
        await peer.request(Opcode.PING, b"", timeout=HANG_S)  # they come first
        with pytest.raises(OverloadedError, match="in flight"):
            await _fetch(peer, begun.session)
        send_bodies(a, b"one")
        first, data = await waiting[0]
        assert first.begin == len(records)
        assert data
        peer.close()
        await asyncio.gather(*waiting, return_exceptions=True)
        await eventually(lambda: not master.shipping.followers)
    close_stores(a, b)


@on_loop
async def test_a_fetch_is_answered_without_records_when_its_time_is_over(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, records = await _fetch(peer, begun.session)
        fetched, nothing = await _fetch(peer, begun.session, wait_ms=1)
        assert (fetched.begin, nothing) == (len(records), b"")
        peer.close()
    close_stores(a, b)


@on_loop
async def test_a_copy_starts_where_the_log_does_or_continues(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, min_in_sync=1) as master:
        send_bodies(a, b"one")
        peer = await master.connect()
        assert (await _begin(peer, b, copies=True)).begin == 0
        begun = await _begin(peer, b, log_end=a.log_end, epochs=[(1, 0)], copies=True)
        assert begun.begin == a.log_end
        begun = await _begin(peer, b, log_end=a.log_end + 8, epochs=[(1, 0)], copies=True)
        assert begun.begin == 0  # it has records that the master does not have
        _, records = await _fetch(peer, begun.session)
        await _report(peer, begun.session, len(records))
        assert master.in_sync.wanted(0, 0) is None  # a copy is no follower yet
        peer.close()
    close_stores(a, b)


class _Names:
    def __init__(self, names: dict[bytes, str]) -> None:
        self.names = names


@on_loop
async def test_a_shortage_names_the_missing_replicas(tmp_path: Path) -> None:
    a, b, c = open_stores(tmp_path, "a", "b", "c")
    clock = FakeClock()
    async with serving(a, [b, c], clock=clock, names=_Names({b.store_id: "node-2"})) as master:
        clock.advance(3)
        master.shipping.check_replicas()
        said = str(a.replica_refusal)
        assert said.startswith("1 replica of orders is in sync, but min_in_sync is 2; ")
        assert "; node-2 has been missing since " in said
        assert f"; store {c.store_id.hex()} has been missing since " in said  # no NameServer knows it
        assert "not in sync:" not in said
    close_stores(a, b, c)


@on_loop
async def test_a_shortage_names_the_replicas_outside_of_the_set(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    clock = FakeClock()
    names = {a.store_id: "node-1", b.store_id: "node-2", b"3" * 16: "node-3", b"b" * 16: "node-2", b"4" * 16: "node-4"}
    async with serving(a, [b], clock=clock, names=_Names(names)) as master:
        clock.advance(3)
        master.shipping.check_replicas()
        assert "; node-2 has been missing since " in str(a.replica_refusal)
        assert "; also not in sync: node-3, node-4. Start the missing" in str(a.replica_refusal)
        assert a.not_in_sync == "node-3, node-4"
        names.update({bytes([number] * 16): f"old-{number}" for number in range(9)})
        master.shipping.check_replicas()
        assert "node-3, node-4, old-0, old-1, old-2, old-3, old-4, old-5 and 3 more. " in str(a.replica_refusal)
    close_stores(a, b)


@on_loop
async def test_a_set_that_is_too_small_confirms_nothing(tmp_path: Path) -> None:
    a, b = open_stores(tmp_path, "a", "b")
    async with serving(a, min_in_sync=2, epoch=4, unclean=True) as master, following(master, b):
        end = send_bodies(a, b"one")
        await eventually(lambda: a.flushed_offset == b.flushed_offset == end)
        assert a.confirm_offset == 0
        master.shipping.settle(InSyncSet(frozenset({a.store_id, b.store_id}), 2))
        await a.confirmed(end)
    close_stores(a, b)
