"""Visibility: filters a pull for one group.

The broker drops records that the group has already consumed, and dead-letters expired records.
"""

from __future__ import annotations

import numpy as np

from litemq.broker.dead_letters.writing import DeadDelivery, dead_letter_records
from litemq.format.batches.extent import Extent
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.state import QueueKey, Topic
from litemq.storage.store import Store
from litemq.types import DeadReason

__all__ = ["visible_to"]

Records = bytes | memoryview


def visible_to(
    group: str, store: Store, topic: Topic, key: QueueKey, records: Records, extent: Extent, now: int
) -> Records:
    """Return those of ``records``, which have this ``extent``, that ``group`` may see."""
    queue = store.state.parts.progress.queue(group, key)
    end_offset = extent.last + 1
    done = queue is not None and any(queue.done.within(extent.first, end_offset))
    if not done and extent.expires > now and not (topic.ttl_ms and extent.stored + topic.ttl_ms <= now):
        return records  # as nearly always
    starts = scan(records, limits=STORED_LIMITS).starts
    header = RecordColumns(records, starts).header
    offsets = header["queue_offset"].astype(np.int64)
    hidden = np.zeros(offsets.size, np.bool_)
    if queue is not None:
        for begin, end in queue.done.within(extent.first, end_offset):
            hidden |= (offsets >= begin) & (offsets < end)
    expire_at = header["expire_at"].astype(np.int64)
    if topic.ttl_ms:
        expire_at = np.where(expire_at == 0, header["store_timestamp"].astype(np.int64) + topic.ttl_ms, expire_at)
    expired = (expire_at != 0) & (expire_at <= now) & ~hidden
    if not hidden.any() and not expired.any():
        return records
    bounds = [*starts.tolist(), len(records)]
    view = memoryview(records)
    pieces = [view[bounds[number] : bounds[number + 1]] for number in range(offsets.size)]
    tries = header["consume_count"].tolist()
    dead = [
        DeadDelivery(
            pieces[number], topic.topic_id, key, int(offsets[number]), group, tries[number], DeadReason.TTL_EXPIRED
        )
        for number in np.flatnonzero(expired).tolist()
    ]
    if dead:
        store.append_placed(dead_letter_records(store, dead, now))
    return b"".join(pieces[number] for number in np.flatnonzero(~(hidden | expired)).tolist())
