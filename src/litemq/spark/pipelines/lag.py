"""How many messages are still to be archived: what brokers have, less how far a batch goes."""

from __future__ import annotations

import json

from litemq.errors import LiteMQError
from litemq.spark.brokers import Links
from litemq.spark.read.planning import Offsets, queue_name
from litemq.spark.tables.folder import TableFolder

__all__ = ["end_of_batch", "messages_behind"]


def end_of_batch(checkpoint: TableFolder, batch_id: int) -> Offsets | None:
    """Where a batch ends, as Spark has noted it: a line with the version, one with facts of the batch, then one for each source."""
    text = checkpoint.read_text(f"offsets/{batch_id}")
    lines = (text or "").splitlines()
    return Offsets.of_json(json.loads(lines[2])) if len(lines) > 2 else None


def messages_behind(links: Links, checkpoint: TableFolder, batch_id: int) -> int | None:
    """How many messages came after a batch's; none where that cannot be said now."""
    try:
        end = end_of_batch(checkpoint, batch_id)
        if end is None:
            return None
        topics = {name.split("/", 1)[0] for name in end.queues}
        queues = links.ranges(place for place in links.topics() if place.topic in topics)
    except (LiteMQError, ValueError):
        return None  # it is only told to people
    return sum(max(0, queue.next - end.queues.get(queue_name(queue), queue.least)) for queue in queues)
