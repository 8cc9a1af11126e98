"""Intervals: the ticks of a schedule, and durations as text."""

import pytest

from litemq.errors import CronSyntaxError
from litemq.schedules.intervals import EverySchedule, duration_ms


def test_every() -> None:
    schedule = EverySchedule(90_000, 1_000)
    assert [schedule.next(after) for after in (0, 999, 1_000, 90_999, 91_000)] == [
        1_000,
        1_000,
        91_000,
        91_000,
        181_000,
    ]
    assert (duration_ms("@every 90s"), duration_ms("@every 1h30m"), duration_ms("1.5m"), duration_ms("2d")) == (
        90_000,
        5_400_000,
        90_000,
        172_800_000,
    )
    for text in ("@every", "@every 5", "@every 5x", "0.5s", "@every 5m!", "400d"):
        with pytest.raises(CronSyntaxError):
            duration_ms(text)
