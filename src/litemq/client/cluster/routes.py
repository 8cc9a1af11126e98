"""The brokers of topics: find them at the NameServers, have them create a topic, and remember their addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from litemq.client.cluster.links import Links
from litemq.client.cluster.nameservers import Names
from litemq.client.engine.routes import BrokerPlace, Route
from litemq.errors import NoRouteError, TopicNotFoundError
from litemq.proto.wire_pb2 import BrokerState, CreateTopicRequest, Opcode, TopicAnswer, TopicRequest
from litemq.types import Durability, is_system_name

__all__ = ["Routes"]


class Routes:
    """The engine passes each route that is new or was read again to ``on_route``."""

    def __init__(self, names: Names, links: Links, on_route: Callable[[Route], None]) -> None:
        self._names = names
        self._links = links
        self._on_route = on_route
        self._asking: dict[str, asyncio.Task[Route]] = {}  # one question at a time for a topic

    async def route(self, topic: str, *, create: bool = False) -> Route:
        """Ask for the brokers of ``topic``; return the remembered ones while no NameServer answers."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.get_running_loop().create_task(self._ask(topic, create=create))
            asking.add_done_callback(lambda task: (self._asking.pop(topic, None), task.cancelled() or task.exception()))
        return await asyncio.shield(asking)

    async def known(self, topic: str) -> Route:
        """Return the remembered route of ``topic``, or ask for it; brokers that create topics by themselves create it."""
        return self._names.remembered(topic) or await self.route(topic, create=True)

    async def brokers_of(self, topic: str) -> list[str]:
        """Return the names of the brokers that have ``topic``."""
        return [place.name for place in (await self.route(topic)).brokers]

    async def alive(self) -> list[str]:
        """Return the names of the brokers that are alive; raise if there is none."""
        await self._check_alive()
        return sorted(state.facts.name for state in await self.learn_brokers() if state.alive)

    async def learn_brokers(self) -> list[BrokerState]:
        """Ask for all brokers, alive or not, and remember their addresses."""
        states = await self._names.brokers()
        self._links.addresses.update({state.facts.name: (state.facts.host, state.facts.port) for state in states})
        return states

    async def _ask(self, topic: str, *, create: bool) -> Route:
        route = await (self._system_route(topic) if is_system_name(topic) else self._names.fetch(topic))
        if route is None and create:
            route = await self.create(CreateTopicRequest(topic=topic, automatic=True), None)
        if route is None:
            await self._check_alive()
            raise TopicNotFoundError(f"no broker has topic {topic!r}: create it with `litemq topic create {topic}`")
        self.learn(route)
        return route

    async def _system_route(self, topic: str) -> Route | None:
        """Ask each broker for a system topic, which no NameServer knows."""
        places = []
        for state in await self.learn_brokers():
            facts = state.facts
            if state.alive:
                with contextlib.suppress(TopicNotFoundError):
                    answer = TopicAnswer.FromString(await self._links.ask(facts.name, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic)))
                    places.append(BrokerPlace(facts.name, facts.host, facts.port, len(answer.queues), Durability(facts.default_durability)))
        return Route(topic, tuple(places)) if places else None

    async def _check_alive(self) -> None:
        """Raise if no broker is alive: then no topic is gone, only the brokers are."""
        if not any(state.alive for state in await self._names.brokers()):
            raise NoRouteError(
                f"no broker is alive, says the NameServer ({self._names.described}): start one with `litemq broker`, or all with `litemq up`"
            )

    def learn(self, route: Route) -> None:
        """Remember the addresses in ``route``, and pass it on."""
        for place in route.brokers:
            self._links.addresses[place.name] = (place.host, place.port)
        self._on_route(route)

    async def create(self, request: CreateTopicRequest, chosen: Sequence[str] | None) -> Route:
        """Have the ``chosen`` brokers create a topic, or all that are alive, and return its route."""
        alive = {state.facts.name: state.facts for state in await self._names.brokers() if state.alive}
        missing = sorted(set(chosen or ()) - set(alive))
        if missing or not alive:
            which = f"no broker {', '.join(missing)} is alive" if missing else "no broker is alive"
            others = f"choose of {', '.join(alive)}" if alive else "start one with `litemq broker`, or all with `litemq up`"
            raise NoRouteError(f"{which}, says the NameServer ({self._names.described}): {others}")
        places = []
        for name in sorted(chosen or alive):
            facts = alive[name]
            self._links.addresses[name] = (facts.host, facts.port)
            answer = TopicAnswer.FromString(await self._links.ask(name, Opcode.CREATE_TOPIC, request))
            durability, has_priorities = Durability(facts.default_durability), answer.settings.has_priorities
            places.append(BrokerPlace(name, facts.host, facts.port, len(answer.queues), durability, has_priorities=has_priorities))
        route = Route(request.topic, tuple(places))
        self._names.remember(route)
        return route

    async def close(self) -> None:
        """Cancel the questions that are under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
