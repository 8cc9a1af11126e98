"""Group stores of every kind, as the contract suite uses them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from litemq.clock import FakeClock
from litemq.nameserver.cluster_store.embedded_groups import EmbeddedGroupStore
from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore
from litemq.nameserver.cluster_store.groups import GroupFact, GroupState, GroupStore

__all__ = [
    "LEASE_MS",
    "A",
    "B",
    "C",
    "OpenedStores",
    "elected",
    "embedded_stores",
    "etcd_stores",
    "new_fact",
    "states_of",
]

LEASE_MS: Final = 2_000  # the least that etcd grants
A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def new_fact(name: str = "orders", min_in_sync: int = 2) -> GroupFact:
    """Return the fact of a group with three replicas before its first election."""
    return GroupFact(name, 0, b"", frozenset({A, B, C}), min_in_sync, 1 << 30)


def elected(before: GroupFact, holder: bytes, members: frozenset[bytes] | None = None) -> GroupFact:
    """Return the fact after an election."""
    return GroupFact(
        before.name, before.epoch + 1, holder, members or before.members, before.min_in_sync, before.segment_bytes
    )


class OpenedStores:
    """``store`` and ``other``: the same groups, as two NameServers see them."""

    def __init__(self, store: GroupStore, other: GroupStore, clock: FakeClock | None = None) -> None:
        self.store, self.other = store, other
        self._clock = clock

    async def lose_lease(self, name: str) -> GroupState:
        """Let the lease of a group end; return the state after it."""
        if self._clock is not None:
            self._clock.advance(LEASE_MS / 1_000)
        async with aclosing(states_of(self.store)) as states:
            async for state in states:
                if state.fact.name == name and not state.is_leased:
                    return state
        raise AssertionError("the store was closed")


async def states_of(store: GroupStore) -> AsyncGenerator[GroupState, None]:
    """Watch ``store``, which loses no fact."""
    async with aclosing(store.watch()) as changes:
        async for change in changes:
            assert isinstance(change, GroupState)
            yield change


@asynccontextmanager
async def etcd_stores(endpoints: Sequence[str]) -> AsyncIterator[OpenedStores]:
    """Open two stores of the same groups, below a prefix of their own."""
    prefix = f"/litemq/{secrets.token_hex(8)}"
    store, other = EtcdGroupStore(endpoints, prefix), EtcdGroupStore(endpoints, prefix)
    try:
        yield OpenedStores(store, other)
    finally:
        await store.close()
        await other.close()


@asynccontextmanager
async def embedded_stores(folder: Path) -> AsyncIterator[OpenedStores]:
    """Open the embedded store: it has one NameServer, so both stores are the same."""
    clock = FakeClock()
    store = await EmbeddedGroupStore.open(folder / "groups.db", clock)
    try:
        yield OpenedStores(store, store, clock)
    finally:
        await store.close()
