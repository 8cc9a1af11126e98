"""Never more than so many a second, and as many as that."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.runtime.throttle import Pace


@given(st.integers(1, 5_000), st.lists(st.tuples(st.integers(0, 500), st.integers(-50_000_000, 400_000_000)), max_size=60))
def test_never_faster_than_said(per_second: int, steps: list[tuple[int, int]]) -> None:
    pace, now, passed, taken = Pace(per_second, 1_000), 1_000, 0, 0
    for wanted, step in steps:
        now += step
        passed += max(0, step)
        took = pace.take(wanted, now)
        assert 0 <= took <= wanted
        taken += took
        assert taken <= max(1, per_second // 10) + passed * per_second / 1_000_000_000 + 1e-6


def test_waiting_as_long_as_it_says_is_enough() -> None:
    pace, now = Pace(100, 0), 0
    taken = 0
    for _ in range(500):
        taken += pace.take(1_000, now)
        now += int(pace.wait_seconds * 1e9) + 1
    assert 490 <= taken - 10 <= 501
    assert 4.8e9 <= now <= 5.1e9


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(0, 0)
    assert pace.take(1_000_000, 0) == 1_000_000
    assert pace.wait_seconds == 0
