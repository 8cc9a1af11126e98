"""Producer runs: the C loop, numpy and a plain loop over the records agree."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.format import native
from litemq.format.batches.check import check_batch
from litemq.format.batches.producer_runs import (
    ProducerColumns,
    ProducerRuns,
    find_batch_producer_runs,
    find_producer_runs,
)
from litemq.format.record_encode import encode_record
from litemq.types import Record

TIME = 1_700_000_000_000
NO_SEQUENCE = (1 << 63) - 1
Found = dict[tuple[int, int, int], list[tuple[int, list[int]]]]


def _by_pair(found: ProducerRuns) -> Found:
    """Return the runs of each pair, merged: the next sequence and the spans."""
    by_pair: Found = {}
    ends = [0, *(end for _, _, end in found.runs)]
    assert ends[-1] == len(found.table)
    for (pair, next_sequence, _), (begin, end) in zip(found.runs, pairwise(ends), strict=True):
        spans = found.table[begin:end].tolist()
        pair_runs = by_pair.setdefault(pair, [])
        if pair_runs and pair_runs[-1][0] == spans[0] and spans[2] == TIME:
            before = pair_runs.pop()[1]
            goes_on = spans[1] - before[-2] == spans[0] - before[-3]
            spans = before + (spans[3:] if goes_on else spans)
        pair_runs.append((next_sequence, spans))
    return by_pair


def _walked(records: list[tuple[int, int, int, int]]) -> Found:
    by_pair: Found = {}
    latest: dict[tuple[int, int, int], int] = {}
    for producer_id, sequence, queue_id, offset in records:
        if producer_id == 0 or sequence >= NO_SEQUENCE:
            continue
        pair = (producer_id, 16, queue_id)
        pair_runs = by_pair.setdefault(pair, [])
        if pair_runs and pair_runs[-1][0] == sequence:
            spans = pair_runs[-1][1]
            pair_runs[-1] = sequence + 1, spans if latest[pair] + 1 == offset else [*spans, sequence, offset, TIME]
        else:
            pair_runs.append((sequence + 1, [sequence, offset, TIME]))
        latest[pair] = offset
    return by_pair


@st.composite
def _records(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    producer_ids = [*draw(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=4)), 0]
    nexts: dict[tuple[int, int], int] = {}
    offsets: dict[int, int] = {}
    records = []
    for _ in range(draw(st.integers(1, 60))):
        pair = draw(st.sampled_from(producer_ids)), draw(st.integers(0, 2))
        nexts[pair] = nexts.get(pair, draw(st.sampled_from([0, 0, 5, NO_SEQUENCE - 1, (1 << 64) - 3]))) + draw(
            st.sampled_from([0, 0, 0, 0, 0, 2])
        )
        offsets[pair[1]] = offsets.get(pair[1], 0) + draw(st.sampled_from([1, 1, 1, 1, 4]))
        records.append((pair[0], nexts[pair] % (1 << 64), pair[1], offsets[pair[1]]))
        nexts[pair] += 1
    return records


def _columns(records: list[tuple[int, int, int, int]]) -> tuple[npt.NDArray[np.uint64], ...]:
    return tuple(np.array(column, np.uint64) for column in zip(*records, strict=True))


@given(_records(), st.booleans())
def test_all_implementations_agree(records: list[tuple[int, int, int, int]], one_queue: bool) -> None:
    if one_queue:
        records = [(*record[:2], 1, offset) for offset, record in enumerate(records)]
    expected = _walked(records)
    producer_ids, sequences, queues, offsets = _columns(records)
    buffer = b"".join(encode_record(Record("orders", b"x", producer_id=p, sequence=s)) for p, s, _, _ in records)
    columns = check_batch(buffer)
    queue_ids = 1 if one_queue else queues.astype(np.int64)
    queue_offsets = offsets.astype(np.int64)
    by_numpy = find_producer_runs(
        ProducerColumns(producer_ids, sequences.astype(np.int64), 16, queue_ids, queue_offsets, TIME)
    )
    assert _by_pair(by_numpy) == expected
    window = find_producer_runs(
        ProducerColumns(
            producer_ids,
            sequences.astype(np.int64),
            np.full(len(records), 16),
            queues.astype(np.int64),
            queue_offsets,
            np.full(len(records), TIME),
        )
    )
    assert _by_pair(window) == expected
    assert _by_pair(find_batch_producer_runs(columns, 16, queue_ids, queue_offsets, TIME)) == expected


def test_a_run_ends_after_a_long_gap() -> None:
    ones = np.ones(4, np.uint64)
    sent = ProducerColumns(ones, np.arange(4), 16, 0, np.arange(4), np.array([0, 5, 16, 16]))
    assert _by_pair(find_producer_runs(sent, apart_ms=10)) == {(1, 16, 0): [(2, [0, 0, 0, 1, 1, 5]), (4, [2, 2, 16])]}
    assert _by_pair(find_producer_runs(sent)) == {(1, 16, 0): [(4, [0, 0, 0, 1, 1, 5, 2, 2, 16])]}


@pytest.mark.skipif(not native.enabled, reason="the extension was not built, or LITEMQ_PURE is set")
def test_the_c_loop_gives_no_verdict_if_in_doubt() -> None:
    record = encode_record(Record("orders", b"x", producer_id=7, sequence=1))
    two, starts, numbers = record * 2, np.array([0, len(record)]), np.array([0, 1])
    found = native.loops.stretches(two, starts, 16, numbers, numbers, TIME)
    assert found is not None
    assert found[0] == [((7, 16, 0), 2, 3), ((7, 16, 1), 2, 6)]
    for wrong in (np.array([0, 2 * len(record)]), np.array([-8, 0]), np.array([0, 1 << 62])):
        assert native.loops.stretches(two, wrong, 16, numbers, numbers, TIME) is None
    for queue_ids in (np.array([0]), -1, 1 << 32, 1 << 70, np.array([0, -1]), None):
        assert native.loops.stretches(two, starts, 16, queue_ids, numbers, TIME) is None  # type: ignore[arg-type]
        assert native.loops.stretches(two, starts, 16, numbers, np.array([0]), TIME) is None
    assert native.loops.stretches(encode_record(Record("orders", b"x")), starts[:1], 16, numbers, numbers, TIME) == (
        [],
        b"",
    )


@pytest.mark.skipif(not native.enabled, reason="the extension was not built, or LITEMQ_PURE is set")
def test_deliberate_collisions_do_not_slow_down_the_loop() -> None:
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    ids = [((n << 60 | n >> 4) * inverse) % (1 << 64) for n in range(1, 3000)]  # all in the first slots of the table
    buffer = b"".join(encode_record(Record("orders", b"", "m", producer_id=p)) for p in ids)
    columns = check_batch(buffer)
    offsets = np.arange(len(ids))
    assert native.loops.stretches(buffer, columns.starts, 16, 0, offsets, TIME) is None
    assert len(find_batch_producer_runs(columns, 16, 0, offsets, TIME).runs) == len(ids)
