"""The archives of topics: each broker knows what they have of its queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.message import Message as WireMessage

from litemq.client.engine.archives import ArchivedQueue, ArchiveFact
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import ArchiveAnswer, ArchivedThroughRequest, Opcode, TopicRequest
from litemq.proto.wire_pb2 import ArchivedQueue as ToldQueue

__all__ = ["ClusterArchives"]

Ask = Callable[[str, int, WireMessage], Awaitable[bytes]]


class ClusterArchives:
    """``ask`` puts a request to one broker, ``brokers_of`` finds those of a topic."""

    def __init__(self, ask: Ask, brokers_of: Callable[[str], Awaitable[list[str]]]) -> None:
        self._ask = ask
        self._brokers_of = brokers_of

    async def report(self, topic: str, location: str, queues: Sequence[ArchivedQueue], *, replaces: bool) -> None:
        """One request to each broker; saying it again changes nothing."""
        of_broker: dict[str, list[ToldQueue]] = defaultdict(list)
        for queue in queues:
            begin = queue.begin if queue.begin >= 0 else None
            of_broker[queue.broker].append(ToldQueue(queue_id=queue.queue_id, begin=begin, next=queue.next))
        brokers = await self._brokers_of(topic)
        strangers = sorted(set(of_broker) - set(brokers))
        if strangers:
            raise InvalidArgumentError(f"no broker {', '.join(strangers)} has topic {topic!r}: choose of {', '.join(brokers)}")
        for broker in brokers if replaces else sorted(of_broker):
            request = ArchivedThroughRequest(topic=topic, location=location, queues=of_broker.get(broker, ()), replaces=replaces)
            await self._ask(broker, Opcode.ARCHIVED_THROUGH, request)

    async def describe(self, topic: str, broker: str = "") -> ArchiveFact:
        """What all brokers know, put together; or only what one of them does."""
        location, reported_at, ttl_ms = "", 0, 0
        queues: list[ArchivedQueue] = []
        topic_ids = []
        for name in [broker] if broker else await self._brokers_of(topic):
            answer = ArchiveAnswer.FromString(await self._ask(name, Opcode.DESCRIBE_ARCHIVE, TopicRequest(topic=topic)))
            if answer.reported_at > reported_at:
                location, reported_at = answer.location, answer.reported_at
            queues += [ArchivedQueue(name, queue.queue_id, queue.begin, queue.next, queue.kept) for queue in answer.queues]
            topic_ids.append((name, answer.topic_id))
            ttl_ms = answer.ttl_ms  # the same at all of them
        return ArchiveFact(topic, location, reported_at, tuple(queues), tuple(topic_ids), ttl_ms)
