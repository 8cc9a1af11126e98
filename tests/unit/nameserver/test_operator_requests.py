"""Requests of operators: recovered facts, and masters that may lack confirmed records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from litemq.errors import (
    ChangeRefusedError,
    InvalidArgumentError,
)
from litemq.nameserver.latest_fact import EPOCH_GAP
from litemq.nameserver.operator_requests import OperatorRequests
from litemq.proto.wire_pb2 import Opcode
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import reported_site
from support.waiting import eventually


@on_loop
async def test_lost_facts_are_recovered_once_the_last_master_cannot_write(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        with pytest.raises(InvalidArgumentError, match="knows no replicated group"):
            await site.recover()
        await site.report(A, last_epoch=3, log_end=100)
        group = site.groups._groups["orders"]
        await eventually(lambda: group.lost_since is not None)  # the store has said so
        site.clock.advance(6.9)  # of its lease, and of the time after which a replica is silent
        with pytest.raises(ChangeRefusedError, match=r"its last master may still write\. Try again in 1 s"):
            await site.recover()
        site.clock.advance(0.1)
        await site.report(A, last_epoch=3, log_end=100)
        await site.report(B, last_epoch=3, log_end=120)
        with pytest.raises(ChangeRefusedError, match="only 2 of 3 replicas report"):
            await site.recover(applies=True)
        await site.report(C, last_epoch=2, log_end=200, flushed=199)
        with pytest.raises(ChangeRefusedError, match="c has not synced the log"):
            await site.recover()
        await site.report(B, last_epoch=3, log_end=120, flushed=119)
        with pytest.raises(ChangeRefusedError, match="b, c have not synced the log"):
            await site.recover()
        await site.report(B, last_epoch=3, log_end=120)
        await site.report(C, last_epoch=2, log_end=200)
        plan = await site.recover()
        assert (list(plan.members), plan.epoch, plan.uncertainty, plan.is_applied) == ([B], 3 + EPOCH_GAP, "", False)
        assert (await site.report(A, last_epoch=3, log_end=100)).revision == 0
        assert (await site.recover(applies=True)).is_applied
        with pytest.raises(ChangeRefusedError, match="its facts are not lost"):
            await site.recover()
        await site.lose_lease(A, B, last_epoch=3)
        view = await site.master(A, B, epoch=4 + EPOCH_GAP, last_epoch=3)
        assert (view.holder, list(view.members), view.unclean_epoch) == (B, [B], 0)
        assert not view.facts_lost


@on_loop
async def test_outdated_facts_are_replaced_and_a_forced_recovery_is_unclean(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        await site.lose_lease(A, last_epoch=7, log_end=100)
        while not (await site.report(A, last_epoch=7, log_end=100)).facts_lost:
            site.groups.sweep()
            await asyncio.sleep(0)
        site.clock.advance(7)
        await site.report(A, last_epoch=7, log_end=100)
        await site.recover(applies=True, forces=True)
        await site.lose_lease(A, last_epoch=7, log_end=100)
        view = await site.master(A, epoch=8 + EPOCH_GAP, last_epoch=7, log_end=100)
        assert (view.holder, list(view.members), view.unclean_epoch) == (A, [A], 7 + EPOCH_GAP)


@on_loop
async def test_an_operator_may_force_a_master_if_none_can_be_elected(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        view = await site.change(1, C, view.revision, B, C)
        with pytest.raises(ChangeRefusedError, match="may still have a master"):
            await site.elect_unclean("a", view.revision)
        await site.lose_lease(A, last_epoch=1)
        with pytest.raises(ChangeRefusedError, match="has changed: look at it again"):
            await site.elect_unclean("a", view.revision - 1)
        with pytest.raises(ChangeRefusedError, match="'b' does not report"):
            await site.elect_unclean("b", view.revision)
        after = await site.elect_unclean("a", view.revision)
        assert (after.epoch, after.holder, list(after.members), after.unclean_epoch) == (2, A, [A], 2)
        assert await site.renew(2, A) == 5000
        # The mark stays: the master may end before it has begun its epoch.
        await site.renew(2, A, releases=True)
        assert (await site.master(A, epoch=3, last_epoch=1)).unclean_epoch == 2


@on_loop
async def test_facts_of_a_group_with_a_master_are_not_lost(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        await site.master(A, B, C, epoch=1)
        site.groups._groups["orders"].lost_since = 0  # an answer of the store that was overtaken
        with pytest.raises(ChangeRefusedError, match="its facts are not lost"):
            await site.recover()


@on_loop
async def test_no_master_is_forced_before_all_replicas_may_have_been_heard(tmp_path: Path) -> None:
    async with reported_site(tmp_path) as site:
        view = await site.master(A, B, C, epoch=1)
        view = await site.change(1, C, view.revision, B, C)
        await site.lose_lease(A, last_epoch=1)
        operators = cast("OperatorRequests", site.groups._services[Opcode.ELECT_UNCLEAN].__self__)  # type: ignore[attr-defined]
        operators._since = site.clock.elapsed_ns()  # another NameServer, which shares the store
        with pytest.raises(ChangeRefusedError, match="has just started, and may not have heard all replicas"):
            await site.elect_unclean("a", view.revision)
        site.clock.advance(2)
        await site.report(A, last_epoch=1, cannot_open=True)
        with pytest.raises(ChangeRefusedError, match="a cannot open its damaged log"):
            await site.elect_unclean("a", view.revision)
