"""Who sent what: the loops in C, numpy and a plain walk over the records say the same."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.format import native
from litemq.format.batches.check import check_batch
from litemq.format.batches.producer_runs import Sent, Stretches, stretches_of, stretches_of_batch
from litemq.format.record_encode import encode_record
from litemq.types import Record

TIME = 1_700_000_000_000
NO_SEQUENCE = (1 << 63) - 1
Found = dict[tuple[int, int, int], list[tuple[int, list[int]]]]


def _by_pair(found: Stretches) -> Found:
    """Of each pair its stretches, those joined that may be cut or not: the sequence behind the last record, and the runs."""
    by_pair: Found = {}
    ends = [0, *(end for _, _, end in found.stretches)]
    assert ends[-1] == len(found.table)
    for (pair, following, _), (begin, end) in zip(found.stretches, pairwise(ends), strict=True):
        runs = found.table[begin:end].tolist()
        stretches = by_pair.setdefault(pair, [])
        if stretches and stretches[-1][0] == runs[0] and runs[2] == TIME:
            before = stretches.pop()[1]
            goes_on = runs[1] - before[-2] == runs[0] - before[-3]
            runs = before + (runs[3:] if goes_on else runs)
        stretches.append((following, runs))
    return by_pair


def _walked(records: list[tuple[int, int, int, int]]) -> Found:
    by_pair: Found = {}
    latest: dict[tuple[int, int, int], int] = {}
    for producer_id, sequence, queue_id, offset in records:
        if producer_id == 0 or sequence >= NO_SEQUENCE:
            continue
        pair = (producer_id, 16, queue_id)
        stretches = by_pair.setdefault(pair, [])
        if stretches and stretches[-1][0] == sequence:
            runs = stretches[-1][1]
            stretches[-1] = sequence + 1, runs if latest[pair] + 1 == offset else [*runs, sequence, offset, TIME]
        else:
            stretches.append((sequence + 1, [sequence, offset, TIME]))
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
def test_all_say_the_same(records: list[tuple[int, int, int, int]], one_queue: bool) -> None:
    if one_queue:
        records = [(*record[:2], 1, offset) for offset, record in enumerate(records)]
    expected = _walked(records)
    producer_ids, sequences, queues, offsets = _columns(records)
    buffer = b"".join(encode_record(Record("orders", b"x", producer_id=p, sequence=s)) for p, s, _, _ in records)
    columns = check_batch(buffer)
    queue_ids = 1 if one_queue else queues.astype(np.int64)
    queue_offsets = offsets.astype(np.int64)
    by_numpy = stretches_of(Sent(producer_ids, sequences.astype(np.int64), 16, queue_ids, queue_offsets, TIME))
    assert _by_pair(by_numpy) == expected
    window = stretches_of(
        Sent(
            producer_ids,
            sequences.astype(np.int64),
            np.full(len(records), 16),
            queues.astype(np.int64),
            queue_offsets,
            np.full(len(records), TIME),
        )
    )
    assert _by_pair(window) == expected
    assert _by_pair(stretches_of_batch(columns, 16, queue_ids, queue_offsets, TIME)) == expected


def test_a_stretch_ends_where_too_much_time_passed() -> None:
    ones = np.ones(4, np.uint64)
    sent = Sent(ones, np.arange(4), 16, 0, np.arange(4), np.array([0, 5, 16, 16]))
    assert _by_pair(stretches_of(sent, apart_ms=10)) == {(1, 16, 0): [(2, [0, 0, 0, 1, 1, 5]), (4, [2, 2, 16])]}
    assert _by_pair(stretches_of(sent)) == {(1, 16, 0): [(4, [0, 0, 0, 1, 1, 5, 2, 2, 16])]}


@pytest.mark.skipif(not native.enabled, reason="the extension was not built, or LITEMQ_PURE is set")
def test_the_loop_in_c_gives_no_verdict_where_it_is_not_sure() -> None:
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
    assert native.loops.stretches(encode_record(Record("orders", b"x")), starts[:1], 16, numbers, numbers, TIME) == ([], b"")


@pytest.mark.skipif(not native.enabled, reason="the extension was not built, or LITEMQ_PURE is set")
def test_producers_that_collide_on_purpose_do_not_keep_the_loop_busy() -> None:
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    ids = [((n << 60 | n >> 4) * inverse) % (1 << 64) for n in range(1, 3000)]  # all in the first slots of the table
    buffer = b"".join(encode_record(Record("orders", b"", "m", producer_id=p)) for p in ids)
    columns = check_batch(buffer)
    offsets = np.arange(len(ids))
    assert native.loops.stretches(buffer, columns.starts, 16, 0, offsets, TIME) is None
    assert len(stretches_of_batch(columns, 16, 0, offsets, TIME).stretches) == len(ids)
