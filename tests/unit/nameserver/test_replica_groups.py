"""Replicated groups at a NameServer: reports, leases, and changes of their in-sync sets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from litemq.errors import (
    ChangeRefusedError,
    ClusterStoreUnavailableError,
    InvalidArgumentError,
    MasterLeaseLostError,
    ProtocolError,
)
from litemq.nameserver import replica_groups
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    Opcode,
    ReplicaGroup,
    ReplicaGroupsAnswer,
)
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import OneCaller, reported_site, unreachable
from support.waiting import eventually


@on_loop
async def test_a_report_waits_for_a_change(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        waiting = await site.waiting_report(A, view.version)
        await site.renew(1, C)
        assert not waiting.done()
        await site.change(1, C, view.revision, B, C)
        assert set(ReplicaGroup.FromString(await waiting).members) == {B, C}


@on_loop
async def test_only_the_master_changes_the_set_and_only_from_the_last_revision(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        for epoch, store_id, revision in ((1, A, view.revision), (2, C, view.revision), (1, C, view.revision - 1)):
            with pytest.raises(ChangeRefusedError):
                await site.change(epoch, store_id, revision, A, C)
        changed = await site.change(1, C, view.revision, A, C)
        assert (set(changed.members), changed.revision > view.revision) == ({A, C}, True)
        with pytest.raises(InvalidArgumentError, match="min_in_sync"):
            await site.change(1, C, changed.revision, C)


@on_loop
async def test_a_master_hands_over_to_a_live_member_whose_clock_is_right(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        await site.report(A, wall_ms=site.clock.wall_ms() + 501)
        with pytest.raises(ChangeRefusedError, match="the clock of a is 501 ms off"):
            await site.hand_over(1, C, view.revision, A)
        with pytest.raises(ChangeRefusedError, match="does not report"):
            await site.hand_over(1, C, view.revision, b"d" * 16)
        for epoch, store_id, revision in ((2, C, view.revision), (1, B, view.revision), (1, C, view.revision + 1)):
            with pytest.raises(ChangeRefusedError, match="the in-sync set was changed"):
                await site.hand_over(epoch, store_id, revision, B)
        waiting = await site.waiting_report(B, (await site.report(B)).version)
        after = await site.hand_over(1, C, view.revision, B)
        assert (after.epoch, after.holder, set(after.members)) == (2, B, {A, B, C})
        assert ReplicaGroup.FromString(await waiting).holder == B  # it learns of that at once
        assert await site.renew(2, B) == 5000
        with pytest.raises(MasterLeaseLostError):
            await site.renew(1, C)


@on_loop
async def test_an_elected_replica_does_not_begin_with_a_wrong_clock(tmp_path: Path) -> None:
    """It was restarted after its election, and its clock has been wrong since then."""
    async with reported_site(tmp_path) as site:
        assert (await site.master(A, B, C, epoch=1)).holder == C
        for error_ms in (501, -501, 3_600_000):
            with pytest.raises(ChangeRefusedError, match=f"the clock of c is {error_ms} ms off"):
                await site.report(C, wall_ms=site.clock.wall_ms() + error_ms)
        assert (await site.report(C, wall_ms=site.clock.wall_ms() + 500)).holder == C
        # A master that has begun keeps its clock steady by itself.
        assert (await site.report(C, wall_ms=site.clock.wall_ms() + 501, last_epoch=1, log_end=8)).holder == C
        assert (await site.report(A, wall_ms=site.clock.wall_ms() + 501)).holder == C


@on_loop
async def test_a_group_elects_another_master_if_the_elected_one_has_a_wrong_clock(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        for _ in range(6):
            site.clock.advance(1)
            for store_id in (A, B):
                await site.report(store_id)
            with pytest.raises(ChangeRefusedError):
                await site.report(C, wall_ms=site.clock.wall_ms() + 3_600_000)
        assert (await site.master(A, B, epoch=2)).holder == B


@on_loop
async def test_a_replica_that_is_silent_or_not_in_sync_gets_no_hand_over(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        view = await site.change(1, C, view.revision, B, C)
        with pytest.raises(ChangeRefusedError, match="a is not in sync"):
            await site.hand_over(1, C, view.revision, A)
        site.clock.advance(1.5)
        await site.renew(1, C)
        site.clock.advance(1.5)
        with pytest.raises(ChangeRefusedError, match="does not report"):
            await site.hand_over(1, C, view.revision, B)


@on_loop
async def test_invalid_reports_are_refused(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        for fields in (
            {"group": ""},
            {"broker_id": "a b"},
            {"host": ""},
            {"port": 0},
            {"port": 65536},
            {"replicas": 65},
            {"min_in_sync": 4},
            {"min_in_sync": 0},
            {"log_end": (1 << 64) - 1},
        ):
            with pytest.raises(InvalidArgumentError):
                await site.report(A, **fields)
        with pytest.raises(InvalidArgumentError, match="16 bytes"):
            await site.report(b"short")
        with pytest.raises(ProtocolError):
            await site.ask(Opcode.REPORT_REPLICA, b"\xff")
        assert not ReplicaGroupsAnswer.FromString(await site.ask(Opcode.LIST_REPLICA_GROUPS, b"")).groups


@on_loop
async def test_a_broker_id_belongs_to_one_replica(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.report(A, broker_id="a", port=1)
        with pytest.raises(InvalidArgumentError, match="is taken by the broker at h:1"):
            await site.report(B, broker_id="a", port=2)
        view = await site.report(B, broker_id="a", port=1)  # the same address: its disk was wiped
        assert [each.store_id for each in view.replicas] == [B]
        site.clock.advance(3)
        view = await site.report(C, broker_id="a", port=2)
        assert [each.store_id for each in view.replicas] == [C]


@on_loop
async def test_the_waiting_reports_of_a_connection_end_with_it(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.report(A)
        caller = OneCaller()
        header = site.encode_report(A, known_version=view.version, wait_ms=30_000)
        site.groups.handle(caller, Frame(1, Opcode.REPORT_REPLICA, 0, header, b""))
        await eventually(lambda: site.groups._groups["orders"].waiting)
        site.groups.caller_gone(caller)
        assert not site.groups._groups["orders"].waiting
        await site.report(B)
        assert not caller.outcome.done()


@on_loop
async def test_a_store_that_does_not_answer_is_noticed_also_while_a_group_has_a_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        with monkeypatch.context() as patched:
            patched.setattr(site.store, "read", unreachable)
            site.clock.advance(3)
            site.groups.sweep()
            await eventually(lambda: site.groups._health.problem)
            view = await site.report(A)
            assert view.obstacle.startswith("the cluster store does not answer")
            assert view.is_leased  # routes and views are served as before
            waiting = await site.waiting_report(A, view.version)
        site.clock.advance(3)
        site.groups.sweep()
        assert "does not answer" not in ReplicaGroup.FromString(await waiting).obstacle  # answered at once


@on_loop
async def test_a_store_that_does_not_answer_at_the_start_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with reported_site(tmp_path) as site:  # no replica has reported yet
        monkeypatch.setattr(site.store, "groups", _without_answer)
        site.groups.sweep()
        await eventually(lambda: site.groups._health.problem)
    assert "the cluster store does not answer, so no master can be elected or stay: no answer" in caplog.text


async def _without_answer() -> None:
    raise ClusterStoreUnavailableError("no answer")


@on_loop
async def test_a_renewal_that_the_store_does_not_answer_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_arguments: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(replica_groups, "_RENEW_S", 0.01)
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        monkeypatch.setattr(site.store, "renew", hang)
        with pytest.raises(ClusterStoreUnavailableError, match=r"no answer from .*groups\.db within 0\.01 s"):
            await site.renew(1, C)
        assert "groups.db" in (await site.report(A, last_epoch=1)).obstacle


@on_loop
async def test_a_copied_data_directory_is_refused_while_the_other_one_runs(tmp_path: Path) -> None:
    """Both would be the master if their store id is elected."""
    async with reported_site(tmp_path) as site:
        caller = OneCaller()
        header = site.encode_report(A, broker_id="a", port=1)
        site.groups.handle(caller, Frame(1, Opcode.REPORT_REPLICA, 0, header, b""))
        await caller.outcome
        for fields in ({"broker_id": "a", "port": 2}, {"broker_id": "d", "port": 2}):
            with pytest.raises(InvalidArgumentError, match="is a copy of the one of a at h:1"):
                await site.report(A, **fields)
        site.groups.caller_gone(caller)  # it has moved
        view = await site.report(A, broker_id="a", port=2)
        assert [each.port for each in view.replicas] == [2]


@on_loop
async def test_groups_without_facts_and_replicas_are_forgotten(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.report(A, group="stray")
        await site.report(A, group="orders")
        site.groups.sweep()
        assert set(site.groups._groups) == {"stray", "orders"}
        site.clock.advance(3)
        await site.report(A, group="orders")
        site.groups.sweep()
        assert set(site.groups._groups) == {"orders"}
        await site.renew(1, A, releases=True, group="never")
        assert set(site.groups._groups) == {"orders"}
