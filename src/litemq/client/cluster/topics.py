"""Topics on all brokers: each broker knows its own queues, and this part puts their answers together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from litemq.client.cluster.links import Links
from litemq.client.cluster.nameservers import Names
from litemq.client.cluster.reading import queue_fact
from litemq.client.cluster.routes import Routes
from litemq.client.engine.engine import QueueFact, TopicFact
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.errors import TopicNotFoundError
from litemq.proto.wire_pb2 import CreateTopicRequest, Empty, FindRequest, Opcode, TopicAnswer, TopicRequest, TopicsAnswer

__all__ = ["ClusterTopics"]


class ClusterTopics:
    """The part of a ``Backend`` that looks after topics. It calls ``on_gone`` with a topic that it has deleted."""

    def __init__(self, names: Names, links: Links, routes: Routes, on_gone: Callable[[str], None]) -> None:
        self._names = names
        self._links = links
        self._ask = links.ask
        self._routes = routes
        self._on_gone = on_gone

    async def create(self, topic: str, queues: int, brokers: Sequence[str] | None, settings: TopicSettings) -> TopicFact:
        request = CreateTopicRequest(topic=topic, queues=queues, settings=settings.told())
        self._routes.learn(await self._routes.create(request, brokers))
        return await self.describe(topic)

    async def alter(self, topic: str, changes: TopicChanges) -> TopicFact:
        request = changes.told(topic)
        for place in (await self._routes.route(topic)).brokers:
            await self._ask(place.name, Opcode.ALTER_TOPIC, request)
        return await self.describe(topic)

    async def delete(self, topic: str) -> None:
        route = await self._routes.route(topic)
        for place in route.brokers:
            with contextlib.suppress(TopicNotFoundError):
                await self._ask(place.name, Opcode.DELETE_TOPIC, TopicRequest(topic=topic))
        self._on_gone(topic)

    async def describe(self, topic: str) -> TopicFact:
        route = self._names.remembered(topic) or await self._routes.route(topic)
        queues: list[QueueFact] = []
        settings = TopicSettings()
        for place in route.brokers:
            answer = TopicAnswer.FromString(await self._ask(place.name, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic)))
            queues += [queue_fact(place.name, queue) for queue in answer.queues]
            settings = TopicSettings.of(answer.settings)  # the same at all of them
        return TopicFact(topic, tuple(queues), settings)

    async def count_queues(self) -> dict[str, int]:
        """Return all topics, with the number of their queues on all brokers."""
        found: dict[str, int] = {}
        for broker in await self._routes.alive():
            for entry in TopicsAnswer.FromString(await self._ask(broker, Opcode.LIST_TOPICS, Empty())).topics:
                found[entry.topic] = found.get(entry.topic, 0) + entry.queues
        return dict(sorted(found.items()))

    async def find(self, topic: str, key: str, most: int) -> list[tuple[str, bytes]]:
        route = await self._routes.route(topic)
        header = FindRequest(topic=topic, key=key, most=most).SerializeToString()
        answers = await asyncio.gather(*(self._links.to(place.name).request(Opcode.FIND, header) for place in route.brokers))
        return [(place.name, answer.attachment) for place, answer in zip(route.brokers, answers, strict=True)]
