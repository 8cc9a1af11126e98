"""Alarms: never early, all due keys together, and errors of one callback do not affect others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.runtime import alarms as module
from litemq.broker.runtime.alarms import Alarms
from litemq.clock import FakeClock, SystemClock
from support.waiting import HANG_S


def _run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_key_rings_when_it_is_due_and_not_before() -> None:
    async def main() -> None:
        clock = FakeClock()
        alarms = Alarms(clock)
        rung: list[str] = []
        now = clock.wall_ms()
        alarms.at(now + 25, rung.extend, "b")
        alarms.at(now + 11, rung.extend, "a")
        alarms.at(now - 5, rung.extend, "past")
        assert (len(alarms), alarms.ring_due(), rung) == (3, 1, ["past"])
        clock.advance(0.014)
        assert alarms.ring_due() == 0
        clock.advance(0.001)
        assert (alarms.ring_due(), rung) == (1, ["past", "a"])
        clock.advance(100)
        assert (alarms.ring_due(), rung, len(alarms)) == (1, ["past", "a", "b"], 0)
        alarms.close()

    _run(main)


def test_keys_of_one_ring_come_together_in_order() -> None:
    async def main() -> None:
        clock = FakeClock()
        alarms = Alarms(clock)
        rings: list[tuple[str, list[int]]] = []

        def mine(keys: list[int]) -> None:
            rings.append(("mine", keys))

        def others(keys: list[int]) -> None:
            rings.append(("others", keys))

        for number in (3, 1, 2):
            alarms.at(clock.wall_ms() + number * 100, mine, number)
        alarms.at(clock.wall_ms() + 150, others, 9)
        clock.advance(1)
        assert alarms.ring_due() == 4
        assert rings == [("mine", [1, 2, 3]), ("others", [9])]
        alarms.close()

    _run(main)


def test_a_failing_callback_is_logged_and_the_others_ring(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = FakeClock()
        alarms = Alarms(clock)
        rung: list[int] = []

        def fail(_keys: list[int]) -> None:
            raise RuntimeError("no")

        alarms.at(clock.wall_ms(), fail, 1)
        alarms.at(clock.wall_ms(), rung.extend, 2)
        with caplog.at_level(logging.CRITICAL, "litemq"):
            assert alarms.ring_due() == 2
        assert rung == [2]
        alarms.close()

    _run(main)


def test_the_loop_rings_alarms_and_a_callback_may_set_the_next() -> None:
    async def main() -> None:
        clock = SystemClock()
        alarms = Alarms(clock)
        done = asyncio.Event()
        times: list[tuple[int, int]] = []

        def ring(dues: list[int]) -> None:
            times.extend((due, clock.wall_ms()) for due in dues)
            if len(times) < 5:
                due = clock.wall_ms() + 15
                alarms.at(due, ring, due)
            else:
                done.set()

        far, near = clock.wall_ms() + 3_600_000, clock.wall_ms() + 30
        alarms.at(far, ring, far)
        alarms.at(near, ring, near)
        async with asyncio.timeout(HANG_S):
            await done.wait()
        assert all(due <= at for due, at in times)
        assert len(alarms) == 1
        alarms.close()
        assert len(alarms) == 0

    _run(main)


def test_a_moved_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(module, "_MAX_SLEEP_MS", 250)
        clock = FakeClock()
        alarms = Alarms(clock)
        rung = asyncio.Event()
        alarms.at(clock.wall_ms() + 3_600_000, lambda _keys: rung.set(), None)
        clock.advance(3600)
        async with asyncio.timeout(HANG_S):
            await rung.wait()
        alarms.close()

    _run(main)


def test_a_distant_alarm_wakes_the_loop_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        clock = FakeClock()
        alarms = Alarms(clock)
        sleeps: list[float] = []
        monkeypatch.setattr(alarms, "_loop", _Recording(sleeps))
        for due_ms in (3_600_000, 16_000, 1_000, 100):
            alarms.at(clock.wall_ms() + due_ms, lambda _keys: None, None)
        assert sleeps == [5.0, 2.0, 0.25, 0.1]

    _run(main)


class _Recording:
    """A loop that records for how long it is to sleep."""

    def __init__(self, sleeps: list[float]) -> None:
        self._sleeps = sleeps

    def call_later(self, seconds: float, _call: object) -> _Recording:
        self._sleeps.append(round(seconds, 2))
        return self

    def cancel(self) -> None:
        """Do nothing: no call follows."""


@given(st.lists(st.tuples(st.integers(-50, 500), st.integers(0, 200)), max_size=30))
def test_never_early_and_never_more_than_a_slot_late(steps: list[tuple[int, int]]) -> None:
    async def main() -> None:
        clock = FakeClock()
        alarms = Alarms(clock)
        waiting: set[tuple[int, int]] = set()
        early: list[tuple[int, int]] = []

        def ring(keys: list[tuple[int, int]]) -> None:
            early.extend(key for key in keys if key[0] > clock.wall_ms())
            waiting.difference_update(keys)

        for number, (delay, wait) in enumerate(steps):
            key = (clock.wall_ms() + delay, number)
            waiting.add(key)
            alarms.at(key[0], ring, key)
            clock.advance(wait / 1000)
            alarms.ring_due()
            assert not early
            assert all(due > clock.wall_ms() - 10 for due, _ in waiting)
        alarms.close()

    _run(main)
