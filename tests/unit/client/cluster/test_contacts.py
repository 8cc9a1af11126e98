"""Contact with brokers: whom a survey asks again, and whom it does not."""

import asyncio
from typing import Any

from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.config import ClientConfig
from litemq.errors import ConnectionLostError
from litemq.proto.wire_pb2 import BrokerFacts, BrokerState, ReplicaGroup
from support.on_loop import on_loop


class _Cluster:
    """A fake of the NameServers, the connections and the connection to each broker."""

    description = "names:1"

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self.is_open, self.is_silent = True, False
        self.probes = 0

    def learn(self, broker: str, host: str, port: int, _epoch: int) -> None:
        self.addresses[broker] = (host, port)

    async def brokers(self) -> list[BrokerState]:
        names = ("a", "b")
        return [BrokerState(facts=BrokerFacts(name=name, host=f"host-{name}", port=1), alive=True) for name in names]

    async def replica_groups(self) -> list[ReplicaGroup]:
        return []

    def to(self, broker: str) -> Any:
        return self if broker == "b" else _Sound()

    async def probe(self, within: float) -> None:
        self.probes += 1
        if self.is_silent:
            await asyncio.sleep(within)
            raise ConnectionLostError("no answer")
        if not self.is_open:
            raise ConnectionLostError("refused")


class _Sound:
    is_open = True

    async def probe(self, within: float) -> None:
        """Answer at once."""


def _contacts(cluster: Any) -> BrokerContacts:
    return BrokerContacts(cluster, cluster, ClientConfig(contact_timeout_ms=1))


@on_loop
async def test_a_broker_that_has_just_answered_is_not_asked_again() -> None:
    cluster = _Cluster()
    contacts = _contacts(cluster)
    for _ in range(3):
        assert (await contacts.survey()).brokers == ["a", "b"]
    assert cluster.probes == 1
    assert cluster.addresses == {"a": ("host-a", 1), "b": ("host-b", 1)}
    cluster.is_open = False  # the connection is lost: it counts no more that it answered
    assert (await contacts.survey()).missing == {"b": "refused"}


@on_loop
async def test_a_refusal_is_asked_again_since_it_costs_no_time() -> None:
    cluster = _Cluster()
    contacts = _contacts(cluster)
    cluster.is_open = False
    assert (await contacts.survey(["a", "b"])).missing == {"b": "refused"}
    cluster.is_open = True
    assert (await contacts.survey(["a", "b"])).missing == {}


@on_loop
async def test_a_broker_is_waited_for_once() -> None:
    cluster = _Cluster()
    contacts = _contacts(cluster)
    cluster.is_silent = True
    for _ in range(3):
        assert (await contacts.survey()).missing == {"b": "no answer"}
    assert cluster.probes == 1
