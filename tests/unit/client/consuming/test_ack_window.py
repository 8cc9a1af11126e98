"""The ack window: all offsets below the first unacknowledged message may be committed."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.client.consuming.ack_window import AckWindow


@given(st.permutations(range(12)), st.integers(0, 12))
def test_done_is_where_the_first_gap_is(order: list[int], count: int) -> None:
    acks = AckWindow(0)
    for offset in order[:count]:
        acks.ack(offset)
        acks.ack(offset)  # once more changes nothing
    acked = set(order[:count])
    assert acks.done == next(offset for offset in range(13) if offset not in acked)
    assert acks.needs_commit() is (acks.done > 0)


def test_what_is_gone_counts_as_done() -> None:
    acks = AckWindow(5)
    assert not acks.needs_commit()
    acks.ack(8)
    acks.ack(3)
    acks.skip_to(8)
    assert acks.done == 9
    acks.skip_to(2)
    assert acks.done == 9


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.booleans()), max_size=8))
def test_a_run_is_as_many_single_acks(changes: list[tuple[int, int, bool]]) -> None:
    one, other = AckWindow(3), AckWindow(3)
    for offset, count, skipped in changes:
        if skipped:
            one.skip_range(offset, offset + count)
            other.skip_range(offset, offset + count)
        else:
            one.ack_run(offset, count)
            for each in range(offset, offset + count):
                other.ack(each)
        assert one.done == other.done
        assert [one.is_done(each) for each in range(20)] == [other.is_done(each) for each in range(20)]
