"""The clock of a log, beside a wall clock that is set and records that others wrote."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.clock import FakeClock
from litemq.storage.log.log_clock import LogClock

HOUR = 3600


class Log:
    """A log with the time of its last record, and its clock."""

    def __init__(self) -> None:
        self.wall = FakeClock()
        self.last_ms = 0
        self.clock = LogClock(self.wall, lambda: self.last_ms)

    @property
    def ahead_ms(self) -> int:
        return self.clock.wall_ms() - self.wall.wall_ms()


def test_without_steps_it_is_the_wall_clock() -> None:
    log = Log()
    for seconds in (0.0, 0.0004, 0.001, 1.5, 3600.0):
        log.wall.advance(seconds)
        assert (log.ahead_ms, log.clock.elapsed_ns()) == (0, log.wall.elapsed_ns())


def test_after_a_record_from_the_future_it_goes_on_from_there_and_more_slowly() -> None:
    log = Log()
    log.last_ms = log.wall.wall_ms() + HOUR * 1000
    assert log.ahead_ms == HOUR * 1000
    log.wall.advance(HOUR)
    assert log.ahead_ms == HOUR * 900
    log.wall.advance(10 * HOUR)
    assert log.ahead_ms == 0


def test_a_step_back_of_the_wall_clock_does_not_set_it_back() -> None:
    log = Log()
    before = log.clock.wall_ms()
    log.wall.step_wall(-HOUR)
    assert log.clock.wall_ms() == before
    log.wall.advance(10)
    assert log.clock.wall_ms() == before + 9_000


@given(st.lists(st.tuples(st.sampled_from(["advance", "step", "record"]), st.floats(-5000, 5000)), max_size=40))
def test_it_never_falls_and_is_behind_neither_the_wall_clock_nor_the_log(moves: list[tuple[str, float]]) -> None:
    log = Log()
    latest = log.clock.wall_ms()
    for kind, seconds in moves:
        if kind == "advance":
            log.wall.advance(abs(seconds))
        elif kind == "step":
            log.wall.step_wall(seconds)
        else:
            log.last_ms = max(log.last_ms, log.wall.wall_ms() + round(seconds * 1000))
        now = log.clock.wall_ms()
        assert now >= max(latest, log.wall.wall_ms(), log.last_ms)
        latest = now
