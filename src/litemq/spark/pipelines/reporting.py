"""Telling the brokers how far their topics are archived, after the table's commit and never before."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.proto.wire_pb2 import ArchivedQueue, ArchivedThroughRequest, Opcode
from litemq.spark.brokers import BlockingCluster
from litemq.spark.fetch import QueueSpan

__all__ = ["report_archived"]

_LOG = logging.getLogger(__name__)


def report_archived(cluster: BlockingCluster, location: str, spans: Iterable[QueueSpan]) -> list[str]:
    """Say that spans are in the table; returns who does not take note of it, and why.

    Said twice it is as good as said once; a broker that does not answer is waited for.
    """
    refused: list[str] = []
    requests: dict[tuple[str, str], ArchivedThroughRequest] = {}
    for span in sorted(spans):
        request = requests.setdefault((span.broker, span.topic), ArchivedThroughRequest(topic=span.topic, location=location))
        request.queues.append(ArchivedQueue(queue_id=span.queue_id, begin=span.begin, next=span.end))
    for (broker, topic), request in requests.items():
        try:
            cluster.ask(broker, Opcode.ARCHIVED_THROUGH, request.SerializeToString())
        except (InvalidArgumentError, TopicNotFoundError) as error:
            # It has another archive, or was deleted meanwhile: the rows are in the table all the same.
            _LOG.warning("%s does not take note of what is archived of %s: %s", broker, topic, error)
            refused.append(f"{broker} of {topic}: {error}")
    return refused
