"""Moments and durations, as callers give them."""

from __future__ import annotations

from datetime import datetime, timedelta

from litemq.errors import InvalidArgumentError

__all__ = ["seconds", "to_ms"]


def seconds(value: float | timedelta, what: str) -> float:
    """A duration in seconds, which is 0 or more."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number < 1e10:
        raise InvalidArgumentError(f"{what}={value!r}: choose seconds, or a timedelta, from 0 on")
    return float(number)


def to_ms(moment: datetime, what: str) -> int:
    """Milliseconds since 1970 of a moment that says which time zone it means."""
    if not isinstance(moment, datetime):
        raise InvalidArgumentError(f"{what}={moment!r}: a datetime is wanted")
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"{what}={moment!r} has no time zone: say datetime(…, tzinfo=timezone.utc), or moment.astimezone()")
    return int(moment.timestamp() * 1000)
