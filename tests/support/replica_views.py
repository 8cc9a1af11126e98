"""The replicated group at a NameServer, as tests wait for it."""

from __future__ import annotations

import asyncio

from litemq.net.client import Peer
from litemq.proto.wire_pb2 import BrokersAnswer, Opcode, ReplicaGroup, ReplicaGroupsAnswer

__all__ = ["master_of", "wait_master", "wait_no_master"]


async def wait_master(nameserver: int, epoch: int, members: int = 3) -> ReplicaGroup:
    """Wait until the master of ``epoch`` or later is registered, and for the size of the set."""
    peer = await Peer.connect("127.0.0.1", nameserver, client_id="tests")
    try:
        while True:
            answer = await peer.request(Opcode.LIST_BROKERS, b"", timeout=60)
            registered = {state.facts.epoch for state in BrokersAnswer.FromString(answer.header).brokers if state.alive}
            answer = await peer.request(Opcode.LIST_REPLICA_GROUPS, b"", timeout=60)
            for view in ReplicaGroupsAnswer.FromString(answer.header).groups:
                has_master = view.is_leased and view.epoch >= epoch and view.epoch in registered
                if has_master and len(view.members) == members:
                    return view
            await asyncio.sleep(0.02)
    finally:
        peer.close()


async def wait_no_master(nameserver: int) -> ReplicaGroup:
    """Wait until a group has no master, and no replica left to elect.

    A replica that was killed together with the master may be elected once more.
    """
    peer = await Peer.connect("127.0.0.1", nameserver, client_id="tests")
    try:
        while True:
            answer = await peer.request(Opcode.LIST_REPLICA_GROUPS, b"", timeout=60)
            for view in ReplicaGroupsAnswer.FromString(answer.header).groups:
                if not view.is_leased and "no member of the in-sync set is alive" in view.obstacle:
                    return view
            await asyncio.sleep(0.02)
    finally:
        peer.close()


def master_of(view: ReplicaGroup) -> str:
    """Return the broker id of the master."""
    return next(each.broker_id for each in view.replicas if each.store_id == view.holder)
