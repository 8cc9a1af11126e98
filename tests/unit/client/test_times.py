"""Durations and times, as callers give them."""

from datetime import UTC, datetime, timedelta

import pytest

from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError


def test_durations_and_moments() -> None:
    assert seconds(timedelta(minutes=1), "wait") == 60.0
    assert seconds(2, "wait") == 2.0
    assert to_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "start") == 1000
    assert to_ms(datetime(2026, 11, 15, 12, 0, 0, 1, tzinfo=UTC), "deliver_at") % 1000 == 1  # rather late than early
    for wrong in (-1, float("nan"), "5", True):
        with pytest.raises(InvalidArgumentError, match="wait="):
            seconds(wrong, "wait")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="time zone"):
        to_ms(datetime(2030, 1, 1), "start")  # noqa: DTZ001
