"""A broker over the store of a group's master, and the stores of its followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock
from litemq.proto.wire_pb2 import SendAnswer
from litemq.storage.files.disk import Disk
from litemq.storage.replica_store import ReplicaStore
from support.replica_group import Master, all_have, following, serving
from support.replicas import open_replica
from support.stores import CONFIG
from support.transactions import Producer
from support.waiting import eventually

__all__ = ["Group", "group_of_three"]


class Group:
    """A broker over the master's store, and the stores of two followers, which do not run yet."""

    def __init__(
        self, master: Master, followers: Sequence[ReplicaStore], clock: FakeClock, limits: BrokerLimits | None = None
    ) -> None:
        self.master = master
        self.store = master.store
        self.followers = followers
        self.clock = clock
        self.broker = Broker(master.store, clock, limits or BrokerLimits(max_unconfirmed_bytes=2 << 20))
        self.broker.ship(master.shipping)
        self.ann = Producer(self.broker)

    def send(self, batch: bytes, queue_id: int = 0) -> asyncio.Task[SendAnswer]:
        return asyncio.ensure_future(self.ann.send(batch, queue_id))

    @asynccontextmanager
    async def all_follow(self) -> AsyncIterator[None]:
        async with following(self.master, self.followers[0]), following(self.master, self.followers[1]):
            yield

    async def lack_replicas(self) -> None:
        """Let both followers be away for too long."""
        self.clock.advance(3)
        self.master.shipping.check_replicas()


@asynccontextmanager
async def group_of_three(
    folder: Path, followers_disk: Disk | None = None, limits: BrokerLimits | None = None
) -> AsyncIterator[Group]:
    """Run a broker over the store of a master. Its two followers have its topic, and are away."""
    clock = FakeClock()
    store = open_replica(folder / "a", CONFIG, clock)
    followers = [open_replica(folder / name, CONFIG, clock, followers_disk) for name in "bc"]
    async with serving(store, followers, clock=clock) as master:
        group = Group(master, followers, clock, limits)
        async with group.all_follow():
            await group.ann.create()
            await all_have(store, *followers)
        await eventually(lambda: not master.shipping.followers)
        yield group
        group.broker.close()
    for each in (store, *followers):
        each.abandon()
