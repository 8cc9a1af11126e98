"""Requests of a replica when some of its NameServers do not answer, or do not reach the store."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from litemq.errors import (
    ChangeOutcomeUnknownError,
    ClusterStoreUnavailableError,
    ConfigurationError,
    ConnectionLostError,
    LiteMQError,
    MasterLeaseLostError,
)
from litemq.nameserver.latest_fact import EPOCH_GAP
from litemq.net.client import Peer
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import (
    ChangeInSyncRequest,
    RenewMasterAnswer,
    RenewMasterRequest,
    ReplicaFacts,
    ReplicaGroup,
    ReplicaReport,
)
from litemq.server.replica.group_link import GroupLink
from support.on_loop import on_loop
from support.waiting import eventually


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


def test_replicas_are_named_by_the_last_view() -> None:
    link = GroupLink([("h", 1)], ReplicaReport)
    assert link.names == {}
    link.view = ReplicaGroup(replicas=[ReplicaFacts(store_id=b"a" * 16, broker_id="node-1")])
    assert link.names == {b"a" * 16: "node-1"}


@on_loop
async def test_a_definite_refusal_is_the_answer() -> None:
    peers = _Peer(MasterLeaseLostError("another one")), _Peer(5_000)
    with pytest.raises(MasterLeaseLostError):
        await _link(*peers).renew(RenewMasterRequest())
    assert peers[1].asked == 0


@on_loop
async def test_the_failure_of_the_store_is_raised_if_no_nameserver_knows() -> None:
    cut, silent = _Peer(ConnectionLostError("cut")), _Peer(ClusterStoreUnavailableError("no etcd"))
    for peers in ((cut, silent), (silent, cut)):
        with pytest.raises(ClusterStoreUnavailableError, match="no etcd"):
            await _link(*peers).renew(RenewMasterRequest())
    with pytest.raises(ConnectionLostError, match="no NameServer is reachable"):
        await _link().renew(RenewMasterRequest())


class _Changed:
    """A NameServer that has changed the in-sync set."""

    async def request(self, _opcode: int, _header: bytes, **_options: Any) -> Answer:
        return Answer(ReplicaGroup(epoch=2, revision=9).SerializeToString(), b"")


@on_loop
async def test_the_latest_fact_is_that_of_all_answers() -> None:
    link = _link(_Peer(0))
    (line,) = link._lines
    link._on_view(line, ReplicaGroup(epoch=2, revision=7))
    assert link.latest == (2, 7)
    line.peer = cast("Peer", _Changed())
    await link.change(ChangeInSyncRequest())
    assert link.latest == (2, 9)
    link._on_view(line, ReplicaGroup(epoch=3, revision=8))  # of an election that was made from an old copy
    assert link.latest == (3, 9)
    link._on_view(line, ReplicaGroup(epoch=3 + EPOCH_GAP, revision=8))
    assert link.latest == (3 + EPOCH_GAP, 8)


class _Reports:
    """NameServers that answer each report with a view of their own ``stores``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stores: dict[int, bytes]) -> None:
        self.stores = stores
        monkeypatch.setattr(Peer, "connect", self._connect)

    async def _connect(self, _host: str, port: int, **_options: Any) -> Any:
        async def request(*_arguments: Any, **_named: Any) -> Answer:
            await asyncio.sleep(0.01)
            return Answer(ReplicaGroup(epoch=port, revision=port, store=self.stores[port]).SerializeToString(), b"")

        return SimpleNamespace(request=request, close=lambda: None)


@on_loop
async def test_nameservers_with_different_facts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would elect a master, and both could begin the same epoch."""
    _Reports(monkeypatch, {1: b"one", 2: b"two"})
    link = GroupLink([("h", 1), ("h", 2)], ReplicaReport)
    with pytest.raises(ConfigurationError, match=r"the NameServer at h:\d cannot be used: .* store_kind=etcd"):
        await link.run()


@on_loop
async def test_a_replica_that_serves_ignores_a_nameserver_with_other_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = _Reports(monkeypatch, {1: b"one", 2: b"one", 3: b""})
    link = GroupLink([("h", 1), ("h", 2), ("h", 3)], ReplicaReport)
    running = asyncio.create_task(link.run())
    await eventually(lambda: link.view is not None and link.view.epoch == 3)  # it does not know its store yet
    link.has_role, link.view = True, None
    reports.stores |= {2: b"two", 3: b"two"}
    await eventually(lambda: link._lines[1].refusal and link._lines[2].refusal)
    link.view = None
    await eventually(lambda: link.view is not None and link.view.epoch == 1)
    reports.stores[2] = b"one"  # it was started again, with the right store
    await eventually(lambda: link.view is not None and link.view.epoch == 2)
    reports.stores |= {1: b"three", 2: b"three", 3: b"three"}  # all were started again, with a new store
    await eventually(lambda: not any(line.refusal for line in link._lines) and link._lines[0].store == b"three")
    running.cancel()
    await asyncio.wait([running])
