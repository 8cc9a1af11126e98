"""Every store of group facts: compare-and-set, one lease per group, and no missed change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from litemq.errors import (
    ChangeRefusedError,
    InvalidArgumentError,
    MasterLeasedError,
    MasterLeaseLostError,
)
from litemq.nameserver.cluster_store.groups import GroupFact, GroupState, GroupStore
from support.group_stores import (
    LEASE_MS,
    A,
    B,
    C,
    OpenedStores,
    elected,
    embedded_stores,
    etcd_stores,
    new_fact,
    states_of,
)
from support.on_loop import on_loop

Opening = Callable[[], AbstractAsyncContextManager[OpenedStores]]


@pytest.fixture(params=["embedded", "etcd"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    if request.param == "embedded":
        return lambda: embedded_stores(tmp_path)
    endpoints = request.getfixturevalue("etcd").endpoints
    return lambda: etcd_stores(endpoints)


def _watch(store: GroupStore) -> AbstractAsyncContextManager[AsyncIterator[GroupState]]:
    return aclosing(states_of(store))


@on_loop
async def test_a_new_group_can_be_read(opening: Opening) -> None:
    async with opening() as stores:
        assert await stores.store.groups() == []
        assert await stores.store.read("orders") is None
        created = await stores.store.create(new_fact())
        assert created == replace(new_fact(), revision=created.revision)
        assert created.revision > 0
        payments = await stores.store.create(new_fact("a-payments"))
        assert await stores.other.read("orders") == GroupState(created, is_leased=False)
        assert await stores.other.groups() == [GroupState(payments, is_leased=False), GroupState(created, False)]


@on_loop
async def test_the_identity_of_a_store_is_that_of_its_facts(opening: Opening) -> None:
    identities = []
    for _ in range(2):  # etcd: with another prefix; embedded: another process
        async with opening() as stores:
            await stores.store.groups()
            await stores.other.groups()
            assert stores.store.identity == stores.other.identity
            identities.append(stores.store.identity)
    assert b"" not in identities
    assert identities[0] != identities[1]


@on_loop
async def test_a_group_is_created_once(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        with pytest.raises(ChangeRefusedError, match="exists, at epoch 0") as refused:
            await stores.other.create(new_fact(min_in_sync=1))
        assert refused.value.current == GroupState(created, is_leased=False)
        with pytest.raises(InvalidArgumentError):
            await stores.store.create(elected(new_fact("other"), A))
        assert len(await stores.store.groups()) == 1


@on_loop
async def test_a_change_needs_the_present_revision(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        first = await stores.store.elect(created, elected(created, A), LEASE_MS)
        second = await stores.other.change(first, replace(first, members=frozenset({A, B})))
        assert second == replace(first, members=frozenset({A, B}), revision=second.revision)
        assert second.revision > first.revision
        for stale in (created, first):
            with pytest.raises(ChangeRefusedError, match="read the group again") as refused:
                await stores.store.change(stale, stale)
            assert refused.value.current == GroupState(second, is_leased=True)
        third = await stores.store.change(second, replace(second, min_in_sync=1))
        assert await stores.other.read("orders") == GroupState(third, is_leased=True)
        with pytest.raises(InvalidArgumentError, match="only an election"):
            await stores.store.change(third, elected(third, B))


@on_loop
async def test_a_missing_group_cannot_change(opening: Opening) -> None:
    async with opening() as stores:
        missing = replace(new_fact("missing"), revision=1)
        for change in (
            stores.store.change(missing, missing),
            stores.store.elect(missing, elected(missing, A), LEASE_MS),
            stores.store.hand_over(missing, elected(missing, A), LEASE_MS),
        ):
            with pytest.raises(ChangeRefusedError, match="not in the cluster store") as refused:
                await change
            assert refused.value.current is None
        with pytest.raises(MasterLeaseLostError):
            await stores.store.renew("missing", 1, A)
        await stores.store.release("missing", 1, A)


@on_loop
async def test_a_leased_group_elects_no_other_master(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        first = await stores.store.elect(created, elected(created, A), LEASE_MS)
        with pytest.raises(MasterLeasedError, match="wait until it ends") as refused:
            await stores.other.elect(first, elected(first, B), LEASE_MS)
        assert refused.value.current == GroupState(first, is_leased=True)
        with pytest.raises(ChangeRefusedError, match="read the group again"):
            await stores.other.elect(created, elected(created, B), LEASE_MS)
        lost = await stores.lose_lease("orders")
        assert lost == GroupState(first, is_leased=False)
        with pytest.raises(MasterLeaseLostError, match="must stop as the master"):
            await stores.store.renew("orders", 1, A)
        second = await stores.other.elect(first, elected(first, B, frozenset({A, B})), LEASE_MS)
        assert await stores.store.read("orders") == GroupState(second, is_leased=True)
        assert (second.epoch, second.holder, second.members) == (2, B, frozenset({A, B}))


@on_loop
async def test_a_master_renews_its_own_lease_only(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        for epoch, holder in ((0, b""), (0, A), (1, A)):
            with pytest.raises(MasterLeaseLostError):
                await stores.store.renew("orders", epoch, holder)
        await stores.store.elect(created, elected(created, A), LEASE_MS)
        assert await stores.store.renew("orders", 1, A) == LEASE_MS
        assert await stores.other.renew("orders", 1, A) == LEASE_MS
        for epoch, holder in ((1, B), (2, A), (0, A), (1, b"")):
            with pytest.raises(MasterLeaseLostError):
                await stores.store.renew("orders", epoch, holder)
            await stores.store.release("orders", epoch, holder)
        assert await stores.store.renew("orders", 1, A) == LEASE_MS


@on_loop
async def test_a_released_lease_allows_an_election_at_once(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        first = await stores.store.elect(created, elected(created, A), LEASE_MS)
        await stores.other.release("orders", 1, A)
        assert await stores.store.read("orders") == GroupState(first, is_leased=False)
        with pytest.raises(MasterLeaseLostError):
            await stores.store.renew("orders", 1, A)
        await stores.store.release("orders", 1, A)
        again = await stores.store.elect(first, elected(first, A), LEASE_MS)
        assert (again.epoch, again.holder) == (2, A)
        assert await stores.store.renew("orders", 2, A) == LEASE_MS


@on_loop
async def test_a_planned_switch_replaces_the_lease_in_one_step(opening: Opening) -> None:
    async with opening() as stores, _watch(stores.other) as states:
        created = await stores.store.create(new_fact())
        assert await anext(states) == GroupState(created, is_leased=False)
        first = await stores.store.elect(created, elected(created, A), LEASE_MS)
        await stores.store.renew("orders", 1, A)
        second = await stores.store.hand_over(first, elected(first, B), LEASE_MS)
        with pytest.raises(MasterLeaseLostError):
            await stores.store.renew("orders", 1, A)
        await stores.store.release("orders", 1, A)  # does not end the lease of the new master
        assert await stores.other.renew("orders", 2, B) == LEASE_MS
        with pytest.raises(ChangeRefusedError):
            await stores.store.hand_over(first, elected(first, C), LEASE_MS)
        assert [await anext(states), await anext(states)] == [GroupState(first, True), GroupState(second, True)]
        await stores.lose_lease("orders")
        third = await stores.store.hand_over(second, elected(second, C), LEASE_MS)  # no lease is needed
        assert await stores.store.read("orders") == GroupState(third, is_leased=True)


@on_loop
async def test_a_lost_group_is_recovered_once_and_counts_as_leased(opening: Opening) -> None:
    async with opening() as stores:
        lost = GroupFact("orders", 41, A, frozenset({A, B}), 2, 1 << 20, revision=900)
        recovered = await stores.store.recover(lost, LEASE_MS)
        assert recovered == replace(lost, revision=recovered.revision)
        assert await stores.other.read("orders") == GroupState(recovered, is_leased=True)
        with pytest.raises(ChangeRefusedError, match="exists, at epoch 41"):
            await stores.other.recover(lost, LEASE_MS)
        with pytest.raises(MasterLeasedError):
            await stores.other.elect(recovered, elected(recovered, B), LEASE_MS)
        assert await stores.other.renew("orders", 41, A) == LEASE_MS
        await stores.lose_lease("orders")
        assert (await stores.other.elect(recovered, elected(recovered, B), LEASE_MS)).epoch == 42


@on_loop
async def test_an_outdated_fact_is_replaced_although_it_has_a_lease(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        outdated = await stores.store.elect(created, elected(created, A), LEASE_MS)
        fact = GroupFact("orders", 41, b"", frozenset({B}), 2, 1 << 30)
        with pytest.raises(InvalidArgumentError, match="is not older than 1"):
            await stores.store.recover(replace(fact, epoch=1), LEASE_MS, outdated)
        with pytest.raises(ChangeRefusedError, match="read the group again"):
            await stores.other.recover(fact, LEASE_MS, created)
        recovered = await stores.store.recover(fact, LEASE_MS, outdated)
        assert recovered.revision > outdated.revision
        assert await stores.other.read("orders") == GroupState(recovered, is_leased=True)
        with pytest.raises(MasterLeaseLostError):
            await stores.store.renew("orders", 1, A)
        with pytest.raises(ChangeRefusedError, match="read the group again"):
            await stores.other.recover(fact, LEASE_MS, outdated)


@on_loop
async def test_a_recovered_group_may_have_no_known_master(opening: Opening) -> None:
    async with opening() as stores:
        recovered = await stores.store.recover(GroupFact("orders", 41, b"", frozenset({A, B}), 2, 8), LEASE_MS)
        with pytest.raises(MasterLeasedError):
            await stores.store.elect(recovered, elected(recovered, B), LEASE_MS)
        with pytest.raises(MasterLeaseLostError):
            await stores.store.renew("orders", 41, b"")


@on_loop
async def test_a_watch_returns_all_groups_and_then_every_change_in_order(opening: Opening) -> None:
    async with opening() as stores:
        payments = await stores.store.create(new_fact("payments"))
        created = await stores.store.create(new_fact())
        async with _watch(stores.other) as states:
            assert await anext(states) == GroupState(created, is_leased=False)
            assert await anext(states) == GroupState(payments, is_leased=False)
            expected = []
            first = await stores.store.elect(created, elected(created, A), LEASE_MS)
            expected.append(GroupState(first, is_leased=True))
            second = await stores.store.change(first, replace(first, members=frozenset({A, B})))
            expected.append(GroupState(second, is_leased=True))
            await stores.store.renew("orders", 1, A)  # no change
            await stores.store.release("orders", 1, A)
            expected.append(GroupState(second, is_leased=False))
            third = await stores.store.elect(second, elected(second, B), LEASE_MS)
            expected.append(GroupState(third, is_leased=True))
            assert [await anext(states) for _ in expected] == expected
            await stores.lose_lease("orders")
            assert await anext(states) == GroupState(third, is_leased=False)


@on_loop
async def test_no_change_is_missed_between_a_read_and_a_watch(opening: Opening) -> None:
    async with opening() as stores:
        fact = await stores.store.create(new_fact())
        fact = await stores.store.elect(fact, elected(fact, A), LEASE_MS)
        assert len(await stores.other.groups()) == 1
        async with _watch(stores.other) as states:
            for _ in range(5):
                fact = await stores.store.change(fact, fact)
            seen: list[GroupState] = []
            while not seen or seen[-1].fact.revision != fact.revision:
                seen.append(await anext(states))
            revisions = [state.fact.revision for state in seen]
            assert revisions == sorted(set(revisions))


@on_loop
async def test_of_concurrent_changes_one_wins_per_revision(opening: Opening) -> None:
    async with opening() as stores, _watch(stores.other) as states:
        created = await stores.store.create(new_fact())
        first = await stores.store.elect(created, elected(created, A), 10 * LEASE_MS)
        assert await anext(states) == GroupState(first, is_leased=True)
        sets = [frozenset({A, B}), frozenset({A, C}), frozenset({A, B, C})]
        made: list[GroupFact] = []

        async def changer(store: GroupStore, number: int) -> None:
            state = await store.read("orders")
            for turn in range(10):
                assert state is not None
                try:
                    made.append(await store.change(state.fact, replace(state.fact, members=sets[(number + turn) % 3])))
                except ChangeRefusedError as refused:
                    state = refused.current
                else:
                    state = await store.read("orders")

        await asyncio.gather(*(changer(stores.other if number % 2 else stores.store, number) for number in range(6)))
        revisions = [fact.revision for fact in made]
        assert len(set(revisions)) == len(made) >= 10
        last = max(made, key=lambda fact: fact.revision)
        assert await stores.other.read("orders") == GroupState(last, is_leased=True)
        seen = [await anext(states)]
        while seen[-1].fact.revision != last.revision:
            seen.append(await anext(states))
        changes = [state.fact for state in seen if state.fact.revision > first.revision]
        assert changes == sorted(made, key=lambda fact: fact.revision)


@on_loop
async def test_of_concurrent_elections_one_wins(opening: Opening) -> None:
    async with opening() as stores:
        created = await stores.store.create(new_fact())
        elections = [
            store.elect(created, elected(created, holder), LEASE_MS)
            for store in (stores.store, stores.other)
            for holder in (A, B, C)
        ]
        outcomes = await asyncio.gather(*elections, return_exceptions=True)
        won = [outcome for outcome in outcomes if isinstance(outcome, GroupFact)]
        assert len(won) == 1
        assert all(isinstance(outcome, ChangeRefusedError) for outcome in outcomes if outcome not in won)
        assert await stores.store.read("orders") == GroupState(won[0], is_leased=True)
