"""Routes of topics: fetch them, create missing topics, and learn the addresses of brokers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.contacts import BrokerContacts
from litemq.client.cluster.nameservers import NameServers
from litemq.client.engine.routes import BrokerAddress, Route
from litemq.client.engine.survey import Survey
from litemq.errors import NoRouteError, TopicNotFoundError
from litemq.proto.wire_pb2 import CreateTopicRequest, Opcode, TopicAnswer, TopicRequest
from litemq.types import Durability, is_system_name

__all__ = ["Routes"]


class Routes:
    """The routes of a cluster's topics.

    Each route that is fetched or created goes to ``on_route``.
    """

    def __init__(
        self,
        nameservers: NameServers,
        connections: BrokerConnections,
        contacts: BrokerContacts,
        on_route: Callable[[Route], None],
    ) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._contacts = contacts
        self._on_route = on_route
        self._asking: dict[str, asyncio.Task[Route]] = {}  # by topic: concurrent callers share one request

    async def route(self, topic: str, *, create: bool = False) -> Route:
        """Fetch the route of ``topic``; return the cached one while no NameServer answers."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.get_running_loop().create_task(self._ask(topic, create=create))
            asking.add_done_callback(lambda task: (self._asking.pop(topic, None), task.cancelled() or task.exception()))
        return await asyncio.shield(asking)

    async def known(self, topic: str) -> Route:
        """Return the cached route of ``topic``, or fetch it.

        Brokers with ``auto_create_topics`` create a missing topic.
        """
        return self._nameservers.cached(topic) or await self.route(topic, create=True)

    async def survey(self, topic: str = "") -> Survey:
        """Find out which brokers answer: all, or those that have ``topic``."""
        if not topic:
            return await self._contacts.survey()
        if is_system_name(topic):
            return await self._system_survey(topic)
        try:
            route = await self.route(topic)
        except TopicNotFoundError:
            cached = self._nameservers.cached(topic)  # of a topic that the NameServer does not know yet
            if cached is None:
                raise
            route = cached
        return await self._contacts.survey(broker.name for broker in route.brokers)

    async def all_brokers(self, topic: str = "") -> list[str]:
        """Return all brokers, or those that have ``topic``; raise if one does not answer."""
        survey = await self.survey(topic)
        survey.require_all()
        return survey.brokers

    async def alive(self) -> list[str]:
        """Return the names of the brokers that are alive; raise if there is none."""
        await self._check_alive()
        return sorted(state.facts.name for state in await self._contacts.learn_brokers() if state.alive)

    async def _ask(self, topic: str, *, create: bool) -> Route:
        known = self._nameservers.cached(topic)
        route = await (self._system_route(topic) if is_system_name(topic) else self._nameservers.fetch(topic))
        if known is not None:
            route = await self._keep_unavailable(known, route)
        if route is None and create:
            route = await self.create(CreateTopicRequest(topic=topic, automatic=True), None)
        if route is None:
            await self._check_alive()
            raise TopicNotFoundError(f"no broker has topic {topic!r}: create it with `litemq topic create {topic}`")
        self.learn(route)
        return route

    async def _keep_unavailable(self, known: Route, route: Route | None) -> Route | None:
        """Return ``route`` with the groups of ``known`` that it lacks and no replica serves.

        A NameServer that has lost its store learns the topics of a group from its next master.
        """
        found = [] if route is None else list(route.brokers)
        names = {broker.name for broker in found}
        missing = [broker for broker in known.brokers if broker.name not in names]
        if missing:
            await self._contacts.learn_groups()
        kept = [broker._replace(alive=False) for broker in missing if broker.name in self._connections.outages]
        if not kept:
            return route
        route = Route(known.topic, tuple(sorted([*found, *kept], key=lambda broker: broker.name)))
        self._nameservers.cache(route)
        return route

    async def _system_route(self, topic: str) -> Route | None:
        """Ask each broker for a system topic, which no NameServer knows."""
        survey = await self._contacts.survey()
        queues = await self._system_queues(survey, topic)
        addresses = [
            BrokerAddress(facts.name, facts.host, facts.port, queues[facts.name], Durability(facts.default_durability))
            for facts in (state.facts for state in await self._contacts.learn_brokers())
            if facts.name in queues
        ]
        return Route(topic, tuple(addresses)) if addresses else None

    async def _system_survey(self, topic: str) -> Survey:
        """Survey the brokers that have a system topic; those that do not answer may have it."""
        survey = await self._contacts.survey()
        queues = await self._system_queues(survey, topic)
        if not queues:
            survey.require_all(f"the others do not have topic {topic!r}")
            raise TopicNotFoundError(f"no broker has topic {topic!r}")
        return Survey([*queues, *survey.missing], survey.missing)

    async def _system_queues(self, survey: Survey, topic: str) -> dict[str, int]:
        """Return the number of queues of a system topic on the brokers that have it."""
        queues: dict[str, int] = {}

        async def ask(broker: str) -> None:
            with contextlib.suppress(TopicNotFoundError):
                header = await self._connections.ask(broker, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic))
                queues[broker] = len(TopicAnswer.FromString(header).queues)

        await survey.ask(ask)
        return queues

    async def _check_alive(self) -> None:
        """Raise if no broker is alive: the topic may exist on one that is down.

        Raises:
            NoRouteError: There is none.
            GroupUnavailableError: They are replicated groups, and no replica serves them.
        """
        if not any(state.alive for state in await self._nameservers.brokers()):
            raise await self._contacts.no_broker_alive()

    def learn(self, route: Route) -> None:
        """Learn the addresses in ``route``, and pass it on."""
        for broker in route.brokers:
            self._connections.learn(broker.name, broker.host, broker.port)
        self._on_route(route)

    async def create(self, request: CreateTopicRequest, chosen: Sequence[str] | None) -> Route:
        """Create a topic on the ``chosen`` brokers, or on all live ones; return its route."""
        alive = {state.facts.name: state.facts for state in await self._nameservers.brokers() if state.alive}
        if not alive:
            raise await self._contacts.no_broker_alive()
        missing = sorted(set(chosen or ()) - set(alive))
        if missing:
            await self._contacts.check_groups(missing)
            raise NoRouteError(
                f"broker {', '.join(missing)} is not alive (NameServer {self._nameservers.description}): "
                f"choose from {', '.join(alive)}"
            )
        addresses = []
        for name in sorted(chosen or alive):
            facts = alive[name]
            self._connections.learn(name, facts.host, facts.port, facts.epoch)
            answer = TopicAnswer.FromString(await self._connections.ask(name, Opcode.CREATE_TOPIC, request))
            durability, has_priorities = Durability(facts.default_durability), answer.settings.has_priorities
            addresses.append(
                BrokerAddress(
                    name, facts.host, facts.port, len(answer.queues), durability, has_priorities=has_priorities
                )
            )
        route = Route(request.topic, tuple(addresses))
        self._nameservers.cache(route)
        return route

    async def close(self) -> None:
        """Cancel pending requests."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
