"""What is confirmed is a part of a group's facts: a member that lacks it is not elected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from litemq.clock import FakeClock
from litemq.nameserver.cluster_store.groups import NOTHING, Confirmed
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import ReportedSite, reported_site
from support.waiting import eventually


def _begins_change(site: ReportedSite) -> bool:
    site.groups.sweep()
    return site.groups._groups["orders"].is_changing


@on_loop
async def test_it_is_stored_now_and_then(tmp_path: Path) -> None:
    """So a NameServer that was started again knows it, too."""
    clock = FakeClock()
    async with reported_site(tmp_path, clock) as site:
        assert (await site.master(A, B, C, epoch=1)).holder == C
        await site.report(B, last_epoch=1, log_end=500, confirm=450, confirm_epoch=1)  # it is not the master
        group = site.groups._groups["orders"]
        for _ in range(10):
            assert not _begins_change(site)
            clock.advance(1)
            await site.renew(1, C)
            await site.report(C, last_epoch=1, log_end=500, confirm=400, confirm_epoch=1)
        assert _begins_change(site)
        await eventually(lambda: not group.is_changing)
        view = await site.report(C, last_epoch=1, log_end=500, confirm=401, confirm_epoch=1)
        assert (view.confirmed, view.confirmed_epoch, view.is_leased) == (400, 1, True)
        assert not _begins_change(site)  # 401 can wait
    async with reported_site(tmp_path, clock) as site:
        await site.lose_lease(B, last_epoch=1, log_end=399)
        group = site.groups._groups["orders"]
        await eventually(lambda: group.obstacle.startswith("the data directory of b is older than the replica"))
        view = await site.master(B, C, epoch=2, last_epoch=1, log_end=400)
        assert view.confirmed == 400


@on_loop
async def test_each_change_of_the_set_and_each_election_stores_it(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        await site.report(C, last_epoch=1, log_end=500, confirm=100, confirm_epoch=1)
        view = await site.change(1, C, view.revision, B, C)
        assert (view.confirmed, view.confirmed_epoch) == (100, 1)
        await site.report(C, last_epoch=1, log_end=500, confirm=200, confirm_epoch=1)
        await site.report(B, last_epoch=1, log_end=500)
        view = await site.hand_over(1, C, view.revision, B)
        assert (view.holder, view.confirmed, view.confirmed_epoch) == (B, 200, 1)
        await site.report(C, last_epoch=2, log_end=600, confirm=300, confirm_epoch=1)  # it is replaced
        await site.report(B, last_epoch=2, log_end=700, confirm=600, confirm_epoch=2)
        await site.renew(2, B, releases=True)
        view = await site.master(C, epoch=3, last_epoch=2, log_end=600)
        assert (view.holder, view.confirmed, view.confirmed_epoch) == (C, 600, 2)


@on_loop
async def test_a_set_that_has_changed_meanwhile_is_not_said_to_have_it(tmp_path: Path) -> None:
    """A new member may lack what the earlier set has confirmed."""
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        group = site.groups._groups["orders"]
        assert group.state is not None
        before = group.state.fact
        await site.change(1, C, view.revision, B, C)
        await site.groups._elector._record(group, before, replace(before, confirmed=Confirmed(500, 1)))
        state = await site.store.read("orders")
        assert state is not None
        assert (state.fact.members, state.fact.confirmed) == (frozenset({B, C}), NOTHING)


@on_loop
async def test_an_unclean_election_forgets_it(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        await site.report(C, last_epoch=1, log_end=500, confirm=100, confirm_epoch=1)
        await site.lose_lease(B, last_epoch=1, log_end=500)
        assert (await site.master(B, epoch=2, last_epoch=1, log_end=500)).confirmed == 100
        await site.lose_lease(B, last_epoch=1, log_end=50)  # an old directory
        view = await site.report(B, last_epoch=1, log_end=50)
        view = await site.elect_unclean("b", view.revision)
        assert (view.epoch, view.unclean_epoch, list(view.members), view.confirmed) == (3, 3, [B], 0)
