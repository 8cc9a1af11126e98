"""Claims of sent records: the same by column as one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.admission.record_claims import queue_priorities, read_claims, read_plain_claims, read_uniform_claims
from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.format import native
from litemq.format.record_encode import RecordTemplate
from litemq.types import Durability
from support.callers import records

SENDS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 5),
        st.integers(0, 2),
        st.sampled_from(Durability),
        st.integers(1, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(SENDS)
def test_columns_and_single_reads_return_the_same_claims(
    sends: list[tuple[int, int, int, Durability, int, bool]],
) -> None:
    batches = [
        records(count, first=sequence, producer_id=producer, level=level, delay_time=1 if delayed else 0)
        for producer, sequence, _, level, count, delayed in sends
    ]
    queue_ids = [queue_id for _, _, queue_id, _, _, _ in sends]
    uniform = read_uniform_claims(bytearray().join(batches), list(map(len, batches)), 16, queue_ids)
    plain = all(count == 1 and not delayed for _, _, _, _, count, delayed in sends)
    if not plain or len({level for _, _, _, level, _, _ in sends}) > 1:
        assert uniform is None  # each is looked at by itself
        return
    assert uniform is not None
    assert uniform.level == sends[0][3]
    expected: list[tuple[tuple[int, int, int], int]] = []
    reached: dict[tuple[int, int, int], int] = {}
    for batch, queue_id in zip(batches, queue_ids, strict=True):
        producer_id, sequence, count, level, due = read_claims(batch)
        assert (count, level, due) == (1, uniform.level, 0)
        pair = (producer_id, 16, queue_id)
        if producer_id:
            if reached.get(pair) != sequence:  # begins, goes back, or leaves a gap
                expected.append((pair, sequence))
            reached[pair] = sequence + 1
    assert sorted(uniform.sequences) == sorted(expected)


@given(SENDS, st.none() | st.integers(0, 1 << 16))
def test_plain_claims_are_those_that_python_reads(
    sends: list[tuple[int, int, int, Durability, int, bool]], damage: int | None
) -> None:
    batch = bytearray().join(
        records(count, first=sequence, producer_id=producer, level=level, delay_time=1 if delayed else 0)
        for producer, sequence, _, level, count, delayed in sends
    )
    if damage is not None:
        batch[damage % len(batch)] ^= 0xFF
    plain = read_plain_claims(bytes(batch))
    before, native.enabled = native.enabled, False
    try:
        assert plain is None or plain == tuple(read_claims(bytes(batch)))
    finally:
        native.enabled = before


def test_invalid_records_have_no_uniform_claims() -> None:
    good = records(producer_id=1)
    for bad in (b"", b"x" * 200, good[:-8]):
        assert read_uniform_claims(bytearray(good + bad), [len(good), len(bad)], 16, [0, 0]) is None
        with pytest.raises(LiteMQError):
            read_claims(bad)


@pytest.mark.parametrize("count", [1, 3])
def test_a_priority_must_match_the_class_of_the_queue(count: int) -> None:
    def batch(priority: int) -> bytes:
        template = RecordTemplate("orders", priority=priority)
        return b"".join(template.encode(b"x", sequence=n) for n in range(count))

    for queue_id in range(16):
        priorities = queue_priorities(queue_id, has_priorities=True)
        for priority in (0, 31, 32, 128, 255):
            if priority // 32 == queue_id % 8:
                assert read_claims(batch(priority), priorities)[2] == count
            else:
                with pytest.raises(InvalidArgumentError, match="send to queue"):
                    read_claims(batch(priority), priorities)
    assert read_claims(batch(128))[2] == count
    with pytest.raises(InvalidArgumentError, match="has no priorities"):
        read_claims(batch(129))


def test_uniform_claims_check_the_class_of_the_queue() -> None:
    template = RecordTemplate("orders", priority=255)
    batches = [template.encode(b"x") for _ in range(3)]
    joined, sizes = bytearray().join(batches), list(map(len, batches))
    assert read_uniform_claims(joined, sizes, 16, [7, 15, 7], has_priorities=True) is not None
    assert read_uniform_claims(joined, sizes, 16, [7, 8, 7], has_priorities=True) is None
    assert read_uniform_claims(joined, sizes, 16, [7, 15, 7]) is None
