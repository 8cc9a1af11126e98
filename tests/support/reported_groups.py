"""A NameServer's replicated groups over a store, and a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from litemq.clock import FakeClock
from litemq.errors import ClusterStoreUnavailableError, LiteMQError
from litemq.nameserver.cluster_store.embedded_groups import EmbeddedGroupStore
from litemq.nameserver.cluster_store.groups import GroupStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.replica_groups import ReplicaGroups
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    ChangeInSyncRequest,
    ElectUncleanRequest,
    HandOverRequest,
    Opcode,
    RecoverGroupAnswer,
    RecoverGroupRequest,
    RenewMasterAnswer,
    RenewMasterRequest,
    ReplicaGroup,
    ReplicaReport,
)
from support.group_stores import A, B, C
from support.waiting import eventually

__all__ = ["OneCaller", "ReportedSite", "reported_site", "unreachable"]

_NAMES = {A: "a", B: "b", C: "c"}


class OneCaller:
    def __init__(self) -> None:
        self.outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(self, _frame: Frame, header: bytes) -> None:
        self.outcome.set_result(header)

    def refuse(self, _frame: Frame, error: LiteMQError) -> None:
        self.outcome.set_exception(error)


class ReportedSite:
    """A NameServer's groups over ``store``, and a clock that the test moves."""

    def __init__(self, groups: ReplicaGroups, store: GroupStore, clock: FakeClock) -> None:
        self.groups, self.store, self.clock = groups, store, clock

    async def ask(self, opcode: int, header: bytes) -> bytes:
        caller = OneCaller()
        self.groups.handle(caller, Frame(1, opcode, 0, header, b""))
        return await caller.outcome

    async def report(self, store_id: bytes, **fields: object) -> ReplicaGroup:
        return ReplicaGroup.FromString(await self.ask(Opcode.REPORT_REPLICA, self.encode_report(store_id, **fields)))

    def encode_report(self, store_id: bytes, **fields: object) -> bytes:
        report = ReplicaReport(
            group="orders",
            store_id=store_id,
            broker_id=_NAMES.get(store_id, "d"),
            host="h",
            port=1 + store_id[0] if store_id else 1,
            wall_ms=self.clock.wall_ms(),
            replicas=3,
            min_in_sync=2,
            segment_bytes=1 << 20,
        )
        for name, value in {"flushed": fields.get("log_end", 0), **fields}.items():
            setattr(report, name, value)
        return report.SerializeToString()

    async def waiting_report(self, store_id: bytes, version: int) -> asyncio.Task[bytes]:
        header = self.encode_report(store_id, known_version=version, wait_ms=30_000)
        task = asyncio.create_task(self.ask(Opcode.REPORT_REPLICA, header))
        await eventually(lambda: self.groups._groups["orders"].waiting)
        return task

    async def master(self, *alive: bytes, epoch: int, **fields: object) -> ReplicaGroup:
        """Let ``alive`` report until the group has a master in ``epoch``."""
        while True:
            for store_id in alive:
                view = await self.report(store_id, **fields)
            if view.is_leased and view.epoch == epoch:
                return view
            self.groups.sweep()
            await asyncio.sleep(0)

    async def renew(self, epoch: int, store_id: bytes, *, releases: bool = False, group: str = "orders") -> int:
        asked = RenewMasterRequest(group=group, epoch=epoch, store_id=store_id, releases=releases)
        return RenewMasterAnswer.FromString(await self.ask(Opcode.RENEW_MASTER, asked.SerializeToString())).lease_ms

    async def change(self, epoch: int, store_id: bytes, revision: int, *members: bytes) -> ReplicaGroup:
        asked = ChangeInSyncRequest(group="orders", epoch=epoch, store_id=store_id, revision=revision, members=members)
        return ReplicaGroup.FromString(await self.ask(Opcode.CHANGE_IN_SYNC, asked.SerializeToString()))

    async def hand_over(self, epoch: int, store_id: bytes, revision: int, successor: bytes) -> ReplicaGroup:
        asked = HandOverRequest(group="orders", epoch=epoch, store_id=store_id, revision=revision, successor=successor)
        return ReplicaGroup.FromString(await self.ask(Opcode.HAND_OVER, asked.SerializeToString()))

    async def recover(self, *, applies: bool = False, forces: bool = False) -> RecoverGroupAnswer:
        asked = RecoverGroupRequest(group="orders", applies=applies, forces=forces)
        return RecoverGroupAnswer.FromString(await self.ask(Opcode.RECOVER_GROUP, asked.SerializeToString()))

    async def elect_unclean(self, replica: str, revision: int) -> ReplicaGroup:
        asked = ElectUncleanRequest(group="orders", replica=replica, revision=revision)
        return ReplicaGroup.FromString(await self.ask(Opcode.ELECT_UNCLEAN, asked.SerializeToString()))

    async def lose_lease(self, *alive: bytes, **fields: object) -> None:
        """Let the master's lease end, while ``alive`` report."""
        for _ in range(5):
            self.clock.advance(1)
            for store_id in alive:
                await self.report(store_id, **fields)
        await self.store.groups()


async def unreachable(_name: str) -> None:
    """Read like a store that does not answer."""
    raise ClusterStoreUnavailableError("no answer")


@asynccontextmanager
async def reported_site(
    folder: Path, clock: FakeClock | None = None, lease_ms: int = 5_000, store: GroupStore | None = None
) -> AsyncIterator[ReportedSite]:
    """Run a NameServer's groups over ``store``, which ends with them, or an embedded store."""
    clock = clock or FakeClock()
    store = store or await EmbeddedGroupStore.open(folder / "groups.db", clock)
    groups = ReplicaGroups(store, NameServerLimits(master_lease_ms=lease_ms), clock)
    running = asyncio.create_task(groups.run())
    clock.advance(2)  # it has listened long enough to know who is silent
    try:
        yield ReportedSite(groups, store, clock)
    finally:
        running.cancel()
        await groups.close()
        await store.close()
