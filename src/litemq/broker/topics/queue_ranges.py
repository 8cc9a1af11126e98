"""The offsets a queue has, as the wire tells them."""

from __future__ import annotations

from litemq.proto.wire_pb2 import QueueRange
from litemq.storage.state import QueueKey
from litemq.storage.store import Store

__all__ = ["full_range_of", "range_of"]


def full_range_of(store: Store, key: QueueKey) -> QueueRange:
    """The same, with where the topic's archive begins if that has what is gone here: for those who are told once, not with each pull."""
    told, earliest = range_of(store, key), store.state.earliest(key)
    if earliest < told.least:
        told.archived_from = earliest
    return told


def range_of(store: Store, key: QueueKey) -> QueueRange:
    """A queue's oldest offset, and the one that comes next."""
    state = store.state
    return QueueRange(queue_id=key.queue_id, least=state.least.get(key, 0), next=state.next.get(key, 0))
