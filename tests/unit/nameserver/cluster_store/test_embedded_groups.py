"""The embedded store of groups: leases, restarts, lost facts, failed writes, random histories."""

import asyncio
import random
import threading
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from litemq.clock import FakeClock, SystemClock
from litemq.errors import (
    ChangeOutcomeUnknownError,
    ChangeRefusedError,
    ClusterStoreError,
    DiskFullError,
    GroupFactsLostError,
    MasterLeasedError,
    MasterLeaseLostError,
    StorageError,
    StoreFailedError,
    StoreLockedError,
)
from litemq.nameserver.cluster_store import embedded_groups
from litemq.nameserver.cluster_store.embedded_groups import EmbeddedGroupStore
from litemq.nameserver.cluster_store.group_file import GroupFile
from litemq.nameserver.cluster_store.groups import GroupFact, GroupState
from support.group_stores import LEASE_MS, A, B, C, elected, new_fact
from support.on_loop import on_loop

LEASE_S = LEASE_MS / 1_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "groups.db"


@on_loop
async def test_after_a_start_a_group_counts_as_leased_for_its_last_lease(path: Path) -> None:
    clock = FakeClock()
    store = await EmbeddedGroupStore.open(path, clock)
    never = await store.create(new_fact("never-elected"))
    created = await store.create(new_fact())
    fact = await store.elect(created, elected(created, A), LEASE_MS)
    await store.close()
    clock.advance(100)

    store = await EmbeddedGroupStore.open(path, clock)
    assert await store.groups() == [GroupState(never, is_leased=False), GroupState(fact, is_leased=True)]
    clock.advance(LEASE_S - 0.001)
    with pytest.raises(MasterLeasedError):
        await store.elect(fact, elected(fact, B), LEASE_MS)
    assert await store.renew("orders", 1, A) == LEASE_MS  # the master may go on
    clock.advance(LEASE_S - 0.001)
    assert await store.read("orders") == GroupState(fact, is_leased=True)
    clock.advance(0.001)
    assert await store.read("orders") == GroupState(fact, is_leased=False)
    assert (await store.elect(fact, elected(fact, B), LEASE_MS)).epoch == 2
    await store.close()


@pytest.mark.parametrize("error", [DiskFullError("the disk is full"), StorageError("an I/O error")], ids=repr)
@on_loop
async def test_after_a_start_a_released_lease_does_not_count(
    path: Path, error: StorageError, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    store = await EmbeddedGroupStore.open(path, clock)
    created = await store.create(new_fact())
    fact = await store.elect(created, elected(created, A), LEASE_MS)
    await store.release("orders", 1, A)
    await store.close()
    store = await EmbeddedGroupStore.open(path, clock)
    assert await store.groups() == [GroupState(fact, is_leased=False)]
    fact = await store.elect(fact, elected(fact, B), LEASE_MS)

    def put(_stored: Any) -> None:
        raise error

    await store.release("orders", 2, B)
    monkeypatch.setattr(store._file, "put", put)
    await store.close()
    store = await EmbeddedGroupStore.open(path, clock)
    assert await store.groups() == [GroupState(fact, is_leased=True)]  # the file does not know of the release
    await store.close()


@on_loop
async def test_lost_facts_are_refused_by_name_until_they_are_recovered(path: Path) -> None:
    store = await EmbeddedGroupStore.open(path, FakeClock())
    lost = await store.create(new_fact())
    await store.close()
    path.write_bytes(b"damaged" * 1_000)  # noqa: ASYNC240
    for _ in range(2):
        store = await EmbeddedGroupStore.open(path, FakeClock())
        assert await store.groups() == []
        for request in (
            store.read("orders"),
            store.create(new_fact()),
            store.create(new_fact("another")),
            store.change(lost, lost),
            store.elect(lost, elected(lost, A), LEASE_MS),
            store.hand_over(lost, elected(lost, A), LEASE_MS),
        ):
            with pytest.raises(GroupFactsLostError, match=r"run `litemq cluster recover (orders|another)`"):
                await request
        with pytest.raises(MasterLeaseLostError):
            await store.renew("orders", 1, A)
        await store.close()
    store = await EmbeddedGroupStore.open(path, FakeClock())
    recovered = await store.recover(replace(elected(lost, A), epoch=7), LEASE_MS)
    with pytest.raises(ChangeRefusedError, match="exists, at epoch 7"):
        await store.create(new_fact())
    with pytest.raises(GroupFactsLostError):
        await store.create(new_fact("another"))
    await store.close()
    store = await EmbeddedGroupStore.open(path, FakeClock())
    assert await store.groups() == [GroupState(recovered, is_leased=True)]
    await store.close()


@on_loop
async def test_a_watch_sees_a_lease_end_by_itself(path: Path) -> None:
    store = await EmbeddedGroupStore.open(path, SystemClock())
    created = await store.create(new_fact())
    async with aclosing(store.watch()) as states:
        assert await anext(states) == GroupState(created, is_leased=False)
        fact = await store.elect(created, elected(created, A), 50)
        assert await anext(states) == GroupState(fact, is_leased=True)
        assert await anext(states) == GroupState(fact, is_leased=False)
    await store.close()


@on_loop
async def test_closing_ends_a_watch(path: Path) -> None:
    store = await EmbeddedGroupStore.open(path, FakeClock())

    async def watched() -> list[GroupState]:
        return [state async for state in store.watch()]

    watching = asyncio.create_task(watched())
    created = await store.create(new_fact())
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert await watching in ([], [GroupState(created, is_leased=False)])
    with pytest.raises(ClusterStoreError, match="closed"):
        await store.create(new_fact("later"))


@on_loop
async def test_a_slow_watcher_gets_the_last_state_of_each_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_groups, "_MOST_UNREAD", 4)
    store = await EmbeddedGroupStore.open(path, FakeClock())
    fact, other = await store.create(new_fact()), await store.create(new_fact("other"))
    async with aclosing(store.watch()) as states:
        assert (await anext(states)).fact == fact
        for _ in range(20):
            fact, other = await store.change(fact, fact), await store.change(other, other)
        seen: dict[str, list[int]] = {"orders": [], "other": []}
        while any(not revisions or revisions[-1] < 21 for revisions in seen.values()):
            state = await anext(states)
            seen[state.fact.name].append(state.fact.revision)
        assert all(revisions == sorted(set(revisions)) for revisions in seen.values())
        assert sum(map(len, seen.values())) <= 6
    await store.close()


@on_loop
async def test_a_file_has_one_nameserver(path: Path) -> None:
    store = await EmbeddedGroupStore.open(path, FakeClock())
    with pytest.raises(StoreLockedError):
        await EmbeddedGroupStore.open(path, FakeClock())
    await store.close()


@on_loop
async def test_no_call_of_sqlite_is_made_on_the_event_loop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    for name in ("__init__", "put", "close"):
        original: Any = getattr(GroupFile, name)

        def recorded(*arguments: Any, original: Any = original) -> Any:
            threads.add(threading.get_ident())
            return original(*arguments)

        monkeypatch.setattr(GroupFile, name, recorded)
    store = await EmbeddedGroupStore.open(path, FakeClock())
    await store.create(new_fact())
    await store.close()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


class _Gate:
    """Holds the writes of a store back until it is opened."""

    def __init__(self, store: EmbeddedGroupStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.reached = threading.Event(), threading.Event()
        original = store._file.put

        def put(stored: Any) -> None:
            self.reached.set()
            assert self.open.wait(60)
            original(stored)

        monkeypatch.setattr(store._file, "put", put)

    async def wait_reached(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.reached.wait)


@on_loop
async def test_a_cancelled_change_is_made_in_memory_as_on_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await EmbeddedGroupStore.open(path, FakeClock())
    created = await store.create(new_fact())
    gate = _Gate(store, monkeypatch)
    election = asyncio.create_task(store.elect(created, elected(created, A), LEASE_MS))
    await gate.wait_reached()
    election.cancel()
    with pytest.raises(asyncio.CancelledError):
        await election
    gate.open.set()
    with pytest.raises(ChangeRefusedError):
        await store.change(created, created)  # waits for the election
    state = await store.read("orders")
    assert state is not None
    assert (state.fact.epoch, state.fact.holder, state.is_leased) == (1, A, True)
    await store.close()


@on_loop
async def test_a_renewal_waits_for_a_switch_in_flight(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await EmbeddedGroupStore.open(path, FakeClock())
    created = await store.create(new_fact())
    fact = await store.elect(created, elected(created, A), LEASE_MS)
    other = await store.create(new_fact("other"))
    await store.elect(other, elected(other, A), LEASE_MS)
    gate = _Gate(store, monkeypatch)
    switch = asyncio.create_task(store.hand_over(fact, elected(fact, B), LEASE_MS))
    await gate.wait_reached()
    renewal = asyncio.create_task(store.renew("orders", 1, A))
    assert await store.renew("other", 1, A) == LEASE_MS  # another group does not wait
    assert not renewal.done()
    gate.open.set()
    await switch
    with pytest.raises(MasterLeaseLostError):
        await renewal
    await store.close()


@on_loop
async def test_after_a_failed_write_the_outcome_is_unknown_and_nothing_else_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await EmbeddedGroupStore.open(path, FakeClock())
    created = await store.create(new_fact())

    def fail(error: StorageError) -> None:
        def put(_stored: Any) -> None:
            raise error

        monkeypatch.setattr(store._file, "put", put)

    fail(DiskFullError("the disk is full"))
    with pytest.raises(DiskFullError):
        await store.change(created, created)
    monkeypatch.undo()
    changed = await store.change(created, created)
    fail(StorageError("an I/O error"))
    with pytest.raises(ChangeOutcomeUnknownError, match="an I/O error") as unknown:
        await store.elect(changed, elected(changed, A), LEASE_MS)
    assert unknown.value.retriable
    monkeypatch.undo()
    for request in (store.change(changed, changed), store.create(new_fact("other"))):
        with pytest.raises(StoreFailedError, match="restart the NameServer"):
            await request
    await store.close()


@on_loop
async def test_the_number_of_groups_has_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_groups, "MAX_GROUPS", 2)
    store = await EmbeddedGroupStore.open(path, FakeClock())
    for name in ("a", "b"):
        await store.create(new_fact(name))
    with pytest.raises(ClusterStoreError, match="cannot accept c"):
        await store.create(new_fact("c"))
    await store.close()


@dataclass
class _Reference:
    """A group as the rules say it is."""

    fact: GroupFact
    lease_ms: int = 0
    leased_until: int = 0

    def is_leased(self, now: int) -> bool:
        return now < self.leased_until


class _History:
    """Random requests and restarts of a store, each compared with the reference."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.choose, self.clock = path, random.Random(seed), FakeClock()
        self.groups: dict[str, _Reference] = {}
        self.old: list[GroupFact] = []

    def now(self) -> int:
        return self.clock.elapsed_ns() // 1_000_000

    async def run(self, steps: int) -> None:
        self.store = await EmbeddedGroupStore.open(self.path, self.clock)
        for _ in range(steps):
            step = self.choose.choice([self.change, self.elect, self.elect, self.hand_over, self.renew, self.release])
            if self.choose.random() < 0.3:
                step = self.choose.choice([self.create, self.wait, self.restart])
            await step()
            expected = [GroupState(each.fact, each.is_leased(self.now())) for _, each in sorted(self.groups.items())]
            assert await self.store.groups() == expected
        await self.store.close()

    async def create(self) -> None:
        name = self.choose.choice("abc")
        try:
            fact = await self.store.create(new_fact(name))
        except ChangeRefusedError:
            assert name in self.groups
        else:
            assert name not in self.groups
            self.groups[name] = _Reference(fact)

    async def wait(self) -> None:
        self.clock.advance(self.choose.choice([0.1, 1, LEASE_S]))

    async def restart(self) -> None:
        await self.store.close()
        self.store = await EmbeddedGroupStore.open(self.path, self.clock)
        for group in self.groups.values():
            if group.is_leased(self.now()):
                group.leased_until = self.now() + group.lease_ms

    def before(self) -> GroupFact | None:
        """Return the fact from which to change: mostly the present one."""
        facts = [group.fact for group in self.groups.values()]
        if not facts or (self.old and self.choose.random() < 0.2):
            return self.choose.choice(self.old) if self.old else None
        return self.choose.choice(facts)

    async def change(self) -> None:
        before = self.before()
        if before is not None:
            members = frozenset({before.holder or A, self.choose.choice([B, C]), C})
            if len(members) >= 2:
                await self._compare(before, self.store.change(before, replace(before, members=members)), 0)

    async def elect(self) -> None:
        before = self.before()
        if before is not None:
            after = elected(before, self.choose.choice(sorted(before.members)))
            may = not self.groups[before.name].is_leased(self.now())
            await self._compare(before, self.store.elect(before, after, LEASE_MS), LEASE_MS, may=may)

    async def hand_over(self) -> None:
        before = self.before()
        if before is not None:
            after = elected(before, self.choose.choice(sorted(before.members)))
            await self._compare(before, self.store.hand_over(before, after, 500), 500)

    async def _compare(self, before: GroupFact, request: Any, lease_ms: int, *, may: bool = True) -> None:
        group = self.groups[before.name]
        is_current = before == group.fact
        refused: ChangeRefusedError | None = None
        try:
            fact = await request
        except ChangeRefusedError as error:
            refused = error
        if refused is not None:
            assert not (is_current and may)
            assert isinstance(refused, MasterLeasedError) == is_current
            assert refused.current == GroupState(group.fact, group.is_leased(self.now()))
            return
        assert is_current
        assert may
        assert fact.revision == before.revision + 1
        self.old.append(before)
        group.fact = fact
        if lease_ms:
            group.lease_ms, group.leased_until = lease_ms, self.now() + lease_ms

    async def renew(self) -> None:
        before = self.before()
        if before is None:
            return
        group = self.groups[before.name]
        is_holder = bool(before.holder) and (before.epoch, before.holder) == (group.fact.epoch, group.fact.holder)
        try:
            assert await self.store.renew(before.name, before.epoch, before.holder) == group.lease_ms
            assert is_holder
            assert group.is_leased(self.now())
            group.leased_until = self.now() + group.lease_ms
        except MasterLeaseLostError:
            assert not (is_holder and group.is_leased(self.now()))

    async def release(self) -> None:
        before = self.before()
        if before is not None and self.choose.random() < 0.3:
            group = self.groups[before.name]
            await self.store.release(before.name, before.epoch, before.holder)
            if before.holder and (before.epoch, before.holder) == (group.fact.epoch, group.fact.holder):
                group.leased_until = 0


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_equal_the_reference(path: Path, seed: int) -> None:
    @on_loop
    async def run() -> None:
        await _History(path, seed).run(120)

    run()
