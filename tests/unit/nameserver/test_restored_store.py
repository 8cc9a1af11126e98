"""A cluster store that was restored from an old copy: its facts are lost, and nobody is elected."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import ChangeRefusedError, GroupFactsLostError, MasterLeaseLostError
from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore
from litemq.nameserver.latest_fact import EPOCH_GAP
from litemq.proto.wire_pb2 import ReplicaGroup
from support.etcd import EtcdCluster
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import ReportedSite, reported_site
from support.waiting import eventually

_LEASE_MS = 2_000  # the least that etcd grants


async def _later_fact(site: ReportedSite, view: ReplicaGroup, *, is_same_epoch: bool) -> ReplicaGroup:
    """Let the group go on without A, in the epoch of ``view`` or in the next one."""
    if is_same_epoch:
        return await site.change(1, C, view.revision, B, C)
    return await site.hand_over(1, C, view.revision, B)


@pytest.mark.parametrize("is_same_epoch", [True, False])
@on_loop
async def test_an_old_copy_of_etcd_elects_no_master(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_same_epoch: bool
) -> None:
    clock = FakeClock()
    with EtcdCluster(1) as etcd:
        one, two = EtcdGroupStore(etcd.endpoints), EtcdGroupStore(etcd.endpoints)
        async with (
            reported_site(tmp_path, clock, _LEASE_MS, one) as site,
            reported_site(tmp_path, clock, _LEASE_MS, two) as other,
        ):
            view = await site.master(A, B, C, epoch=1)
            await other.master(A, B, C, epoch=1)
            etcd.save(tmp_path / "copy")
            later = await _later_fact(site, view, is_same_epoch=is_same_epoch)
            sites = {site: site.groups._groups["orders"], other: other.groups._groups["orders"]}
            await eventually(lambda: all(each.latest == (later.epoch, later.revision) for each in sites.values()))
            caplog.clear()
            etcd.restore(tmp_path / "copy")
            for each, group in sites.items():
                await eventually(lambda group=group: group.lost_since is not None)  # type: ignore[misc]
                view = await each.report(A, last_epoch=1, log_end=100)
                assert view.facts_lost
                assert not view.is_leased
                assert "restored from an old copy" in view.obstacle
                assert "Run `litemq cluster recover orders`" in view.obstacle
                with pytest.raises(MasterLeaseLostError, match="restored from an old copy"):
                    await each.renew(view.epoch, view.holder)
                with pytest.raises(GroupFactsLostError):
                    await each.change(view.epoch, view.holder, view.revision, A, B)
            for group in sites.values():  # the old lease ends
                await eventually(lambda group=group: not group.state.is_leased)  # type: ignore[misc]
            for each in sites:
                for _ in range(3):  # no election
                    clock.advance(2)
                    for store_id in (A, B, C):
                        await each.report(store_id, last_epoch=1, log_end=100)
                    each.groups.sweep()
                    await eventually(lambda group=sites[each]: not group.is_changing)  # type: ignore[misc]
                state = await each.store.read("orders")
                assert state is not None
                assert (state.fact.epoch, state.is_leased) == (1, False)
                with pytest.raises(ChangeRefusedError, match="its facts are lost"):
                    await each.elect_unclean("a", state.fact.revision)
            assert caplog.text.count("group orders has no master") == len(sites)  # once at each of them
            assert (await other.recover(applies=True)).is_applied
            for each, group in sites.items():
                await eventually(lambda group=group: group.lost_since is None)  # type: ignore[misc]
                assert (await each.report(A, last_epoch=1)).epoch == later.epoch + EPOCH_GAP
            after = await site.master(A, B, C, epoch=later.epoch + 1 + EPOCH_GAP, last_epoch=1, log_end=100)
            assert await other.renew(after.epoch, after.holder) == _LEASE_MS


@pytest.mark.parametrize("is_same_epoch", [True, False])
@on_loop
async def test_the_replicas_prove_it_to_a_nameserver_whose_directory_was_restored(
    tmp_path: Path, is_same_epoch: bool
) -> None:
    clock = FakeClock()
    async with reported_site(tmp_path, clock) as site:
        view = await site.master(A, B, C, epoch=1)
        shutil.copytree(tmp_path, tmp_path / "copy")
        later = await _later_fact(site, view, is_same_epoch=is_same_epoch)
    async with reported_site(tmp_path / "copy", clock) as site:
        assert (await site.report(A, last_epoch=1)).is_leased  # its NameServer was not reachable
        known = {"last_epoch": 1, "known_epoch": later.epoch, "known_revision": later.revision}
        await site.report(B, **known)
        group = site.groups._groups["orders"]
        await eventually(lambda: group.lost_since is not None)
        with pytest.raises(MasterLeaseLostError, match="restored from an old copy"):
            await site.renew(1, C)
        await site.lose_lease(A, B, C, last_epoch=1)
        site.clock.advance(2)
        await site.report(A, last_epoch=1)
        site.groups.sweep()
        await eventually(lambda: not group.is_changing)
        assert (await site.report(A, last_epoch=1)).facts_lost
        plan = await site.recover(applies=True, forces=True)
        assert plan.epoch == later.epoch + EPOCH_GAP


@on_loop
async def test_a_nameserver_that_hears_of_a_fact_late_has_not_lost_it(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        group = site.groups._groups["orders"]
        before = group.state
        later = await site.change(1, C, view.revision, B, C)
        group.state = before  # as if the watch were late
        await site.report(A, last_epoch=1, known_epoch=1, known_revision=later.revision)
        await eventually(lambda: not group.is_changing)
        assert not (await site.report(A, last_epoch=1)).facts_lost
        assert await site.renew(1, C) == 5_000


@on_loop
async def test_a_group_that_its_replicas_know_does_not_begin_again(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        for store_id in (A, B, C):  # their master has not begun to write
            await site.report(store_id, known_epoch=1, known_revision=4)
        await eventually(lambda: site.groups._groups["orders"].lost_since is not None)
        assert await site.store.groups() == []


@on_loop
async def test_a_recovery_is_above_epochs_without_records(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        for store_id in (A, B, C):
            await site.report(store_id, last_epoch=3, log_end=100, known_epoch=4 + EPOCH_GAP, known_revision=9)
        await eventually(lambda: site.groups._groups["orders"].lost_since is not None)
        site.clock.advance(7)
        for store_id in (A, B, C):
            await site.report(store_id, last_epoch=3, log_end=100)
        assert (await site.recover()).epoch == 4 + 2 * EPOCH_GAP
