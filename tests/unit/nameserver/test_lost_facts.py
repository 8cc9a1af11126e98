"""Groups whose facts disappear while NameServers run: no master until ``recover``."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import ChangeRefusedError, MasterLeaseLostError
from litemq.nameserver.cluster_store.etcd_client import EtcdClient, end_of_prefix
from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore
from litemq.nameserver.latest_fact import EPOCH_GAP
from litemq.proto.etcd_pb2 import DeleteRangeRequest, RequestOp, TxnRequest
from litemq.proto.wire_pb2 import ReplicaGroup
from support.etcd import EtcdCluster
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.reported_groups import ReportedSite, reported_site
from support.waiting import eventually

_LEASE_MS = 2_000  # the least that etcd grants


async def _delete(etcd: EtcdCluster, prefix: str) -> None:
    """Delete all keys that begin with ``prefix``."""
    client, key = EtcdClient(etcd.endpoints), prefix.encode()
    delete = DeleteRangeRequest(key=key, range_end=end_of_prefix(key))
    await client.txn(TxnRequest(success=[RequestOp(request_delete_range=delete)]))
    await client.close()


async def _view(site: ReportedSite, **fields: object) -> ReplicaGroup:
    """Let all replicas report; return the last answer."""
    for store_id in (A, B, C):
        view = await site.report(store_id, **fields)
    return view


@on_loop
async def test_vanished_facts_end_the_master_and_are_recovered(tmp_path: Path, etcd: EtcdCluster) -> None:
    prefix, clock = f"/litemq/{secrets.token_hex(8)}", FakeClock()
    one, two = (EtcdGroupStore(etcd.endpoints, prefix) for _ in range(2))
    async with (
        reported_site(tmp_path, clock, _LEASE_MS, one) as site,
        reported_site(tmp_path, clock, _LEASE_MS, two) as other,
    ):
        before = await site.master(A, B, C, epoch=1)
        await other.master(A, B, C, epoch=1)
        waiting = [await each.waiting_report(A, (await each.report(A, last_epoch=1)).version) for each in (site, other)]
        await _delete(etcd, f"{prefix}/groups/")
        for answer in waiting:
            view = ReplicaGroup.FromString(await answer)
            assert (view.epoch, view.is_leased, view.holder, view.facts_lost) == (0, False, b"", True)
            assert "Run `litemq cluster recover orders`" in view.obstacle
        with pytest.raises(MasterLeaseLostError):
            await site.renew(1, before.holder)
        clock.advance(1.5)
        for each in (site, other):
            assert (await _view(each, last_epoch=1, log_end=100)).facts_lost
            with pytest.raises(ChangeRefusedError, match="its last master may still write"):
                await each.recover()
        clock.advance(2.5)
        for each in (site, other):
            await _view(each, last_epoch=1, log_end=100)
            each.groups.sweep()
        assert await site.store.groups() == []  # no election
        assert (await other.recover(applies=True)).is_applied
        for each in (site, other):
            await eventually(lambda each=each: each.groups._groups["orders"].state is not None)  # type: ignore[misc]
        after = await site.master(A, B, C, epoch=2 + EPOCH_GAP, last_epoch=1, log_end=100)
        assert not after.facts_lost
        assert await other.renew(after.epoch, after.holder) == _LEASE_MS


@on_loop
async def test_a_group_whose_replicas_are_gone_is_forgotten_with_its_fact(tmp_path: Path, etcd: EtcdCluster) -> None:
    prefix = f"/litemq/{secrets.token_hex(8)}"
    async with reported_site(tmp_path, None, _LEASE_MS, EtcdGroupStore(etcd.endpoints, prefix)) as site:
        await site.master(A, B, C, epoch=1)
        site.clock.advance(60)
        await _delete(etcd, f"{prefix}/groups/")
        await eventually(lambda: site.groups._groups["orders"].state is None)
        site.groups.sweep()
        assert not site.groups._groups


@on_loop
async def test_a_lost_group_does_not_begin_again_with_empty_logs(tmp_path: Path, etcd: EtcdCluster) -> None:
    prefix = f"/litemq/{secrets.token_hex(8)}"
    async with reported_site(tmp_path, None, _LEASE_MS, EtcdGroupStore(etcd.endpoints, prefix)) as site:
        await site.master(A, B, C, epoch=1)
        await _delete(etcd, f"{prefix}/groups/")
        await eventually(lambda: site.groups._groups["orders"].state is None)
        for _ in range(3):  # as if the master had not written yet
            view = await _view(site)
            await asyncio.gather(*site.groups._tasks)
        assert view.facts_lost
        assert await site.store.groups() == []
