"""Segments to drop, and the control record that announces it.

Retention drops whole segments, oldest first. Before that, a control record names the new start
offset of each queue that loses messages, the messages that each group loses (archived messages are
not lost), and the unarchived messages of archived topics. By then, a snapshot has the state of the
dropped records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from litemq.errors import CorruptStoreError
from litemq.proto.control_pb2 import ArchiveLoss, Control, GroupLoss, Queue, RetentionCrossed
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import read_log
from litemq.storage.log.records import read_stamp
from litemq.storage.log.segment import Segment
from litemq.storage.retention.unread import count_unread, unread
from litemq.storage.state import QueueKey, State

__all__ = ["crossing_record", "first_segment_to_keep", "start_offsets_after"]


def first_segment_to_keep(log: CommitLog, older_than_ms: int | None, max_bytes: int | None) -> int:
    """Return the log offset of the first segment to keep.

    A segment is dropped if all its records were stored before ``older_than_ms``, or if more than
    ``max_bytes`` would be kept. The last segment is always kept.
    """
    start, segments = log.start, log.segments
    for number, segment in enumerate(segments[:-1], 1):
        too_much = max_bytes is not None and segments[-1].end - segment.start > max_bytes
        if not too_much and not (older_than_ms is not None and _begins_before(log, segments[number:], older_than_ms)):
            break
        start = segment.end
    return start


def _begins_before(log: CommitLog, segments: list[Segment], time_ms: int) -> bool:
    """Whether the first readable record of ``segments`` was stored before ``time_ms``.

    Store times never fall, so this record bounds the age of the segment before.
    """
    for segment in segments:
        stamp = read_stamp(log, segment.start)
        if stamp is not None:
            return stamp.store_timestamp < time_ms
        for window in read_log(log, segment.start, min(segment.end, log.end), on_damage=lambda _error: None):
            return int(window.columns.header["store_timestamp"][0]) < time_ms
    return False


def start_offsets_after(
    log: CommitLog, log_start: int, on_damage: Callable[[CorruptStoreError], None]
) -> dict[QueueKey, int]:
    """Return the start offset of each queue after the log is cut at ``log_start``.

    Queues without a readable record before ``log_start`` are not included. Call
    ``on_damage(error)`` for each damaged record, which may have been the last of its queue.
    """
    start_offsets: dict[QueueKey, int] = {}
    for window in read_log(log, log.start, log_start, verify_crc=False, on_damage=on_damage):
        header = window.columns.header
        queues = header["topic_id"].astype(np.int64) << 32 | header["queue_id"].astype(np.int64)
        offsets = header["queue_offset"].astype(np.int64)
        order = np.argsort(queues, kind="stable")
        last = np.append(queues[order][1:] != queues[order][:-1], np.True_)
        for queue, offset in zip(queues[order][last].tolist(), offsets[order][last].tolist(), strict=True):
            key = QueueKey(queue >> 32, queue & 0xFFFFFFFF)
            start_offsets[key] = max(offset + 1, start_offsets.get(key, 0))
    return start_offsets


def crossing_record(state: State, log_start: int, start_offsets: dict[QueueKey, int], at: int) -> Control:
    """Build the control record that announces the cut at ``log_start``; ``at`` is now (ms).

    If ``log_start`` is 0, the queues lose messages, but the log keeps all its segments.
    """
    queues = [
        Queue(topic_id=key.topic_id, queue_id=key.queue_id, least=offset)
        for key, offset in sorted(start_offsets.items())
    ]
    losses, unarchived = _losses(state, start_offsets), _unarchived(state, start_offsets)
    crossed = RetentionCrossed(log_start=log_start, queues=queues, losses=losses, unarchived=unarchived, at=at)
    return Control(retention_crossed=crossed)


def _unarchived(state: State, start_offsets: dict[QueueKey, int]) -> Iterable[ArchiveLoss]:
    for key, first in state.unarchived():
        if first < start_offsets.get(key, 0):
            end = start_offsets[key]
            yield ArchiveLoss(topic_id=key.topic_id, queue_id=key.queue_id, from_offset=first, to_offset=end)


def _losses(state: State, start_offsets: dict[QueueKey, int]) -> Iterable[GroupLoss]:
    for each in sorted(unread(state, {key.topic_id for key in start_offsets})):
        end = start_offsets.get(each.key, 0)
        messages = count_unread(state, each, end)
        if messages:
            yield GroupLoss(
                group=each.group,
                topic_id=each.key.topic_id,
                queue_id=each.key.queue_id,
                from_offset=each.begin,
                to_offset=end,
                messages=messages,
            )
