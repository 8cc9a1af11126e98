"""Group facts in etcd: lost answers, foreign data, members that die."""

import asyncio
import logging
import signal
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from litemq.errors import (
    ChangeOutcomeUnknownError,
    ChangeRefusedError,
    ClusterStoreError,
    ClusterStoreUnavailableError,
    InvalidArgumentError,
    MasterLeasedError,
    MasterLeaseLostError,
)
from litemq.nameserver.cluster_store.etcd_client import EtcdClient
from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore
from litemq.nameserver.cluster_store.groups import GroupFact, GroupState, encode_fact
from support.cut_proxy import CutProxy
from support.etcd import EtcdCluster
from support.etcd_keys import leased_group, put_key
from support.group_stores import LEASE_MS, A, B, elected, new_fact, states_of
from support.on_loop import on_loop
from support.processes import free_port
from support.waiting import eventually


@on_loop
async def test_requests_go_to_the_next_endpoint_if_one_is_down(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore([f"127.0.0.1:{free_port()}", *etcd.endpoints], prefix)
    fact = await leased_group(store)
    assert await store.renew("orders", 1, A) == 600_000
    assert await store.groups() == [GroupState(fact, is_leased=True)]
    await store.close()


@on_loop
async def test_without_etcd_a_read_fails_and_a_change_has_an_unknown_outcome(prefix: str) -> None:
    store = EtcdGroupStore([f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"], prefix, timeout_s=0.3)
    fact = replace(new_fact(), revision=1)
    for request in (
        store.groups(),
        store.read("orders"),
        store.renew("orders", 1, A),
        store.elect(fact, elected(fact, A), LEASE_MS),  # it has no lease to grant
    ):
        with pytest.raises(ClusterStoreUnavailableError, match=r"no answer from etcd within 0\.3 s .*127\.0\.0\.1:"):
            await request
    for change in (store.create(new_fact()), store.change(fact, fact), store.release("orders", 1, A)):
        with pytest.raises(ChangeOutcomeUnknownError):
            await change
    await store.close()


@on_loop
async def test_a_change_whose_answer_is_lost_is_repeated_at_the_next_endpoint(etcd: EtcdCluster, prefix: str) -> None:
    direct = EtcdGroupStore(etcd.endpoints, prefix)
    fact = await leased_group(direct)
    async with CutProxy(int(etcd.endpoints[0].split(":")[1])) as proxy:
        store = EtcdGroupStore([f"127.0.0.1:{proxy.port}", *etcd.endpoints], prefix, timeout_s=60)
        assert await store.read("orders") == GroupState(fact, is_leased=True)
        async with aclosing(states_of(direct)) as states:
            assert (await anext(states)).fact == fact
            proxy.withholds_answers = True
            change = asyncio.create_task(store.change(fact, replace(fact, members=frozenset({A, B}))))
            made = (await anext(states)).fact
        await proxy.cut()
        assert await change == made
        with pytest.raises(ChangeRefusedError):  # a change of another caller is not taken for its own
            await store.change(fact, replace(fact, members=frozenset({A, B})))
        await store.close()
    await direct.close()


@on_loop
async def test_an_election_whose_answer_is_lost_keeps_its_lease(etcd: EtcdCluster, prefix: str) -> None:
    direct = EtcdGroupStore(etcd.endpoints, prefix)
    created = await direct.create(new_fact())
    async with CutProxy(int(etcd.endpoints[0].split(":")[1])) as proxy:
        store = EtcdGroupStore([f"127.0.0.1:{proxy.port}", *etcd.endpoints], prefix, timeout_s=60)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        grant = store._client.grant

        async def grant_then_withhold(ttl_s: int) -> int:
            lease = await grant(ttl_s)
            proxy.withholds_answers = True
            granted.set_result(None)
            return lease

        store._client.grant = grant_then_withhold  # type: ignore[method-assign]
        async with aclosing(states_of(direct)) as states:
            assert (await anext(states)).fact == created
            election = asyncio.create_task(store.elect(created, elected(created, A), 600_000))
            await granted
            made = await anext(states)
        await proxy.cut()
        assert GroupState(await election, is_leased=True) == made
        assert await store.renew("orders", 1, A) == 600_000
        with pytest.raises(MasterLeasedError):
            await direct.elect(made.fact, elected(made.fact, B), LEASE_MS)
        await store.close()
    await direct.close()


@on_loop
async def test_the_end_of_the_former_lease_does_not_end_the_new_one(etcd: EtcdCluster, prefix: str) -> None:
    store, client = EtcdGroupStore(etcd.endpoints, prefix), EtcdClient(etcd.endpoints)
    fact = await leased_group(store)
    (former,) = (await client.range(f"{prefix}/groups/orders/lease".encode())).kvs
    after = await store.hand_over(fact, elected(fact, B), 600_000)
    await client.revoke(former.lease)
    assert await store.read("orders") == GroupState(after, is_leased=True)
    assert await store.renew("orders", 2, B) == 600_000
    await client.close()
    await store.close()


@on_loop
async def test_a_switch_during_a_renewal_is_noticed(etcd: EtcdCluster, prefix: str) -> None:
    store, other = EtcdGroupStore(etcd.endpoints, prefix), EtcdGroupStore(etcd.endpoints, prefix)
    fact = await leased_group(store)
    assert await store.renew("orders", 1, A) == 600_000
    keep_alive = store._client.keep_alive

    async def switch_then_keep_alive(lease: int) -> int:
        await other.hand_over(fact, elected(fact, B), 600_000)
        return await keep_alive(lease)

    store._client.keep_alive = switch_then_keep_alive  # type: ignore[method-assign]
    with pytest.raises(MasterLeaseLostError):
        await store.renew("orders", 1, A)
    await other.close()
    await store.close()


@on_loop
async def test_etcd_grants_whole_seconds_and_at_least_its_minimum(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore(etcd.endpoints, prefix)
    for name, lease_ms, granted_ms in (("a", 1, 2_000), ("b", 2_001, 3_000)):
        created = await store.create(new_fact(name))
        await store.elect(created, elected(created, A), lease_ms)
        assert await store.renew(name, 1, A) == granted_ms
    await store.close()


@on_loop
async def test_a_refused_election_leaves_no_lease_behind(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore(etcd.endpoints, prefix)
    fact = await leased_group(store)
    granted: list[int] = []
    grant = store._client.grant

    async def recorded(ttl_s: int) -> int:
        granted.append(await grant(ttl_s))
        return granted[-1]

    store._client.grant = recorded  # type: ignore[method-assign]
    with pytest.raises(MasterLeasedError):
        await store.elect(fact, elected(fact, B), 600_000)
    assert len(granted) == 1
    assert await store._client.keep_alive(granted[0]) == 0
    await store.close()


@on_loop
async def test_foreign_and_invalid_values_do_not_hide_other_groups(
    etcd: EtcdCluster, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = EtcdGroupStore(etcd.endpoints, prefix)
    good = await store.create(new_fact("good"))
    async with aclosing(states_of(store)) as states:
        assert (await anext(states)).fact == good
        await put_key(etcd, f"{prefix}/groups/bad/fact", b"\xff")
        await put_key(etcd, f"{prefix}/groups/other-name/fact", encode_fact(new_fact("name")))
        for key in ("good/unknown", "no-kind", "a b/fact", "only-lease/lease", "/fact"):
            await put_key(etcd, f"{prefix}/groups/{key}", b"x")
        changed = await store.change(good, good)
        assert await anext(states) == GroupState(changed, is_leased=False)
    assert await store.groups() == [GroupState(changed, is_leased=False)]
    assert await store.read("only-lease") is None
    with pytest.raises(ClusterStoreError, match="no valid fact: group bad"):
        await store.read("bad")
    with pytest.raises(ClusterStoreError, match="is that of 'name'"):
        await store.create(new_fact("other-name"))
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    await store.close()


@on_loop
async def test_closing_ends_watches_and_requests(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore(etcd.endpoints, prefix)
    created = await store.create(new_fact())
    first: asyncio.Future[GroupState] = asyncio.get_running_loop().create_future()

    async def watched() -> int:
        count = 0
        async for state in states_of(store):
            count += 1
            first.set_result(state)
        return count

    watching = asyncio.create_task(watched())
    assert (await first).fact == created
    reading = asyncio.create_task(store.groups())
    await asyncio.sleep(0)
    await store.close()
    assert await watching == 1
    outcome = (await asyncio.gather(reading, return_exceptions=True))[0]
    assert isinstance(outcome, list | ClusterStoreUnavailableError)
    with pytest.raises(ClusterStoreUnavailableError, match="closed"):
        await store.groups()


@on_loop
async def test_a_cancelled_caller_stays_cancelled(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore(etcd.endpoints, prefix)

    async def watched() -> None:
        async for _ in store.watch():
            pass

    watching = asyncio.create_task(watched())
    await store.groups()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    await store.close()


@pytest.mark.parametrize("endpoint", ["", "localhost", "http://localhost:2379", "a b:1", "host:123456"])
def test_endpoints_are_checked(endpoint: str) -> None:
    with pytest.raises(InvalidArgumentError, match="use HOST:PORT"):
        EtcdGroupStore([endpoint])


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one endpoint"):
        EtcdGroupStore([])
    assert EtcdGroupStore(["127.0.0.1:2379", "[::1]:2379"]).place == "etcd at 127.0.0.1:2379, [::1]:2379"


def _run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_the_nameserver_does_not_import_grpc() -> None:
    program = "import sys, litemq.server.nameserver, litemq.nameserver.cluster_store.embedded_groups"
    assert _run(f"{program}; print('grpc' in sys.modules)") == "False\n"


def test_without_grpc_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['grpc'] = None\n"
        "from litemq.errors import MissingExtraError\n"
        "try:\n    import litemq.nameserver.cluster_store.etcd_groups\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    assert _run(program) == "the cluster store etcd needs an optional library: pip install 'litemq[etcd]'\n"


@on_loop
async def test_a_frozen_etcd_leaves_the_outcome_unknown_until_the_change_is_repeated(prefix: str) -> None:
    with EtcdCluster(1) as etcd:
        store = EtcdGroupStore(etcd.endpoints, prefix)
        fact = await leased_group(store)
        hasty = EtcdGroupStore(etcd.endpoints, prefix, timeout_s=0.3)
        assert (await hasty.groups())[0].fact == fact
        etcd.stop(0, signal.SIGSTOP)
        after = replace(fact, members=frozenset({A, B}))
        with pytest.raises(ChangeOutcomeUnknownError):
            await hasty.change(fact, after)
        etcd.resume(0)
        try:
            made: Any = await store.change(fact, after)
        except ChangeRefusedError as refused:
            made = refused.current.fact
        assert made == replace(after, revision=made.revision)
        assert made.revision > fact.revision
        await hasty.close()
        await store.close()


@on_loop
async def test_a_killed_leader_loses_no_change_and_watches_continue(prefix: str) -> None:
    with EtcdCluster(3) as etcd:
        endpoints = etcd.endpoints
        leader = etcd.leader()
        endpoints.insert(0, endpoints.pop(leader))  # the store begins with the leader
        store, other = EtcdGroupStore(endpoints, prefix, timeout_s=60), EtcdGroupStore(endpoints, prefix, timeout_s=60)
        fact = await leased_group(store)
        async with aclosing(states_of(other)) as states:
            assert (await anext(states)).fact == fact
            made = [await store.change(fact, fact)]
            assert (await anext(states)).fact == made[0]
            changing = asyncio.create_task(_change_until(store, made, 40))
            await eventually(lambda: len(made) >= 10)
            etcd.stop(leader)
            await changing
            seen = [await anext(states)]
            while seen[-1].fact != made[-1]:
                seen.append(await anext(states))
            assert [each for each in made if each in {state.fact for state in seen}] == [state.fact for state in seen]
            assert await store.renew("orders", 1, A) == 600_000  # the lease has survived
            etcd.start(leader)
            etcd.wait_healthy()
            assert (await other.groups())[0] == GroupState(made[-1], is_leased=True)
        await other.close()
        await store.close()


async def _change_until(store: EtcdGroupStore, made: list[GroupFact], count: int) -> None:
    """Change a group ``count`` times, to a different set each time."""
    while len(made) < count:
        members = made[-1].members ^ {B} if len(made[-1].members) != 2 else frozenset(new_fact().members)
        made.append(await store.change(made[-1], replace(made[-1], members=members)))
