"""The topic part of a cluster's engine: ask all brokers of a topic, and merge their answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.nameservers import NameServers
from litemq.client.cluster.reading import queue_from_wire
from litemq.client.cluster.routes import Routes
from litemq.client.engine.engine import QueueInfo, TopicInfo
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.errors import TopicNotFoundError
from litemq.proto.wire_pb2 import (
    CreateTopicRequest,
    Empty,
    FindRequest,
    Opcode,
    TopicAnswer,
    TopicRequest,
    TopicsAnswer,
)

__all__ = ["ClusterTopics"]


class ClusterTopics:
    """The methods of ``Engine`` for topics.

    It calls ``on_gone`` with each topic that it has deleted.
    """

    def __init__(
        self, nameservers: NameServers, connections: BrokerConnections, routes: Routes, on_gone: Callable[[str], None]
    ) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._ask = connections.ask
        self._routes = routes
        self._on_gone = on_gone

    async def create(
        self, topic: str, queues: int, brokers: Sequence[str] | None, settings: TopicSettings
    ) -> TopicInfo:
        request = CreateTopicRequest(topic=topic, queues=queues, settings=settings.to_wire())
        self._routes.learn(await self._routes.create(request, brokers))
        return await self.describe(topic)

    async def alter(self, topic: str, changes: TopicChanges) -> TopicInfo:
        request = changes.to_wire(topic)
        for broker in (await self._routes.route(topic)).brokers:
            await self._ask(broker.name, Opcode.ALTER_TOPIC, request)
        return await self.describe(topic)

    async def delete(self, topic: str) -> None:
        route = await self._routes.route(topic)
        for broker in route.brokers:
            with contextlib.suppress(TopicNotFoundError):
                await self._ask(broker.name, Opcode.DELETE_TOPIC, TopicRequest(topic=topic))
        self._on_gone(topic)

    async def describe(self, topic: str) -> TopicInfo:
        route = self._nameservers.cached(topic) or await self._routes.route(topic)
        queues: list[QueueInfo] = []
        settings = TopicSettings()
        for broker in route.brokers:
            answer = TopicAnswer.FromString(
                await self._ask(broker.name, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic))
            )
            queues += [queue_from_wire(broker.name, queue) for queue in answer.queues]
            settings = TopicSettings.from_wire(answer.settings)  # the same on all brokers
        return TopicInfo(topic, tuple(queues), settings)

    async def count_queues(self) -> dict[str, int]:
        """Return all topics, with the number of their queues on all brokers."""
        found: dict[str, int] = {}
        for broker in await self._routes.alive():
            for entry in TopicsAnswer.FromString(await self._ask(broker, Opcode.LIST_TOPICS, Empty())).topics:
                found[entry.topic] = found.get(entry.topic, 0) + entry.queues
        return dict(sorted(found.items()))

    async def find(self, topic: str, key: str, limit: int) -> list[tuple[str, bytes]]:
        route = await self._routes.route(topic)
        header = FindRequest(topic=topic, key=key, most=limit).SerializeToString()
        answers = await asyncio.gather(
            *(self._connections.to(broker.name).request(Opcode.FIND, header) for broker in route.brokers)
        )
        return [(broker.name, answer.attachment) for broker, answer in zip(route.brokers, answers, strict=True)]
