"""The range of offsets in a queue, as a wire message."""

from __future__ import annotations

from litemq.proto.wire_pb2 import QueueRange
from litemq.storage.state import QueueKey
from litemq.storage.store import Store

__all__ = ["full_offset_range", "offset_range"]


def full_offset_range(store: Store, key: QueueKey) -> QueueRange:
    """Return ``offset_range`` with the start of the topic's archive, if that has older offsets.

    Too costly for each pull.
    """
    queue_range, earliest = offset_range(store, key), store.state.earliest(key)
    if earliest < queue_range.least:
        queue_range.archived_from = earliest
    return queue_range


def offset_range(store: Store, key: QueueKey) -> QueueRange:
    """Return the oldest offset of queue ``key`` and its next one."""
    state = store.state
    return QueueRange(queue_id=key.queue_id, least=state.start_offsets.get(key, 0), next=state.end_offsets.get(key, 0))
