"""Replicated groups begin, and get their masters."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    ChangeRefusedError,
    MasterLeaseLostError,
)
from litemq.proto.wire_pb2 import (
    Opcode,
    ReplicaGroup,
    ReplicaGroupsAnswer,
)
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import reported_site, unreachable
from support.waiting import eventually


@on_loop
async def test_a_group_begins_when_all_of_its_replicas_are_there(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        for number, store_id in enumerate((A, B), 1):
            view = await site.report(store_id)
            assert view.revision == 0
            assert view.obstacle.startswith(f"{number} of 3 replicas {'has' if number == 1 else 'have'} started")
        view = await site.master(A, B, C, epoch=1)
        assert (view.holder, set(view.members), view.min_in_sync, view.obstacle) == (C, {A, B, C}, 2, "")
        assert [(each.broker_id, each.alive) for each in view.replicas] == [("a", True), ("b", True), ("c", True)]
        listed = ReplicaGroupsAnswer.FromString(await site.ask(Opcode.LIST_REPLICA_GROUPS, b"")).groups
        assert [(group.name, group.epoch) for group in listed] == [("orders", 1)]


@on_loop
async def test_a_group_with_records_that_the_store_does_not_know_waits_for_an_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reported_site(tmp_path) as site:
        with monkeypatch.context() as patched:  # a store that does not answer knows the group, perhaps
            patched.setattr(site.store, "read", unreachable)
            for store_id in (A, B, C):
                await site.report(store_id, last_epoch=3, log_end=1000)
            await eventually(lambda: site.groups._health.problem)
            assert "recover" not in (await site.report(A, last_epoch=3)).obstacle
        group = site.groups._groups["orders"]
        await eventually(lambda: not group.is_changing)
        await site.report(A, last_epoch=3)
        await eventually(lambda: "litemq cluster recover orders" in group.obstacle)
        site.groups.sweep()
        assert (await site.report(A, last_epoch=3)).revision == 0


@on_loop
async def test_a_silent_master_is_replaced_by_the_replica_with_the_longest_log(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        before = await site.master(A, B, C, epoch=1)
        await site.report(A, last_epoch=1, log_end=500)
        await site.report(B, last_epoch=1, log_end=600)
        await site.lose_lease(A, last_epoch=1, log_end=500)
        view = await site.master(A, epoch=2, last_epoch=1, log_end=500)
        # B is silent, too: without both, the set would be smaller than min_in_sync.
        assert (view.holder, set(view.members)) == (A, set(before.members))
        with pytest.raises(MasterLeaseLostError):
            await site.renew(1, C)
        assert await site.renew(2, A) == 5000


@on_loop
async def test_a_replica_with_a_full_disk_becomes_the_master_only_if_there_is_no_other(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        full = {"last_epoch": 1, "log_end": 600, "lacks_space": True}
        await site.report(B, **full)
        with pytest.raises(ChangeRefusedError, match="the disk of b is nearly full"):
            await site.hand_over(1, C, view.revision, B)
        await site.report(A, last_epoch=1, log_end=500)
        await site.renew(1, C, releases=True)
        view = await site.master(A, epoch=2, last_epoch=1, log_end=500)
        assert view.holder == A
        assert [each.broker_id for each in view.replicas if each.lacks_space] == ["b"]
        await site.report(B, **full)
        await site.renew(2, A, releases=True)
        assert (await site.master(B, epoch=3, **full)).holder == B


@on_loop
async def test_silent_members_leave_the_set_at_an_election(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        await site.lose_lease(A, B, last_epoch=1)
        view = await site.master(A, B, epoch=2, last_epoch=1)
        assert (view.holder, set(view.members)) == (B, {A, B})


@on_loop
async def test_a_killed_master_is_not_elected_again_after_a_short_lease(tmp_path: Path) -> None:
    async with reported_site(tmp_path, lease_ms=2_000) as site:
        await site.master(A, B, C, epoch=1)
        await site.renew(1, C)
        site.clock.advance(0.2)
        for store_id, log_end in ((A, 90), (B, 80), (C, 100)):  # its last report
            await site.report(store_id, last_epoch=1, log_end=log_end)
        for _ in range(2):
            site.clock.advance(0.9)
            for store_id, log_end in ((A, 90), (B, 80)):
                await site.report(store_id, last_epoch=1, log_end=log_end)
        await site.store.groups()
        site.groups.sweep()
        view = await site.master(A, epoch=2, last_epoch=1, log_end=90)
        assert (view.holder, set(view.members)) == (A, {A, B})


@on_loop
async def test_a_master_that_releases_its_lease_is_replaced_at_once(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        for store_id, log_end in ((A, 9), (B, 8), (C, 10)):
            await site.report(store_id, last_epoch=1, log_end=log_end)
        await site.renew(1, C, releases=True)
        view = await site.master(A, epoch=2, last_epoch=1, log_end=9)
        assert (view.holder, set(view.members)) == (A, {A, B})  # C stops


@on_loop
async def test_no_master_is_elected_before_the_nameserver_has_listened(tmp_path: Path) -> None:
    clock = FakeClock()
    async with reported_site(tmp_path, clock) as site:
        await site.master(A, B, C, epoch=1)
    async with reported_site(tmp_path, clock) as site:
        site.groups._elector._since = clock.elapsed_ns()
        await site.lose_lease()
        site.groups._elector._since = clock.elapsed_ns()
        for _ in range(20):
            site.groups.sweep()
            assert not (await site.report(A, last_epoch=1)).is_leased
        clock.advance(1.5)
        await site.report(B, last_epoch=1)
        clock.advance(0.5)
        assert (await site.master(A, B, epoch=2, last_epoch=1)).holder == B


@on_loop
async def test_a_nameserver_that_has_heard_all_replicas_elects_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    async with reported_site(tmp_path, clock) as site:
        view = await site.master(A, B, C, epoch=1)
        await site.renew(1, view.holder, releases=True)
    async with reported_site(tmp_path, clock) as site:
        site.groups._elector._since = clock.elapsed_ns()
        view = await site.master(A, B, C, epoch=2, last_epoch=1)
        await site.renew(2, view.holder, releases=True)  # it knows them all: the rest is not awaited again
        others = [store_id for store_id in (A, B, C) if store_id != view.holder]
        assert (await site.master(*others, epoch=3, last_epoch=2)).holder in others


@on_loop
async def test_a_new_group_waits_for_an_operator_if_the_store_may_have_known_it(tmp_path: Path) -> None:
    (tmp_path / "groups.db").write_bytes(b"damaged")
    async with reported_site(tmp_path) as site:
        for store_id in (A, B, C):
            await site.report(store_id)
        group = site.groups._groups["orders"]
        await eventually(lambda: "litemq cluster recover orders" in group.obstacle)
        assert (await site.report(A)).facts_lost
        site.clock.advance(7)
        for store_id in (A, B, C):
            await site.report(store_id)
        assert len((await site.recover(applies=True)).members) == 3


@on_loop
async def test_an_election_takes_the_setting_of_the_live_replicas(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        await site.lose_lease(A, last_epoch=1, min_in_sync=1)
        view = await site.master(A, epoch=2, last_epoch=1, min_in_sync=1)
        assert (view.min_in_sync, list(view.members)) == (1, [A])
        await site.report(B, last_epoch=1, min_in_sync=2)  # a restart of all replicas in turn is not complete
        await site.lose_lease(A, B, last_epoch=1)
        assert (await site.report(A, last_epoch=1, min_in_sync=1)).min_in_sync == 1


@on_loop
async def test_a_group_that_was_stopped_is_no_reason_to_warn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, stopped in enumerate(((A, B, C), (C, A))):  # B of the second group was killed
        caplog.clear()
        (tmp_path / str(number)).mkdir()
        async with reported_site(tmp_path / str(number)) as site:
            view = await site.master(A, B, C, epoch=1)
            assert view.holder == C
            site.clock.advance(2.1)  # B is silent
            for store_id in stopped:
                await site.report(store_id, is_stopping=True)
            await site.renew(1, C, releases=True)
            group = site.groups._groups["orders"]
            await eventually(lambda: "no member of the in-sync set is alive" in group.obstacle)  # noqa: B023
            warnings = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
            warned = [each for each in warnings if "has no master" in each]
            assert len(warned) == number


@on_loop
async def test_a_replica_that_cannot_open_is_not_elected(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        await site.lose_lease(A, cannot_open=True, damaged_stretches=2)
        view = ReplicaGroup()
        while not view.obstacle:
            view = await site.report(A, cannot_open=True, damaged_stretches=2)
            assert not view.is_leased
        assert view.obstacle == "no member of the in-sync set is alive. Start one of its replicas: a, b, c"
        [facts] = [each for each in view.replicas if each.store_id == A]
        assert (facts.alive, facts.damaged_stretches) == (True, 2)
        assert (await site.master(A, epoch=2)).holder == A  # its log is repaired


@on_loop
async def test_a_group_does_not_begin_with_a_log_that_cannot_open(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.report(A)
        await site.report(B)
        await site.report(C, cannot_open=True)
        group = site.groups._groups["orders"]
        await eventually(lambda: "the cluster store does not know this group, but c has records" in group.obstacle)
        await eventually(lambda: not group.is_changing)
        await site.report(B, cannot_open=True)
        await eventually(lambda: "but b, c have records" in group.obstacle)
