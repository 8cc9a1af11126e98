"""A throttle never exceeds its rate, and reaches it."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.runtime.throttle import Throttle


@given(
    st.integers(1, 5_000),
    st.integers(1, 500),
    st.lists(st.tuples(st.integers(0, 500), st.integers(-50_000_000, 400_000_000)), max_size=60),
)
def test_never_more_than_the_burst_and_the_rate(per_second: int, burst: int, steps: list[tuple[int, int]]) -> None:
    throttle, now, passed, taken = Throttle(per_second, burst, 1_000), 1_000, 0, 0
    for wanted, step in steps:
        now += step
        passed += max(0, step)
        took = throttle.take(wanted, now)
        assert 0 <= took <= wanted
        taken += took
        assert taken <= burst + passed * per_second / 1_000_000_000 + 1e-6


def test_the_time_to_wait_is_enough() -> None:
    throttle, now = Throttle(100, 10, 0), 0
    taken = 0
    for _ in range(500):
        taken += throttle.take(1_000, now)
        now += int(throttle.wait_seconds(1, now) * 1e9) + 1
    assert 490 <= taken - 10 <= 501
    assert 4.8e9 <= now <= 5.1e9


def test_tokens_below_zero_are_waited_for() -> None:
    throttle = Throttle(10, 10, 0)
    assert throttle.wait_seconds(0, 0) == 0
    throttle.tokens -= 30
    assert throttle.wait_seconds(0, 0) == 2
    assert throttle.wait_seconds(0, 1_500_000_000) == 0.5
    assert throttle.wait_seconds(0, 2_000_000_000) == 0
    assert throttle.take(1, 2_000_000_000) == 0
    assert throttle.take(1, 2_100_000_000) == 1


def test_without_a_rate_nothing_waits() -> None:
    throttle = Throttle(0, 0, 0)
    assert throttle.take(1_000_000, 0) == 1_000_000
    throttle.tokens -= 5
    assert throttle.wait_seconds(1, 0) == 0
