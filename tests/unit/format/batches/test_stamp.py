"""Stamping a batch agrees with the scalar codec; queue entries have golden bytes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format.batches.check import check_batch, find_faults
from litemq.format.batches.stamp import group_by_queue, queue_entries, single_queue_run, stamp_batch
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record, stamp_record
from litemq.types import Record, RecordKind, Stamp
from support.records import RECORDS, STAMPS


@given(st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=10))
def test_stamp_batch_agrees_with_the_scalar_codec(batch: list[tuple[Record, Stamp]]) -> None:
    time, epoch = batch[0][1].store_timestamp, batch[0][1].epoch
    stamps = [stamp._replace(store_timestamp=time, epoch=epoch) for _, stamp in batch]
    buffer = bytearray(b"".join(encode_record(record) for record, _ in batch))
    columns = check_batch(buffer)
    expected = bytearray(buffer)
    for start, stamp in zip(columns.starts.tolist(), stamps, strict=True):
        stamp_record(expected, start, stamp)
    stamp_batch(
        columns,
        commitlog_offsets=np.array([stamp.commitlog_offset for stamp in stamps]),
        queue_offsets=np.array([stamp.queue_offset for stamp in stamps]),
        topic_ids=np.array([stamp.topic_id for stamp in stamps]),
        queue_ids=np.array([stamp.queue_id for stamp in stamps]),
        store_timestamp=time,
        epoch=epoch,
        kinds=np.array([int(stamp.kind) for stamp in stamps]),
        origins=np.array([stamp.origin for stamp in stamps]),
        consume_counts=np.array([stamp.consume_count for stamp in stamps]),
    )
    assert buffer == expected
    assert find_faults(RecordColumns(buffer, columns.starts)).size == 0


def test_one_value_for_all() -> None:
    buffer = bytearray(encode_record(Record("orders", b"a")) * 3)
    columns = check_batch(buffer)
    stamp_batch(
        columns,
        commitlog_offsets=columns.starts + 1000,
        queue_offsets=np.array([7, 8, 9]),
        topic_ids=3,
        queue_ids=0xFFFFFFFF,
        store_timestamp=5,
        epoch=0xFFFFFFFF,
        kinds=RecordKind.CONTROL,
        consume_counts=65535,
    )
    assert [decode_record(buffer, start).stamp for start in columns.starts.tolist()] == [
        Stamp(1000 + start, 7 + n, 5, -1, 3, 0xFFFFFFFF, 0xFFFFFFFF, RecordKind.CONTROL, 65535)
        for n, start in enumerate(columns.starts.tolist())
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"queue_ids": 1 << 40},
        {"queue_ids": np.array([1 << 33] * 3)},
        {"queue_ids": np.array([-1, 0, 0])},
        {"queue_ids": np.array([0, 0])},
        {"kinds": np.array([1, 2, 3], np.uint8)},
        {"kinds": 9},
        {"origins": -5},
        {"origins": np.array([0.5] * 3)},
        {"epoch": 1.5},
        {"consume_counts": 70_000},
        {"commitlog_offsets": np.array([-8, 0, 8])},
        {"store_timestamp": -1},
    ],
)
def test_invalid_values_are_refused(change: dict[str, Any]) -> None:
    buffer = bytearray(encode_record(Record("orders")) * 3)
    columns, before = check_batch(buffer), bytes(buffer)
    good: dict[str, Any] = {
        "commitlog_offsets": columns.starts,
        "queue_offsets": np.arange(3),
        "topic_ids": 1,
        "queue_ids": 0,
        "store_timestamp": 0,
        "epoch": 1,
    }
    with pytest.raises(InvalidArgumentError):
        stamp_batch(columns, **good | change)
    assert buffer == before
    with pytest.raises(InvalidArgumentError, match="bytearray"):
        stamp_batch(check_batch(before), **good)


def test_queues_are_distinguished_by_topic_and_queue_id() -> None:
    for kind in (">u4", np.int32, np.uint32, np.int64):
        runs = group_by_queue(np.array([1, 2, 1], kind), np.zeros(3, kind))
        assert runs.topic_ids.tolist() == [1, 2]


def test_nothing_to_stamp() -> None:
    columns = check_batch(bytearray())
    none = np.empty(0, np.int64)
    stamp_batch(
        columns, commitlog_offsets=none, queue_offsets=none, topic_ids=1, queue_ids=1, store_timestamp=0, epoch=0
    )
    assert queue_entries(columns, group_by_queue(none, none), commitlog_offsets=none, store_timestamps=0).size == 0


def test_golden_queue_entry() -> None:
    columns = check_batch(encode_record(Record("orders", b"x" * 10, tags=("paid",))))
    entry = queue_entries(
        columns, single_queue_run(1, 0, 1), commitlog_offsets=np.array([4096]), store_timestamps=1_700_000_000_456
    )
    assert entry.tobytes() == b"".join(
        [
            (4096).to_bytes(8, "big"),  # log offset
            (168).to_bytes(4, "big"),  # size: 144 + 6 + 6 + 10 = 166, and 2 of padding
            columns.header["tag_hash"].astype(">u4").tobytes(),  # tag hash
            (1_700_000_000_456).to_bytes(8, "big"),  # store timestamp
        ]
    )
    assert entry.nbytes == 24


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30))
def test_records_are_grouped_by_queue_in_their_order(placed: list[tuple[int, int]]) -> None:
    topics, queues = (np.array([place[i] for place in placed], np.int64) for i in (0, 1))
    runs = group_by_queue(topics, queues)
    found = {
        (int(topic), int(queue)): runs.order[begin:end].tolist()
        for topic, queue, begin, end in zip(
            runs.topic_ids, runs.queue_ids, runs.bounds[:-1], runs.bounds[1:], strict=True
        )
    }
    expected: dict[tuple[int, int], list[int]] = {}
    for number, place in enumerate(placed):
        expected.setdefault(place, []).append(number)
    assert found == expected
    next_offsets = np.arange(len(found)) * 100
    offsets = runs.offsets_from(next_offsets)
    for group, members in enumerate(found.values()):
        assert offsets[members].tolist() == [100 * group + n for n in range(len(members))]


def test_entries_follow_the_groups() -> None:
    buffer = b"".join(encode_record(Record("orders", bytes(n))) for n in range(4))
    columns = check_batch(buffer)
    runs = group_by_queue(np.array([1, 2, 1, 2]), np.array([0, 0, 0, 0]))
    entries = queue_entries(columns, runs, commitlog_offsets=np.array([10, 20, 30, 40]), store_timestamps=0)
    assert entries["log_offset"].tolist() == [10, 30, 20, 40]
