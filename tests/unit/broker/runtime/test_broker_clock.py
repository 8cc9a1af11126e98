"""The broker's clock while the wall clock is set forward and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def time(clock: FakeClock) -> BrokerClock:
    return BrokerClock(clock)


def test_time_passes(clock: FakeClock, time: BrokerClock) -> None:
    for seconds in (0.0, 0.001, 1.5, 3600.0):
        clock.advance(seconds)
        assert (time.wall_ms(), time.elapsed_ns()) == (clock.wall_ms(), clock.elapsed_ns())


def test_a_step_forward_counts_after_a_minute(clock: FakeClock, time: BrokerClock) -> None:
    begin = time.wall_ms()
    clock.step_wall(3600)
    assert time.wall_ms() == begin
    clock.advance(59)
    assert time.wall_ms() == begin + 59_000
    clock.advance(1)
    assert time.wall_ms() == clock.wall_ms() == begin + 3_660_000


def test_a_corrected_step_has_no_effect(clock: FakeClock, time: BrokerClock) -> None:
    begin = time.wall_ms()
    clock.step_wall(3600)
    for _ in range(59):
        clock.advance(1)
        time.wall_ms()
    clock.step_wall(-3600)
    time.wall_ms()
    clock.step_wall(3600)
    for second in range(60, 118):
        clock.advance(1)
        assert time.wall_ms() == begin + second * 1000


def test_only_the_smallest_lead_counts(clock: FakeClock, time: BrokerClock) -> None:
    begin = time.wall_ms()
    clock.step_wall(10)
    time.wall_ms()
    clock.advance(59)
    clock.step_wall(3600)
    time.wall_ms()
    clock.advance(1)
    assert time.wall_ms() == begin + 60_000 + 10_000
    clock.advance(59)
    time.wall_ms()
    clock.advance(1)
    time.wall_ms()
    clock.advance(60)
    assert time.wall_ms() == clock.wall_ms()


def test_after_a_step_back_the_clock_runs_slower(clock: FakeClock, time: BrokerClock) -> None:
    begin = time.wall_ms()
    clock.step_wall(-60)
    assert time.wall_ms() == begin
    clock.advance(10)
    assert time.wall_ms() == begin + 9_000
    for _ in range(600):
        clock.advance(1)
        time.wall_ms()
    assert abs(time.wall_ms() - clock.wall_ms()) <= 2


@given(st.lists(st.tuples(st.sampled_from(["advance", "step"]), st.floats(-5000, 5000)), max_size=40))
def test_it_never_falls_and_never_runs_ahead_of_both_clocks(moves: list[tuple[str, float]]) -> None:
    clock = FakeClock()
    time = BrokerClock(clock)
    latest = time.wall_ms()
    furthest = latest  # any wall time that there was, gone on from there
    for kind, seconds in moves:
        if kind == "advance":
            clock.advance(abs(seconds))
            furthest += round(abs(seconds) * 1000) + 1
        else:
            clock.step_wall(seconds)
        furthest = max(furthest, clock.wall_ms())
        now = time.wall_ms()
        assert latest <= now <= furthest
        latest = now
