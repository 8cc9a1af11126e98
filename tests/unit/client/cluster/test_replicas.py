"""Changes of operators: what a client reports after a lost answer, or while a list lags behind."""

from __future__ import annotations

from typing import Any

import pytest

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.cluster.nameservers import NameServers
from litemq.client.cluster.replicas import ClusterReplicas
from litemq.client.config import ClientConfig
from litemq.errors import ChangeOutcomeUnknownError, ChangeRefusedError, ConnectionLostError, LiteMQError
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import Opcode, ReplicaFacts, ReplicaGroup, ReplicaGroupsAnswer
from support.on_loop import on_loop

A, B = b"a" * 16, b"b" * 16


class _NameServer:
    """A group without a master. It makes a change, or not, and answers with each of ``answers``."""

    def __init__(self, *answers: LiteMQError | None, makes_change: bool, is_listed: bool = True) -> None:
        replicas = [ReplicaFacts(store_id=store, broker_id=name, alive=True) for store, name in ((A, "a"), (B, "b"))]
        self.listed = ReplicaGroup(
            name="orders", epoch=4, holder=B, revision=7, members=[B], replicas=replicas, configured=2
        )
        self._answers = list(answers)
        self._makes_change = makes_change
        self._is_listed = is_listed
        self.is_open = True

    async def connect(self, *_arguments: Any, **_options: Any) -> Any:
        return self

    async def request(self, opcode: int, _header: bytes, *_arguments: Any, **_options: Any) -> Answer:
        if opcode == Opcode.LIST_REPLICA_GROUPS:
            return Answer(ReplicaGroupsAnswer(groups=[self.listed]).SerializeToString(), b"")
        if self._makes_change and self._is_listed:
            self.listed.epoch, self.listed.holder, self.listed.is_leased = 5, A, True
        error = self._answers.pop(0)
        if error is not None:
            raise error
        after = ReplicaGroup(name="orders", epoch=5, holder=A, revision=8, members=[A], is_leased=True)
        return Answer(after.SerializeToString(), b"")

    def close(self) -> None:
        """Nothing to do."""


def _replicas(server: _NameServer) -> ClusterReplicas:
    config = ClientConfig()
    nameservers = NameServers([("names", 1)], server.connect, config)
    connections = BrokerConnections("names:1", server.connect, config)
    return ClusterReplicas(nameservers, connections, BrokerContacts(nameservers, connections, config), config)


_LOST, _REFUSED = ConnectionLostError("reset"), ChangeRefusedError("group orders has changed: look at it again")


@on_loop
async def test_an_election_has_the_epoch_of_the_answer_although_the_list_is_older() -> None:
    elected = await _replicas(_NameServer(None, makes_change=True, is_listed=False)).elect_unclean("orders", "a", 7)
    assert (elected.epoch, elected.configured, elected.in_sync) == (5, 2, 1)
    assert elected.master is not None
    assert elected.master.broker_id == "a"


@on_loop
async def test_an_election_whose_answer_was_lost_is_found() -> None:
    replicas = _replicas(_NameServer(_LOST, _REFUSED, makes_change=True))
    assert (await replicas.elect_unclean("orders", "a", 7)).epoch == 5
    with pytest.raises(ChangeOutcomeUnknownError, match="has changed"):
        await _replicas(_NameServer(_LOST, _REFUSED, makes_change=False)).elect_unclean("orders", "a", 7)
    with pytest.raises(ChangeRefusedError):
        await _replicas(_NameServer(_REFUSED, makes_change=True)).elect_unclean("orders", "a", 7)


@on_loop
async def test_a_recovery_whose_answer_was_lost_has_an_unknown_outcome() -> None:
    replicas = _replicas(_NameServer(_LOST, _REFUSED, makes_change=True))
    with pytest.raises(ChangeOutcomeUnknownError, match=r"Run `litemq cluster status`: if the facts of group orders"):
        await replicas.recover_group("orders", applies=True, forces=False)
