"""Clocks: ``FakeClock`` moves only by its methods, ``SystemClock`` agrees with the host."""

import time

import pytest

from litemq.clock import Clock, FakeClock, SystemClock


def test_fake_clock_moves_only_by_advance() -> None:
    clock = FakeClock(wall_ms=1_000)
    assert (clock.wall_ms(), clock.elapsed_ns()) == (1_000, 0)
    clock.advance(1.5)
    assert (clock.wall_ms(), clock.elapsed_ns()) == (2_500, 1_500_000_000)


def test_a_step_of_the_wall_clock_is_not_time() -> None:
    clock = FakeClock(wall_ms=10_000)
    clock.step_wall(-5)
    assert (clock.wall_ms(), clock.elapsed_ns()) == (5_000, 0)
    clock.step_wall(3600)
    assert (clock.wall_ms(), clock.elapsed_ns()) == (3_605_000, 0)


def test_fractions_of_a_millisecond_add_up() -> None:
    clock = FakeClock(wall_ms=0)
    for _ in range(10):
        clock.advance(0.0001)
    assert clock.wall_ms() == 1


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="step_wall"):
        FakeClock().advance(-1)


def test_system_clock_agrees_with_the_host() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns() // 1_000_000
    now = clock.wall_ms()
    assert before <= now <= time.time_ns() // 1_000_000
    first = clock.elapsed_ns()
    assert clock.elapsed_ns() >= first
