"""Group facts in etcd: lost answers, broken watches, compaction, foreign data, members that die."""

import asyncio
import itertools
import logging
import secrets
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
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
from litemq.nameserver.cluster_store.groups import GroupFact, GroupGone, GroupState, encode_fact
from litemq.proto.etcd_pb2 import (
    DeleteRangeRequest,
    LeaseKeepAliveRequest,
    PutRequest,
    RangeResponse,
    RequestOp,
    TxnRequest,
)
from support.cut_proxy import CutProxy
from support.etcd import EtcdCluster
from support.group_stores import LEASE_MS, A, B, elected, new_fact, states_of
from support.on_loop import on_loop
from support.processes import free_port
from support.waiting import eventually


@pytest.fixture
def prefix() -> str:
    return f"/litemq/{secrets.token_hex(8)}"


async def _put(etcd: EtcdCluster, key: str, value: bytes) -> None:
    client = EtcdClient(etcd.endpoints)
    await client.txn(TxnRequest(success=[RequestOp(request_put=PutRequest(key=key.encode(), value=value))]))
    await client.close()


async def _delete(etcd: EtcdCluster, key: str) -> None:
    client = EtcdClient(etcd.endpoints)
    delete = DeleteRangeRequest(key=key.encode())
    await client.txn(TxnRequest(success=[RequestOp(request_delete_range=delete)]))
    await client.close()


async def _compact(etcd: EtcdCluster, revision: int) -> None:
    """Let etcd forget all revisions before ``revision``."""
    async with grpc.aio.insecure_channel(etcd.endpoints[0]) as channel:
        compact = channel.unary_unary("/etcdserverpb.KV/Compact", request_serializer=lambda each: each)
        # A CompactionRequest is encoded in the same way: an integer as its first field.
        await compact(LeaseKeepAliveRequest(ID=revision).SerializeToString())


async def _leased(store: EtcdGroupStore, name: str = "orders") -> GroupFact:
    """Return the fact of a new group with the master A, whose lease does not end during a test."""
    created = await store.create(new_fact(name))
    return await store.elect(created, elected(created, A), 600_000)


@on_loop
async def test_requests_go_to_the_next_endpoint_if_one_is_down(etcd: EtcdCluster, prefix: str) -> None:
    store = EtcdGroupStore([f"127.0.0.1:{free_port()}", *etcd.endpoints], prefix)
    fact = await _leased(store)
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
    fact = await _leased(direct)
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
async def test_a_broken_watch_continues_with_the_last_state(etcd: EtcdCluster, prefix: str) -> None:
    direct = EtcdGroupStore(etcd.endpoints, prefix)
    fact = await _leased(direct)
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
    quiet, fact = await _leased(direct, "a-quiet-group"), await _leased(direct)
    new: list[GroupFact] = []

    async def change_and_compact() -> None:
        changed = await direct.change(fact, fact)
        await direct.release("orders", 1, A)
        new.extend([await direct.create(new_fact("new")), await direct.change(changed, changed)])
        await _compact(etcd, new[-1].revision)

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
    fact = await _leased(store)
    assert await store.renew("orders", 1, A) == 600_000
    async with aclosing(store.watch()) as changes:
        assert await anext(changes) == GroupState(fact, is_leased=True)
        await _put(etcd, f"{prefix}/groups/orders/fact", b"\xff")  # one that cannot be read is not gone
        await _delete(etcd, f"{prefix}/groups/orders/fact")
        assert await anext(changes) == GroupGone("orders")
        with pytest.raises(MasterLeaseLostError):  # its lease is still there
            await store.renew("orders", 1, A)
        recovered = await store.recover(replace(fact, epoch=9, holder=b""), LEASE_MS)
        assert await anext(changes) == GroupState(recovered, is_leased=True)
        await _delete(etcd, f"{prefix}/groups/orders/lease")
        assert await anext(changes) == GroupState(recovered, is_leased=False)
    await store.close()


@on_loop
async def test_the_facts_of_a_wiped_etcd_are_gone(prefix: str) -> None:
    with EtcdCluster(1) as etcd:
        store, other = EtcdGroupStore(etcd.endpoints, prefix), EtcdGroupStore(etcd.endpoints, prefix)
        fact, payments = await _leased(store), await _leased(store, "payments")
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
async def test_a_watch_that_stays_broken_is_logged_once_and_retried_with_longer_pauses(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with EtcdCluster(1) as etcd:
        store, direct = EtcdGroupStore(etcd.endpoints, prefix, timeout_s=0.1), EtcdGroupStore(etcd.endpoints, prefix)
        fact = await _leased(direct)
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
        fact = await _leased(store)
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


@on_loop
async def test_the_end_of_the_former_lease_does_not_end_the_new_one(etcd: EtcdCluster, prefix: str) -> None:
    store, client = EtcdGroupStore(etcd.endpoints, prefix), EtcdClient(etcd.endpoints)
    fact = await _leased(store)
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
    fact = await _leased(store)
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
    fact = await _leased(store)
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
        await _put(etcd, f"{prefix}/groups/bad/fact", b"\xff")
        await _put(etcd, f"{prefix}/groups/other-name/fact", encode_fact(new_fact("name")))
        for key in ("good/unknown", "no-kind", "a b/fact", "only-lease/lease", "/fact"):
            await _put(etcd, f"{prefix}/groups/{key}", b"x")
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
    for prefix in ("", "litemq", "/litemq/", "/a b", "/" + "x" * 200):
        with pytest.raises(InvalidArgumentError, match="prefix"):
            EtcdGroupStore(["127.0.0.1:2379"], prefix)


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
        fact = await _leased(store)
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
        fact = await _leased(store)
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
