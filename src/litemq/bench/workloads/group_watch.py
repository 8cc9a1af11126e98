"""The NameServer's view of a replicated group: its steps from one master to the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from litemq.bench.replica_group import GROUP, ReplicaGroup
from litemq.errors import LiteMQError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import BrokersAnswer, Opcode, ReplicaFacts, ReplicaGroupsAnswer
from litemq.proto.wire_pb2 import ReplicaGroup as GroupView

__all__ = ["Election", "GroupWatch", "master_of", "poll", "replica_of", "watching"]

_STEP_S: Final = 0.005
_WITHIN_S: Final = 120.0
_ANSWER_S: Final = 60.0


@dataclass(slots=True)
class Election:
    """When the steps of an election were seen, by the monotonic clock; at most 5 ms late."""

    lease_over: float = 0.0  # or released
    elected: float = 0.0
    registered: float = 0.0  # the new master serves clients, and the NameServer knows its address


class GroupWatch:
    """Asks the NameServer again and again, over a connection of its own."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def view(self) -> GroupView:
        """Return the view of the group, which is empty until its first replica has reported."""
        answer = await self._peer.request(Opcode.LIST_REPLICA_GROUPS, b"", timeout=_ANSWER_S)
        groups = ReplicaGroupsAnswer.FromString(answer.header).groups
        return next((view for view in groups if view.name == GROUP), GroupView())

    async def registered_epoch(self) -> int:
        """Return the epoch of the registered master; 0 if there is none."""
        answer = await self._peer.request(Opcode.LIST_BROKERS, b"", timeout=_ANSWER_S)
        return max((each.facts.epoch for each in BrokersAnswer.FromString(answer.header).brokers), default=0)

    async def wait(self, is_reached: Callable[[GroupView], bool], what: str) -> GroupView:
        """Wait until ``is_reached`` accepts the view; ``what`` names the condition in the error."""
        until = time.monotonic() + _WITHIN_S
        while not is_reached(view := await self.view()):
            if time.monotonic() > until:
                raise LiteMQError(f"within {_WITHIN_S:g} s, this was not reached: {what}. The view: {view}")
            await asyncio.sleep(_STEP_S)
        return view

    async def wait_in_sync(self, members: int) -> GroupView:
        """Wait until the group has a registered master, and ``members`` in its in-sync set."""
        view = await self.wait(
            lambda view: view.is_leased and len(view.members) == members, f"{members} replicas in sync"
        )
        while True:
            if await self.registered_epoch() >= view.epoch:
                return view
            await asyncio.sleep(_STEP_S)

    async def follow_election(self, epoch: int) -> Election:
        """Note the steps until the master of an epoch after ``epoch`` is registered."""
        seen = Election()
        until = time.monotonic() + _WITHIN_S
        while not seen.registered:
            view = await self.view()
            now = time.monotonic()
            if now > until:
                raise LiteMQError(f"no master was elected within {_WITHIN_S:g} s: {view.obstacle}")
            if not seen.lease_over and (not view.is_leased or view.epoch > epoch):
                seen.lease_over = now
            if view.epoch > epoch:
                seen.elected = seen.elected or now
                if await self.registered_epoch() > epoch:
                    seen.registered = time.monotonic()
            await asyncio.sleep(_STEP_S)
        return seen


async def poll(is_reached: Callable[[], bool], what: str, within: float = _WITHIN_S) -> None:
    """Wait until ``is_reached``; raise after ``within`` seconds, with the condition ``what``."""
    until = time.monotonic() + within
    while True:
        if is_reached():
            return
        if time.monotonic() > until:
            raise LiteMQError(f"within {within:g} s, this was not reached: {what}")
        await asyncio.sleep(_STEP_S)


@asynccontextmanager
async def watching(group: ReplicaGroup) -> AsyncIterator[GroupWatch]:
    """Connect to the NameServer, and wait until all replicas are in sync."""
    peer = await Peer.connect(*group.address, client_id="bench-watch")
    try:
        watch = GroupWatch(peer)
        await watch.wait_in_sync(len(group.replicas))
        yield watch
    finally:
        peer.close()


def replica_of(view: GroupView, broker_id: str) -> ReplicaFacts:
    """Return what the NameServer knows of one replica."""
    return next(each for each in view.replicas if each.broker_id == broker_id)


def master_of(view: GroupView) -> str:
    """Return the broker id of the master."""
    return next(each.broker_id for each in view.replicas if each.store_id == view.holder)
