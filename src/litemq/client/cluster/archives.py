"""The ``ArchiveEngine`` of a cluster: each broker knows the archive of its own queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.message import Message as WireMessage

from litemq.client.engine.archives import ArchivedQueue, ArchiveInfo
from litemq.client.engine.survey import Survey
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import ArchiveAnswer, ArchivedThroughRequest, Opcode, TopicRequest
from litemq.proto.wire_pb2 import ArchivedQueue as WireQueue

__all__ = ["ClusterArchives"]

Ask = Callable[[str, int, WireMessage], Awaitable[bytes]]


class ClusterArchives:
    """An ``ArchiveEngine``.

    ``ask`` sends a request to one broker; ``survey`` finds out which brokers of a topic answer.
    """

    def __init__(self, ask: Ask, survey: Callable[[str], Awaitable[Survey]]) -> None:
        self._ask = ask
        self._survey = survey

    async def report(self, topic: str, location: str, queues: Sequence[ArchivedQueue], *, replaces: bool) -> None:
        """Send one request to each broker. A repeated report changes nothing."""
        queues_by_broker: dict[str, list[WireQueue]] = defaultdict(list)
        for queue in queues:
            begin = queue.begin if queue.begin >= 0 else None
            queues_by_broker[queue.broker].append(WireQueue(queue_id=queue.queue_id, begin=begin, next=queue.next))
        survey = await self._survey(topic)
        if replaces:
            survey.require_all()
        brokers = survey.asked
        unknown = sorted(set(queues_by_broker) - set(brokers))
        if unknown:
            raise InvalidArgumentError(
                f"topic {topic!r} is not on broker {', '.join(unknown)}: choose from {', '.join(brokers)}"
            )
        for broker in brokers if replaces else sorted(queues_by_broker):
            request = ArchivedThroughRequest(
                topic=topic, location=location, queues=queues_by_broker.get(broker, ()), replaces=replaces
            )
            await self._ask(broker, Opcode.ARCHIVED_THROUGH, request)

    async def describe(self, topic: str, broker: str = "") -> ArchiveInfo:
        """Merge what all brokers, or only ``broker``, know of the archive."""
        request = TopicRequest(topic=topic)
        if broker:
            return _merge(topic, [(broker, await self._ask(broker, Opcode.DESCRIBE_ARCHIVE, request))])
        survey = await self._survey(topic)
        answers = await survey.ask(lambda each: self._ask(each, Opcode.DESCRIBE_ARCHIVE, request))
        return survey.complete(_merge(topic, answers))


def _merge(topic: str, answers: list[tuple[str, bytes]]) -> ArchiveInfo:
    location, reported_at, ttl_ms = "", 0, 0
    queues: list[ArchivedQueue] = []
    topic_ids = []
    for name, header in answers:
        answer = ArchiveAnswer.FromString(header)
        if answer.reported_at > reported_at:
            location, reported_at = answer.location, answer.reported_at
        queues += [ArchivedQueue(name, queue.queue_id, queue.begin, queue.next, queue.kept) for queue in answer.queues]
        topic_ids.append((name, answer.topic_id))
        ttl_ms = answer.ttl_ms  # the same on all brokers
    return ArchiveInfo(topic, location, reported_at, tuple(queues), tuple(topic_ids), ttl_ms)
