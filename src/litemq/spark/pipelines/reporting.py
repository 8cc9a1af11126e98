"""Reports of archived offsets to the brokers, sent only after the table's commit."""

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
    """Report to the brokers that ``spans`` are in the table at ``location``; return the refusals.

    Idempotent. Retries while a broker does not answer.
    """
    refused: list[str] = []
    requests: dict[tuple[str, str], ArchivedThroughRequest] = {}
    for span in sorted(spans):
        request = requests.setdefault(
            (span.broker, span.topic), ArchivedThroughRequest(topic=span.topic, location=location)
        )
        request.queues.append(ArchivedQueue(queue_id=span.queue_id, begin=span.begin, next=span.end))
    for (broker, topic), request in requests.items():
        try:
            cluster.ask(broker, Opcode.ARCHIVED_THROUGH, request.SerializeToString())
        except (InvalidArgumentError, TopicNotFoundError) as error:
            # The topic has another archive or was deleted meanwhile; its rows are in the table
            # anyway.
            _LOG.warning("broker %s rejected the archived offsets of %s: %s", broker, topic, error)
            refused.append(f"{broker} of {topic}: {error}")
    return refused
