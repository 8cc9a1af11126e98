"""Whether the latest run of a job is over: its group has settled the message, or it died.

A retry is not over.
"""

from __future__ import annotations

from litemq.proto.control_pb2 import JobRow
from litemq.storage.state import QueueKey, State

__all__ = ["is_running", "is_settled"]


def is_running(state: State, row: JobRow, group: str) -> bool:
    """Return whether the group still has to settle the latest message of a job."""
    if row.log_offset < 0 or not group:
        return False
    key = QueueKey(row.topic_id, row.queue_id)
    facts = state.topics.get(key.topic_id)
    if facts is None or facts.deleted or row.queue_offset < state.least.get(key, 0):
        return False  # no consumer can settle it any more
    return not is_settled(state, group, key, row.queue_offset) or state.delivery.tries.get(row.log_offset, group) is not None


def is_settled(state: State, group: str, key: QueueKey, offset: int) -> bool:
    """Return whether the group has finished the message at ``offset``."""
    progress = state.delivery.progress
    if offset < progress.offsets.get((group, key), 0):
        return True
    queue = progress.of_queue(group, key)
    return queue is not None and any(begin <= offset < end for begin, end in queue.done.within(offset, offset + 1))
