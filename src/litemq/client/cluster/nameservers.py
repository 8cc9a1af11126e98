"""Requests to the NameServers, and a cache of routes for the time when none of them answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import cycle

from google.protobuf.message import Message as WireMessage

from litemq.client.config import ClientConfig
from litemq.client.engine.routes import BrokerAddress, Route
from litemq.client.transport.channel import Connect
from litemq.client.transport.connection import BrokerConnection
from litemq.errors import (
    ChangeOutcomeUnknownError,
    ChangeRefusedError,
    ConnectionLostError,
    NoRouteError,
    RequestTimeoutError,
)
from litemq.proto.wire_pb2 import (
    BrokersAnswer,
    BrokerState,
    Opcode,
    ReplicaGroup,
    ReplicaGroupsAnswer,
    RouteAnswer,
    TopicRequest,
)
from litemq.types import Durability

__all__ = ["NameServers"]

_LOG = logging.getLogger(__name__)


class NameServers:
    """The NameServers of a cluster as one: the first that answers is used."""

    def __init__(self, addresses: Sequence[tuple[str, int]], connect: Connect, config: ClientConfig) -> None:
        in_turn = cycle(addresses)
        self._tries = len(addresses)
        self.addresses = tuple(addresses)
        self.description = ", ".join(f"{host}:{port}" for host, port in addresses)
        self._connection = BrokerConnection(
            f"the NameServer ({self.description})", lambda: next(in_turn), connect, config
        )
        self._config = config
        self._routes: dict[str, Route] = {}

    def cached(self, topic: str) -> Route | None:
        """Return the last known route of ``topic``."""
        return self._routes.get(topic)

    def cache(self, route: Route) -> None:
        """Store ``route``, which the brokers that created the topic returned."""
        self._routes[route.topic] = route

    def forget(self, topic: str) -> None:
        """Drop the cached route of a deleted topic."""
        self._routes.pop(topic, None)

    async def fetch(self, topic: str) -> Route | None:
        """Fetch the route of ``topic``; ``None`` if no broker has it.

        While no NameServer answers, return the cached one.
        """
        known = self._routes.get(topic)
        # With a cached route, do not wait long for a NameServer.
        within = self._config.request_timeout_ms / 1000 if known is None else 1.0
        try:
            answer = RouteAnswer.FromString(
                await self._ask(Opcode.FETCH_ROUTE, TopicRequest(topic=topic).SerializeToString(), within)
            )
            brokers = {
                broker.name: BrokerAddress(
                    broker.name,
                    broker.host,
                    broker.port,
                    broker.queues,
                    Durability(broker.default_durability),
                    has_priorities=broker.has_priorities,
                )
                for broker in answer.brokers
            }
            # Without the silent brokers, ordering keys would move to other queues, and back when
            # the brokers return.
            if known is None or any(broker.name not in brokers for broker in known.brokers):
                brokers = await self._silent_brokers(topic) | brokers
        except (ConnectionLostError, RequestTimeoutError) as error:
            if known is not None:
                _LOG.debug("using the cached route of %s: %s", topic, error)
                return known
            raise NoRouteError(
                f"no NameServer answers ({self.description}), and no route of topic {topic!r} is cached: {error}"
            ) from error
        if not brokers:
            return None
        route = Route(topic, tuple(brokers[name] for name in sorted(brokers)))
        self._routes[topic] = route
        return route

    async def _silent_brokers(self, topic: str) -> dict[str, BrokerAddress]:
        """Return the brokers of ``topic`` without a heartbeat: they keep their queues."""
        silent = {}
        for state in await self.brokers():
            facts = state.facts
            entry = next((entry for entry in facts.topics if entry.topic == topic), None)
            if entry is not None:
                # Alive here: the broker came back after the route was fetched.
                silent[facts.name] = BrokerAddress(
                    facts.name,
                    facts.host,
                    facts.port,
                    entry.queues,
                    Durability(facts.default_durability),
                    alive=state.alive,
                    has_priorities=entry.has_priorities,
                )
        return silent

    async def brokers(self) -> list[BrokerState]:
        """Return all brokers that the NameServer knows."""
        answer = await self._ask(Opcode.LIST_BROKERS, b"", self._config.request_timeout_ms / 1000)
        return list(BrokersAnswer.FromString(answer).brokers)

    async def replica_groups(self) -> list[ReplicaGroup]:
        """Return all replicated groups that the NameServer knows."""
        answer = await self._ask(Opcode.LIST_REPLICA_GROUPS, b"", self._config.request_timeout_ms / 1000)
        return list(ReplicaGroupsAnswer.FromString(answer).groups)

    async def ask(self, opcode: int, request: WireMessage) -> bytes:
        """Send ``request`` to a NameServer, and return the header of its answer."""
        return await self._ask(opcode, request.SerializeToString(), self._config.request_timeout_ms / 1000)

    async def change(self, opcode: int, request: WireMessage) -> bytes:
        """Ask a NameServer for a change that cannot be made twice; return the header of its answer.

        Raises:
            ChangeOutcomeUnknownError: The answer was lost, and the repeated request was refused:
                the first one may be the reason.
        """
        return await self._ask(
            opcode, request.SerializeToString(), self._config.request_timeout_ms / 1000, is_change=True
        )

    def use_another(self) -> None:
        """Connect to the next NameServer, if there are several."""
        if self._tries > 1:
            self._connection.give_up(ConnectionLostError("another NameServer is asked"))

    async def _ask(self, opcode: int, header: bytes, within: float, *, is_change: bool = False) -> bytes:
        """Ask one NameServer after another, until one answers."""
        until = asyncio.get_running_loop().time() + within
        tries = 0
        while True:
            left = max(0.05, until - asyncio.get_running_loop().time())
            tries += 1
            try:
                return (
                    await self._connection.request(opcode, header, within=left, answered_within=left, vital=True)
                ).header
            except ConnectionLostError:
                if tries > self._tries or asyncio.get_running_loop().time() >= until:
                    raise
            except ChangeRefusedError as error:
                if not is_change or tries == 1:
                    raise
                raise ChangeOutcomeUnknownError(
                    f"the connection to a NameServer was lost, and the repeated request was refused: {error}"
                ) from error

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()
