"""What the NameServers know, and what the client remembers of it while none of them answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import cycle

from litemq.client.config import ClientConfig
from litemq.client.engine.routes import BrokerPlace, Route
from litemq.client.transport.channel import Connect
from litemq.client.transport.connection import Link
from litemq.errors import ConnectionLostError, NoRouteError, RequestTimeoutError
from litemq.proto.wire_pb2 import BrokersAnswer, BrokerState, Opcode, RouteAnswer, TopicRequest
from litemq.types import Durability

__all__ = ["Names"]

_LOG = logging.getLogger(__name__)


class Names:
    """Routes, asked of whichever NameServer answers, and kept."""

    def __init__(self, addresses: Sequence[tuple[str, int]], connect: Connect, config: ClientConfig) -> None:
        turns = cycle(addresses)
        self._tries = len(addresses)
        self.described = ", ".join(f"{host}:{port}" for host, port in addresses)
        self._link = Link(f"the NameServer ({self.described})", lambda: next(turns), connect, config)
        self._config = config
        self._routes: dict[str, Route] = {}

    def remembered(self, topic: str) -> Route | None:
        """The last route that is known."""
        return self._routes.get(topic)

    def remember(self, route: Route) -> None:
        """A route that was learned elsewhere: from the brokers that created the topic."""
        self._routes[route.topic] = route

    def forget(self, topic: str) -> None:
        """The topic is no more."""
        self._routes.pop(topic, None)

    async def fetch(self, topic: str) -> Route | None:
        """A topic's route as it is now, as far as that can be told; ``None`` where no broker has it."""
        known = self._routes.get(topic)
        # Where a route is known, a NameServer that does not answer at once is not worth waiting for.
        within = self._config.request_timeout_ms / 1000 if known is None else 1.0
        try:
            answer = RouteAnswer.FromString(await self._ask(Opcode.FETCH_ROUTE, TopicRequest(topic=topic).SerializeToString(), within))
            brokers = {
                broker.name: BrokerPlace(
                    broker.name,
                    broker.host,
                    broker.port,
                    broker.queues,
                    Durability(broker.default_durability),
                    has_priorities=broker.has_priorities,
                )
                for broker in answer.brokers
            }
            # A route without the silent would send their keys elsewhere, and back when they return: the first one is asked for with them.
            if known is None or any(broker.name not in brokers for broker in known.brokers):
                brokers = await self._silent(topic) | brokers
        except (ConnectionLostError, RequestTimeoutError) as error:
            if known is not None:
                _LOG.debug("the route of %s is as it was: %s", topic, error)
                return known
            raise NoRouteError(f"no NameServer answers ({self.described}), and no route of topic {topic!r} is known: {error}") from error
        if not brokers:
            return None
        route = Route(topic, tuple(brokers[name] for name in sorted(brokers)))
        self._routes[topic] = route
        return route

    async def _silent(self, topic: str) -> dict[str, BrokerPlace]:
        """Those that may have left the routes only because they are silent: they keep their queues, and what is bound to them waits."""
        silent = {}
        for state in await self.brokers():
            facts = state.facts
            entry = next((entry for entry in facts.topics if entry.topic == topic), None)
            if entry is not None:
                # One that is alive by now came back after the route was told.
                silent[facts.name] = BrokerPlace(
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
        """All brokers that the NameServer knows."""
        answer = await self._ask(Opcode.LIST_BROKERS, b"", self._config.request_timeout_ms / 1000)
        return list(BrokersAnswer.FromString(answer).brokers)

    async def _ask(self, opcode: int, header: bytes, within: float) -> bytes:
        """Ask one NameServer after another; they all know the same."""
        until = asyncio.get_running_loop().time() + within
        tries = 0
        while True:
            left = max(0.05, until - asyncio.get_running_loop().time())
            tries += 1
            try:
                return (await self._link.request(opcode, header, within=left, answered_within=left, vital=True)).header
            except ConnectionLostError:
                if tries > self._tries or asyncio.get_running_loop().time() >= until:
                    raise

    async def close(self) -> None:
        """End the connection."""
        await self._link.close()
