"""Snapshots and crossings count once they are confirmed."""

from __future__ import annotations

from litemq.proto.control_pb2 import Control, Queue, RetentionCrossed, SnapshotEnd
from litemq.storage.log_marks import LogMarks, Mark
from litemq.storage.state import QueueKey


def _crossing(log_start: int) -> Control:
    return Control(
        retention_crossed=RetentionCrossed(log_start=log_start, queues=[Queue(topic_id=16, queue_id=1, least=9)])
    )


def _snapshot(begin: int) -> Control:
    return Control(snapshot_end=SnapshotEnd(begin_offset=begin))


def test_a_mark_waits_for_its_confirmation() -> None:
    marks = LogMarks()
    marks.note(_snapshot(100), 150, 160)
    assert marks.take(159) == []
    assert marks.take(160) == [Mark(160, 100, 0, {})]
    assert marks.take(160) == []


def test_a_crossing_counts_with_the_next_snapshot() -> None:
    marks = LogMarks()
    marks.note(_crossing(64), 100, 110)
    marks.note(_snapshot(120), 150, 160)
    marks.note(_snapshot(170), 180, 190)
    assert marks.take(200) == [Mark(160, 120, 64, {QueueKey(16, 1): 9}), Mark(190, 170, 0, {})]


def test_a_snapshot_that_was_begun_before_the_crossing_does_not_count() -> None:
    marks = LogMarks()
    marks.note(_crossing(64), 100, 110)
    marks.note(_snapshot(90), 150, 160)
    marks.note(_snapshot(170), 180, 190)
    assert [mark.log_start for mark in marks.take(200)] == [0, 64]


def test_an_expiry_by_topic_drops_no_segment() -> None:
    marks = LogMarks()
    marks.note(_crossing(0), 100, 110)
    marks.note(_snapshot(120), 150, 160)
    assert marks.take(160) == [Mark(160, 120, 0, {})]


def test_a_crossing_is_pending_until_its_snapshot_is_confirmed() -> None:
    marks = LogMarks()
    marks.note(_crossing(64), 100, 110)
    assert marks.pending_start == 0  # without a snapshot, it never takes effect
    marks.note(_snapshot(120), 150, 160)
    assert marks.pending_start == 64
    marks.take(160)
    assert marks.pending_start == 0
