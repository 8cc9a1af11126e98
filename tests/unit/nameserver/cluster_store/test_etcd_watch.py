"""Watches of group facts in etcd: they break, changes are compacted, and facts disappear."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import pytest

from litemq.errors import (
    ClusterStoreUnavailableError,
    MasterLeaseLostError,
)
from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore
from litemq.nameserver.cluster_store.groups import GroupFact, GroupGone, GroupState
from litemq.proto.etcd_pb2 import (
    RangeResponse,
)
from support.cut_proxy import CutProxy
from support.etcd import EtcdCluster
from support.etcd_keys import compact, delete_key, leased_group, put_key
from support.group_stores import LEASE_MS, A, new_fact, states_of
from support.on_loop import on_loop
from support.waiting import eventually


@on_loop
async def test_a_broken_watch_continues_with_the_last_state(etcd: EtcdCluster, prefix: str) -> None:
    direct = EtcdGroupStore(etcd.endpoints, prefix)
    fact = await leased_group(direct)
    async with CutProxy(int(etcd.endpoints[0].split(":")[1])) as proxy:
        store = EtcdGroupStore([f"127.0.0.1:{proxy.port}"], prefix)
        async with aclosing(states_of(store)) as states:
            assert await anext(states) == GroupState(fact, is_leased=True)
            fact = await direct.change(fact, fact)
            assert (await anext(states)).fact == fact  # the stream is open
            for _ in range(3):
                await proxy.cut()
                for _ in range(3):
                    fact = await direct.change(fact, fact)
                await proxy.open()
                assert (await anext(states)).fact == fact
                fact = await direct.change(fact, fact)
                assert (await anext(states)).fact == fact
        await store.close()
    await direct.close()


def _after_the_first_read(store: EtcdGroupStore, work: Callable[[], Awaitable[None]]) -> None:
    """Let ``work`` happen between the first read of ``store`` and the watch that follows it."""
    read, reads = store._client.range, itertools.count()

    async def read_then_work(key: bytes, range_end: bytes = b"") -> RangeResponse:
        response = await read(key, range_end)
        if next(reads) == 0:
            await work()
        return response

    store._client.range = read_then_work  # type: ignore[method-assign]


@on_loop
async def test_if_changes_are_compacted_the_groups_are_read_again(
    etcd: EtcdCluster, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    direct, store = EtcdGroupStore(etcd.endpoints, prefix), EtcdGroupStore(etcd.endpoints, prefix)
    quiet, fact = await leased_group(direct, "a-quiet-group"), await leased_group(direct)
    new: list[GroupFact] = []

    async def change_and_compact() -> None:
        changed = await direct.change(fact, fact)
        await direct.release("orders", 1, A)
        new.extend([await direct.create(new_fact("new")), await direct.change(changed, changed)])
        await compact(etcd, new[-1].revision)

    _after_the_first_read(store, change_and_compact)
    async with aclosing(states_of(store)) as states:
        assert [(await anext(states)).fact for _ in range(2)] == [quiet, fact]
        assert [await anext(states) for _ in new] == [GroupState(each, is_leased=False) for each in new]
        fact = await direct.change(new[-1], new[-1])
        assert await anext(states) == GroupState(fact, is_leased=False)
    await store.close()
    await direct.close()
    assert "were compacted" in caplog.text


@on_loop
async def test_a_watch_returns_that_a_fact_is_gone(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore(etcd.endpoints, prefix)
    fact = await leased_group(store)
    assert await store.renew("orders", 1, A) == 600_000
    async with aclosing(store.watch()) as changes:
        assert await anext(changes) == GroupState(fact, is_leased=True)
        await put_key(etcd, f"{prefix}/groups/orders/fact", b"\xff")  # one that cannot be read is not gone
        await delete_key(etcd, f"{prefix}/groups/orders/fact")
        assert await anext(changes) == GroupGone("orders")
        with pytest.raises(MasterLeaseLostError):  # its lease is still there
            await store.renew("orders", 1, A)
        recovered = await store.recover(replace(fact, epoch=9, holder=b""), LEASE_MS)
        assert await anext(changes) == GroupState(recovered, is_leased=True)
        await delete_key(etcd, f"{prefix}/groups/orders/lease")
        assert await anext(changes) == GroupState(recovered, is_leased=False)
    await store.close()


@on_loop
async def test_the_facts_of_a_wiped_etcd_are_gone(prefix: str) -> None:
    with EtcdCluster(1) as etcd:
        store, other = EtcdGroupStore(etcd.endpoints, prefix), EtcdGroupStore(etcd.endpoints, prefix)
        fact, payments = await leased_group(store), await leased_group(store, "payments")
        assert await store.renew("orders", 1, A) == 600_000
        identity = store.identity

        async def wipe() -> None:
            etcd.wipe()

        _after_the_first_read(other, wipe)
        async with aclosing(store.watch()) as changes, aclosing(other.watch()) as others:
            for each in (changes, others):
                assert [await anext(each), await anext(each)] == [GroupState(fact, True), GroupState(payments, True)]
            for each in (changes, others):
                assert [await anext(each), await anext(each)] == [GroupGone("orders"), GroupGone("payments")]
            assert await store.read("orders") is None
            assert store.identity == identity
            with pytest.raises(MasterLeaseLostError):
                await store.renew("orders", 1, A)
            recovered = await store.recover(replace(fact, epoch=9, holder=b""), LEASE_MS)
            for each in (changes, others):
                assert await anext(each) == GroupState(recovered, is_leased=True)
        await other.close()
        await store.close()


@on_loop
async def test_a_watch_at_another_cluster_than_was_read_is_noticed(etcd: EtcdCluster, prefix: str) -> None:
    with EtcdCluster(1) as former:
        direct = EtcdGroupStore(former.endpoints, prefix)
        fact = await leased_group(direct)
        await direct.close()
        for _ in range(fact.revision):  # it has later revisions
            await put_key(etcd, f"{prefix}/other", b"")
        async with CutProxy(int(former.endpoints[0].split(":")[1])) as proxy:
            store = EtcdGroupStore([f"127.0.0.1:{proxy.port}"], prefix)

            async def replace_cluster() -> None:
                await proxy.cut()
                proxy.target = int(etcd.endpoints[0].split(":")[1])
                await proxy.open()

            _after_the_first_read(store, replace_cluster)
            async with aclosing(store.watch()) as changes:
                assert [await anext(changes), await anext(changes)] == [GroupState(fact, True), GroupGone("orders")]
            await store.close()


@on_loop
async def test_a_watch_that_stays_broken_is_logged_once_and_retried_with_longer_pauses(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with EtcdCluster(1) as etcd:
        store, direct = EtcdGroupStore(etcd.endpoints, prefix, timeout_s=0.1), EtcdGroupStore(etcd.endpoints, prefix)
        fact = await leased_group(direct)
        pauses: list[float] = []
        pause = store._pause

        async def recorded(pause_s: float) -> None:
            pauses.append(pause_s)
            await pause(0.001)

        store._pause = recorded  # type: ignore[method-assign]
        async with aclosing(states_of(store)) as states:
            assert (await anext(states)).fact == fact
            for outage in range(1, 3):
                pauses.clear()
                change = asyncio.create_task(anext(states))
                etcd.stop(0)
                await eventually(lambda: len(pauses) > 6)
                etcd.start(0)
                etcd.wait_healthy()
                fact = await direct.change(fact, fact)
                assert (await change).fact == fact
                fact = await direct.change(fact, fact)
                assert (await anext(states)).fact == fact
                assert pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
                for text in ("cannot watch the groups, will retry", "watching the groups again"):
                    assert caplog.text.count(text) == outage
        await direct.close()
        await store.close()


@on_loop
async def test_broken_streams_leave_no_task_behind(prefix: str) -> None:
    before = asyncio.all_tasks()
    with EtcdCluster(3) as etcd:
        store = EtcdGroupStore(etcd.endpoints, prefix, timeout_s=0.3)
        fact = await leased_group(store)
        assert await store.renew("orders", 1, A) == 600_000
        async with aclosing(states_of(store)) as states:
            assert (await anext(states)).fact == fact
            change = asyncio.create_task(anext(states))
            for number in range(2):
                etcd.stop(number)
            for _ in range(3):  # the member that is left refuses
                with pytest.raises(ClusterStoreUnavailableError):
                    await store.renew("orders", 1, A)
            change.cancel()
            await asyncio.gather(change, return_exceptions=True)
        await eventually(lambda: asyncio.all_tasks() == before)
        await store.close()
