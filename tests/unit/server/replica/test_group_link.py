"""Requests of a replica when some of its NameServers do not answer, or do not reach the store."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from litemq.errors import (
    ChangeOutcomeUnknownError,
    ClusterStoreUnavailableError,
    ConnectionLostError,
    LiteMQError,
    MasterLeaseLostError,
)
from litemq.net.client import Peer
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import RenewMasterAnswer, RenewMasterRequest, ReplicaReport
from litemq.server.replica.group_link import GroupLink
from support.on_loop import on_loop


class _Peer:
    """A NameServer that grants a lease of ``answer`` ms, or fails with it; ``None``: it hangs."""

    def __init__(self, answer: int | LiteMQError | None) -> None:
        self.answer = answer
        self.asked = 0

    async def request(self, _opcode: int, _header: bytes, **_options: Any) -> Answer:
        self.asked += 1
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, LiteMQError):
            raise self.answer
        return Answer(RenewMasterAnswer(lease_ms=cast("int", self.answer)).SerializeToString(), b"")


def _link(*peers: _Peer) -> GroupLink:
    link = GroupLink([("h", number) for number in range(1, len(peers) + 1)], ReplicaReport)
    for line, peer in zip(link._lines, peers, strict=True):
        line.peer = cast("Peer", peer)
    return link


@pytest.mark.parametrize(
    "failure",
    [None, ConnectionLostError("cut"), ClusterStoreUnavailableError("no etcd"), ChangeOutcomeUnknownError("no etcd")],
    ids=["hangs", "is lost", "has no store", "does not know"],
)
@on_loop
async def test_another_nameserver_renews_the_lease(failure: LiteMQError | None) -> None:
    peers = _Peer(failure), _Peer(5_000), _Peer(6_000)
    link = _link(*peers)
    assert await link.renew(RenewMasterRequest()) == 5_000
    assert await link.renew(RenewMasterRequest()) == 5_000
    assert [peer.asked for peer in peers] == [1, 2, 0]  # the one that has answered is asked first


@on_loop
async def test_a_definite_refusal_is_the_answer() -> None:
    peers = _Peer(MasterLeaseLostError("another one")), _Peer(5_000)
    with pytest.raises(MasterLeaseLostError):
        await _link(*peers).renew(RenewMasterRequest())
    assert peers[1].asked == 0


@on_loop
async def test_the_last_failure_is_raised_if_no_nameserver_knows() -> None:
    with pytest.raises(ClusterStoreUnavailableError, match="no etcd"):
        await _link(_Peer(ConnectionLostError("cut")), _Peer(ClusterStoreUnavailableError("no etcd"))).renew(
            RenewMasterRequest()
        )
    with pytest.raises(ConnectionLostError, match="no NameServer is reachable"):
        await _link().renew(RenewMasterRequest())
