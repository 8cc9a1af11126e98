"""The topic part of a cluster's engine: ask all brokers of a topic, and merge their answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.nameservers import NameServers
from litemq.client.cluster.reading import queue_from_wire
from litemq.client.cluster.replica_reads import ReplicaReads
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
        self,
        nameservers: NameServers,
        connections: BrokerConnections,
        reads: ReplicaReads,
        routes: Routes,
        on_gone: Callable[[str], None],
    ) -> None:
        self._nameservers = nameservers
        self._reads = reads
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
        for broker in await self._routes.all_brokers(topic):
            await self._ask(broker, Opcode.ALTER_TOPIC, request)
        return await self.describe(topic)

    async def delete(self, topic: str) -> None:
        for broker in await self._routes.all_brokers(topic):
            with contextlib.suppress(TopicNotFoundError):
                await self._ask(broker, Opcode.DELETE_TOPIC, TopicRequest(topic=topic))
        self._on_gone(topic)

    async def describe(self, topic: str, broker: str = "") -> TopicInfo:
        request = TopicRequest(topic=topic)
        if broker:
            answer = await self._reads.request(broker, Opcode.DESCRIBE_TOPIC, request.SerializeToString())
            return _merge(topic, [(broker, answer.header)])
        survey = await self._routes.survey(topic)
        answers = await survey.ask(lambda each: self._ask(each, Opcode.DESCRIBE_TOPIC, request))
        return survey.complete(_merge(topic, answers))

    async def count_queues(self) -> dict[str, int]:
        """Return all topics, with the number of their queues on all brokers.

        For a broker that does not answer, the NameServer knows them.
        """
        survey = await self._routes.survey()
        answers = await survey.ask(lambda broker: self._ask(broker, Opcode.LIST_TOPICS, Empty()))
        lists = [TopicsAnswer.FromString(answer).topics for _, answer in answers]
        if survey.missing:
            states = await self._nameservers.brokers()
            lists += [state.facts.topics for state in states if state.facts.name in survey.missing]
        found: dict[str, int] = {}
        for entry in (entry for topics in lists for entry in topics):
            found[entry.topic] = found.get(entry.topic, 0) + entry.queues
        return survey.complete(dict(sorted(found.items())))

    async def find(self, broker: str, topic: str, key: str, limit: int) -> bytes:
        header = FindRequest(topic=topic, key=key, most=limit).SerializeToString()
        return (await self._reads.request(broker, Opcode.FIND, header)).attachment


def _merge(topic: str, answers: list[tuple[str, bytes]]) -> TopicInfo:
    queues: list[QueueInfo] = []
    settings = TopicSettings()
    for broker, header in answers:
        answer = TopicAnswer.FromString(header)
        queues += [queue_from_wire(broker, queue) for queue in answer.queues]
        settings = TopicSettings.from_wire(answer.settings)  # the same on all brokers
    return TopicInfo(topic, tuple(queues), settings)
