"""A master and its followers over TCP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from litemq.broker.replication.in_sync_set import InSyncSet
from litemq.broker.replication.log_session import CopyNeeded
from litemq.clock import FakeClock, SystemClock
from litemq.errors import (
    InvalidArgumentError,
    LogDivergedError,
    NotMasterError,
    OverloadedError,
    RemoteError,
    StorageError,
    StoreFailedError,
)
from litemq.format.record_encode import encode_record
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
from litemq.storage.config import StoreConfig
from litemq.storage.log.chunks import Chunk
from litemq.storage.log_copy import LogCopy
from litemq.storage.log_repair import LogRepair
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import damage_log
from support.on_loop import on_loop
from support.quick_disk import QuickDisk
from support.replica_group import GROUP, all_have, following, serving
from support.replicas import assert_same, confirm_all, open_replica
from support.stores import CONFIG, read_bodies
from support.waiting import HANG_S, eventually

LEFT = NotMasterError("another replica was elected")


def _open(folder: Path, *names: str, config: StoreConfig = CONFIG) -> list[ReplicaStore]:
    return [open_replica(folder / name, config, SystemClock()) for name in names]


def _send(store: ReplicaStore, *bodies: bytes) -> int:
    topic = store.create_topic("orders", 1)
    batch = bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies))
    return store.append(batch, topic.topic_id, 0).end


def _close(*stores: ReplicaStore) -> None:
    for store in stores:
        store.abandon()


@on_loop
async def test_followers_get_the_log_and_the_confirm_offset(tmp_path: Path) -> None:
    a, b, c = _open(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as master, following(master, b), following(master, c):
        for number in range(200):  # several segments
            _send(a, b"%d" % number, bytes(1000))
            if number % 20 == 0:
                await all_have(a, b, c)
        await all_have(a, b, c)
        assert_same(a, b)
        assert_same(a, c)
        assert [(one.received, one.flushed, one.copies) for one in master.shipping.followers] == 2 * [
            (a.log_end, a.log_end, False)
        ]
    _close(a, b, c)


@on_loop
async def test_nothing_is_confirmed_without_the_whole_set(tmp_path: Path) -> None:
    a, b, c = _open(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as master:
        async with following(master, b):
            end = _send(a, b"one")
            await eventually(lambda: [each.flushed for each in master.shipping.followers] == [end])
            await eventually(lambda: a.flushed_offset == end)
            assert (a.confirm_offset, b.confirm_offset) == (0, 0)
            async with following(master, c):
                await a.confirmed(end)
                await all_have(a, b, c)
        end = _send(a, b"two")
        await eventually(lambda: a.flushed_offset == end)
        assert a.confirm_offset < end
        assert read_bodies(a, "orders") == [b"one"]
    _close(a, b, c)


@on_loop
async def test_a_master_alone_confirms_what_it_has_flushed(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, min_in_sync=1) as master:
        await a.confirmed(_send(a, b"one"))
        async with following(master, b):
            both = frozenset({a.store_id, b.store_id})
            await eventually(lambda: master.shipping.propose() == both)
        await eventually(lambda: not master.shipping.followers)
        end = _send(a, b"two")
        await eventually(lambda: a.flushed_offset == end)
        assert a.confirm_offset < end  # the follower may be in the set, and has not flushed this
        master.shipping.settle(InSyncSet(frozenset({a.store_id}), 2))
        await a.confirmed(end)
    _close(a, b)


@on_loop
async def test_a_newcomer_has_what_was_flushed_until_the_change_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flusher's thread confirms records of a master alone, also while the change is decided."""
    a, b = _open(tmp_path, "a", "b")
    hold = a.confirmation.hold

    def flush_and_hold() -> None:
        a.wait_confirmed(_send(a, b"two"))
        hold()

    async with serving(a, min_in_sync=1) as master, following(master, b):
        await a.confirmed(_send(a, b"one"))
        await eventually(lambda: master.in_sync.wanted(a.confirm_offset, 0))
        monkeypatch.setattr(a.confirmation, "hold", flush_and_hold)
        assert master.shipping.propose() is None
        monkeypatch.undo()
        await eventually(master.shipping.propose)
    _close(a, b)


@on_loop
async def test_a_former_master_cuts_its_log_and_follows(tmp_path: Path) -> None:
    a, b, c = _open(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as first, following(first, b), following(first, c):
        await a.confirmed(_send(a, b"one"))
        await all_have(a, b, c)
    _send(a, b"never confirmed")
    a.stop_writing(LEFT)
    assert a.log_end > b.log_end
    async with serving(b, [a, c], epoch=2) as second, following(second, a), following(second, c):
        await b.confirmed(_send(b, b"two"))
        await all_have(b, a, c)
        assert a.bytes_cut > 0
        assert read_bodies(a, "orders") == [b"one", b"two"]
        assert_same(a, b)
    # An epoch that a does not know, and one that b did not begin.
    b.stop_writing(LEFT)
    async with serving(a, [b, c], epoch=5) as third, following(third, b), following(third, c):
        await a.confirmed(_send(a, b"three"))
        await all_have(a, b, c)
        assert_same(a, b)
        assert [epoch.number for epoch in c.epochs] == [1, 2, 5]
    _close(a, b, c)


@on_loop
async def test_a_master_that_was_replaced_confirms_nothing(tmp_path: Path) -> None:
    """RocketMQ 6662: the confirm offset of a fenced master moved."""
    a, b, c = _open(tmp_path, "a", "b", "c")
    async with serving(a, [b, c]) as old:
        async with following(old, b), following(old, c):
            await a.confirmed(_send(a, b"one"))
            await all_have(a, b, c)
        confirmed = a.confirm_offset
        async with serving(b, [a, c], epoch=2) as new, following(new, c):  # a does not know it
            end = _send(a, b"never confirmed")
            _send(b, b"two")
            await eventually(lambda: c.log_end == b.log_end and a.flushed_offset == end)
            assert a.confirm_offset == confirmed
            with pytest.raises(NotMasterError, match="replaced"):
                await old.follow(c)
            assert a.confirm_offset == confirmed
    _close(a, b, c)


@on_loop
async def test_reports_after_the_end_of_the_epoch_confirm_nothing(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
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
    _close(a, b)


@on_loop
async def test_a_follower_refuses_a_master_that_was_replaced(tmp_path: Path) -> None:
    a, b, c = _open(tmp_path, "a", "b", "c")
    async with serving(a, [b, c], epoch=1) as old, serving(b, [a, c], epoch=2) as new:
        async with following(new, c):
            await eventually(lambda: c.log_end == b.log_end)
        with pytest.raises(NotMasterError, match="replaced"):
            await old.follow(c)
    _close(a, b, c)


@on_loop
async def test_confirmed_records_are_never_cut_off(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    a.begin_writing(1)
    _send(a, b"one")
    confirm_all(a)
    a.stop_writing(LEFT)
    async with serving(b, [a], epoch=2) as master:
        with pytest.raises(LogDivergedError):
            await master.follow(a)
    assert read_bodies(a, "orders") == [b"one"]
    _close(a, b)


@on_loop
async def test_a_follower_behind_the_masters_log_start_needs_a_copy(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, min_in_sync=1) as master:
        for _ in range(100):
            await a.confirmed(_send(a, bytes(2000)))
        a.retain(max_bytes=70_000)
        await a.confirmed(a.log_end)
        a._maintenance.take_marks()
        assert a.log_start > 0
        assert await master.follow(b) == CopyNeeded(a.log_start, CONFIG.segment_bytes, 0)
    _close(a, b)


@pytest.mark.parametrize("is_confirmed", [False, True])
@on_loop
async def test_a_log_that_parts_where_the_masters_is_dropped_needs_a_copy(tmp_path: Path, is_confirmed: bool) -> None:
    """The unconfirmed end of the log crosses the boundary at which the master's log begins now."""
    a, b = _open(tmp_path, "a", "b")
    async with serving(b, [a]) as first, following(first, a):
        await b.confirmed(_send(b, b"one"))
        await all_have(b, a)
    common = b.log_end
    for _ in range(100):
        _send(b, bytes(2000))
    b.stop_writing(LEFT)
    end = b.log_end
    if is_confirmed:
        confirm_all(b)
    async with serving(a, min_in_sync=1, epoch=2) as master:
        for _ in range(100):
            await a.confirmed(_send(a, bytes(2000)))
        a.retain(max_bytes=150_000)
        await a.confirmed(a.log_end)
        a._maintenance.take_marks()
        assert common < a.log_start < end
        if is_confirmed:
            with pytest.raises(LogDivergedError, match="nothing is removed"):
                await master.follow(b)
        else:
            needed = await master.follow(b)
            assert needed == CopyNeeded(a.log_start, CONFIG.segment_bytes, common)
            b.close()
            copy = LogCopy(tmp_path / "b", CONFIG, SystemClock(), needed.log_start, common, disk=QuickDisk())
            assert copy.start == a.log_start
            assert copy.bytes_cut == end - common
            copy.close()
    _close(a, b)


@on_loop
async def test_old_records_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = _open(tmp_path, "a", "b")
    monkeypatch.setattr(ReplicaStore, "is_hot", lambda _store, _offset: False)
    async with serving(a, [b]) as master:
        for _ in range(100):
            _send(a, bytes(2000))
        async with following(master, b):
            await all_have(a, b)
            assert_same(a, b)
    _close(a, b)


@on_loop
async def test_a_read_that_fails_ends_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = _open(tmp_path, "a", "b")
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
    _close(a, b)


@on_loop
async def test_damage_of_a_recent_record_is_searched_for_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = _open(tmp_path, "a", "b")
    threads: list[int] = []
    note = LogRepair.note

    def noting(repair: LogRepair, offset: int) -> None:
        threads.append(threading.get_ident())
        note(repair, offset)

    monkeypatch.setattr(LogRepair, "note", noting)
    async with serving(a, [b]) as master:
        end = _send(a, b"one")
        damage_log(tmp_path / "a", end - 20)
        with pytest.raises(RemoteError, match="is damaged"):
            await master.follow(b)
    assert threads
    assert threading.get_ident() not in threads
    _close(a, b)


@on_loop
async def test_a_follower_that_catches_up_is_slowed_down(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    clock = FakeClock()
    async with serving(a, min_in_sync=1, clock=clock, catch_up_bytes_per_s=100_000) as master:
        for _ in range(10):
            _send(a, bytes(3900))
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, first = await _fetch(peer, begun.session, max_bytes=20_000)
        late = asyncio.create_task(_fetch(peer, begun.session, received=len(first)))
        await peer.request(Opcode.PING, b"", timeout=HANG_S)
        assert not late.done()  # what it may get in 0.1 s is used up
        clock.advance(1)
        assert (await late)[1]
        peer.close()
    _close(a, b)


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
    a, b = _open(tmp_path, "a", "b")
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
    _close(a, b)


@on_loop
async def test_only_what_was_shipped_in_this_session_counts(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
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
    _close(a, b)


@on_loop
async def test_fetches_in_flight_are_bounded(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, records = await _fetch(peer, begun.session)
        waiting = [asyncio.create_task(_fetch(peer, begun.session)) for _ in range(4)]
        await peer.request(Opcode.PING, b"", timeout=HANG_S)  # they come first
        with pytest.raises(OverloadedError, match="in flight"):
            await _fetch(peer, begun.session)
        _send(a, b"one")
        first, data = await waiting[0]
        assert first.begin == len(records)
        assert data
        peer.close()
        await asyncio.gather(*waiting, return_exceptions=True)
        await eventually(lambda: not master.shipping.followers)
    _close(a, b)


@on_loop
async def test_a_fetch_is_answered_without_records_when_its_time_is_over(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, [b]) as master:
        peer = await master.connect()
        begun = await _begin(peer, b)
        _, records = await _fetch(peer, begun.session)
        fetched, nothing = await _fetch(peer, begun.session, wait_ms=1)
        assert (fetched.begin, nothing) == (len(records), b"")
        peer.close()
    _close(a, b)


@on_loop
async def test_a_copy_starts_where_the_log_does_or_continues(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, min_in_sync=1) as master:
        _send(a, b"one")
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
    _close(a, b)


@on_loop
async def test_confirmed_records_are_given_up_only_after_an_unclean_election(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, [b]) as first, following(first, b):
        await a.confirmed(_send(a, b"one"))
        await all_have(a, b)
    common = a.log_end
    a.stop_writing(LEFT)
    async with serving(a, min_in_sync=1, epoch=2):
        await a.confirmed(_send(a, b"lost"))
    a.stop_writing(LEFT)
    async with serving(b, min_in_sync=1, epoch=3) as second:
        with pytest.raises(LogDivergedError, match="is confirmed: nothing is cut off"):
            await second.follow(a)
    b.stop_writing(LEFT)
    async with serving(b, min_in_sync=1, epoch=4, unclean=True):
        pass
    b.stop_writing(LEFT)
    async with serving(b, min_in_sync=1, epoch=5) as third:  # its log still tells
        assert await third.follow(a) == CopyNeeded(0, CONFIG.segment_bytes, common)
    assert a.log_end > common
    _close(a, b)


class _Names:
    def __init__(self, known: dict[bytes, str]) -> None:
        self._known = known

    def name_of(self, store_id: bytes) -> str | None:
        return self._known.get(store_id)


@on_loop
async def test_a_shortage_names_the_missing_replicas(tmp_path: Path) -> None:
    a, b, c = _open(tmp_path, "a", "b", "c")
    clock = FakeClock()
    async with serving(a, [b, c], clock=clock, names=_Names({b.store_id: "node-2"})) as master:
        clock.advance(3)
        master.shipping.check_replicas()
        said = str(a.replica_refusal)
        assert said.startswith("1 replica of orders is in sync, but min_in_sync is 2; ")
        assert "; node-2 has been missing since " in said
        assert f"; store {c.store_id.hex()} has been missing since " in said  # no NameServer knows it
    _close(a, b, c)


@on_loop
async def test_a_set_that_is_too_small_confirms_nothing(tmp_path: Path) -> None:
    a, b = _open(tmp_path, "a", "b")
    async with serving(a, min_in_sync=2, epoch=4, unclean=True) as master, following(master, b):
        end = _send(a, b"one")
        await eventually(lambda: a.flushed_offset == b.flushed_offset == end)
        assert a.confirm_offset == 0
        master.shipping.settle(InSyncSet(frozenset({a.store_id, b.store_id}), 2))
        await a.confirmed(end)
    _close(a, b)
