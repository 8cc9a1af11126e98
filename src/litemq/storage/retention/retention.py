"""What may go, and the record that says so before it is gone.

Segments go whole, the oldest first. Of each queue that loses messages the record names the least offset that it keeps, and of each group
that had not come so far yet, what it lost: what an archive has is not lost. The state that the lost records made is in a snapshot by then.
Of a topic whose archive is waited for, it names what went before that had it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from litemq.proto.control_pb2 import ArchiveLoss, Control, GroupLoss, Queue, RetentionCrossed
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import read_log
from litemq.storage.state import QueueKey, State

__all__ = ["crossing_record", "first_segment_to_keep", "least_offsets_after"]

_STORE_TIMESTAMP_AT = 32


def first_segment_to_keep(log: CommitLog, older_than_ms: int | None, max_bytes: int | None) -> int:
    """The log offset from which on segments are kept: those with any record as young as ``older_than_ms``, and ``max_bytes`` of them at most.

    The last segment is always kept.
    """
    start = log.start
    for segment, following in pairwise(log.segments):
        # A segment is as old as the record behind it allows: store times never fall.
        youngest = int.from_bytes(following.file.read(8, _STORE_TIMESTAMP_AT), "big")
        too_old = older_than_ms is not None and youngest < older_than_ms
        too_much = max_bytes is not None and log.segments[-1].end - segment.start > max_bytes
        if not (too_old or too_much):
            break
        start = segment.end
    return start


def least_offsets_after(log: CommitLog, log_start: int) -> dict[QueueKey, int]:
    """For each queue that has a record before ``log_start``, the offset behind the last of them."""
    least: dict[QueueKey, int] = {}
    for window in read_log(log, log.start, log_start, verify_crc=False):
        header = window.columns.header
        queues = header["topic_id"].astype(np.int64) << 32 | header["queue_id"].astype(np.int64)
        offsets = header["queue_offset"].astype(np.int64)
        order = np.argsort(queues, kind="stable")
        last = np.append(queues[order][1:] != queues[order][:-1], np.True_)
        for queue, offset in zip(queues[order][last].tolist(), offsets[order][last].tolist(), strict=True):
            key = QueueKey(queue >> 32, queue & 0xFFFFFFFF)
            least[key] = max(offset + 1, least.get(key, 0))
    return least


def crossing_record(state: State, log_start: int, least: dict[QueueKey, int]) -> Control:
    """The record that says what goes."""
    queues = [Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=offset) for key, offset in sorted(least.items())]
    crossed = RetentionCrossed(log_start=log_start, queues=queues, losses=_losses(state, least), unarchived=_unarchived(state, least))
    return Control(retention_crossed=crossed)


def _unarchived(state: State, least: dict[QueueKey, int]) -> Iterable[ArchiveLoss]:
    for key, first in state.unarchived():
        if first < least.get(key, 0):
            yield ArchiveLoss(topic_id=key.topic_id, queue_id=key.queue_id, from_offset=first, to_offset=least[key])


def _losses(state: State, least: dict[QueueKey, int]) -> Iterable[GroupLoss]:
    for (group, key), offset in sorted(state.group_offsets.items()):
        begin = max(offset, state.least.get(key, 0))
        archived = state.delivery.archives.of_queue(key)
        if archived is not None and archived.begin <= begin:
            begin = max(begin, archived.next)
        if begin < least.get(key, 0):
            yield GroupLoss(group=group, topic_id=key.topic_id, queue_id=key.queue_id, from_offset=begin, to_offset=least[key])
