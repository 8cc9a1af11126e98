"""The state of a job's latest run: over once its group has settled it or it is a dead letter.

A run whose retry waits is not over.
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
    topic = state.topics.get(key.topic_id)
    if topic is None or topic.deleted or row.queue_offset < state.start_offsets.get(key, 0):
        return False  # no consumer can settle it any more
    return (
        not is_settled(state, group, key, row.queue_offset) or state.parts.tries.get(row.log_offset, group) is not None
    )


def is_settled(state: State, group: str, key: QueueKey, offset: int) -> bool:
    """Return whether the group has finished the message at ``offset``."""
    progress = state.parts.progress
    if offset < progress.offsets.get((group, key), 0):
        return True
    queue = progress.queue(group, key)
    return queue is not None and any(begin <= offset < end for begin, end in queue.done.within(offset, offset + 1))
