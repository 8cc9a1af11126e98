"""Lag of the archive: the number of messages that are not archived yet."""

from __future__ import annotations

import json

from litemq.errors import LiteMQError
from litemq.spark.brokers import BlockingCluster
from litemq.spark.read.planning import Offsets, queue_name
from litemq.spark.tables.folder import TableFolder

__all__ = ["archive_lag", "batch_end"]


def batch_end(checkpoint: TableFolder, batch_id: int) -> Offsets | None:
    """Read the end of a batch from Spark's checkpoint.

    The file has a line with the version, a line with metadata, then a line for each source.
    """
    text = checkpoint.read_text(f"offsets/{batch_id}")
    lines = (text or "").splitlines()
    return Offsets.from_json(json.loads(lines[2])) if len(lines) > 2 else None


def archive_lag(cluster: BlockingCluster, checkpoint: TableFolder, batch_id: int) -> int | None:
    """Count the messages after the end of a batch; ``None`` if the brokers do not answer."""
    try:
        end = batch_end(checkpoint, batch_id)
        if end is None:
            return None
        topics = {name.split("/", 1)[0] for name in end.queues}
        queues = cluster.queue_bounds(each for each in cluster.topics() if each.topic in topics)
    except (LiteMQError, ValueError):
        return None  # only the status shows it
    return sum(max(0, queue.end_offset - end.queues.get(queue_name(queue), queue.start_offset)) for queue in queues)
