"""Moments and durations, as callers give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from litemq.errors import InvalidArgumentError

__all__ = ["lease_ms", "seconds", "to_ms"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LEAST_LEASE: Final = 0.1
_LONGEST_LEASE: Final = 12 * 3600.0


def seconds(value: float | timedelta, what: str) -> float:
    """A duration in seconds, which is 0 or more."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number < 1e10:
        raise InvalidArgumentError(f"{what}={value!r}: choose seconds, or a timedelta, from 0 on and below 300 years")
    return float(number)


def lease_ms(lease: float | timedelta) -> int:
    """How long a lease lasts, in milliseconds."""
    length = seconds(lease, "lease")
    if not _LEAST_LEASE <= length <= _LONGEST_LEASE:
        raise InvalidArgumentError(
            f"lease={lease!r}: choose {_LEAST_LEASE:g} s … {_LONGEST_LEASE / 3600:g} hours; it is renewed while process() runs"
        )
    return round(length * 1000)


def to_ms(moment: datetime, what: str) -> int:
    """Milliseconds since 1970 of a moment that says which time zone it means."""
    if not isinstance(moment, datetime):
        raise InvalidArgumentError(f"{what}={moment!r}: a datetime is wanted")
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"{what}={moment!r} has no time zone: say datetime(…, tzinfo=timezone.utc), or moment.astimezone()")
    # Up, not down: nothing is to be early, and this is exact where a float is not.
    return -((_EPOCH - moment) // _MILLISECOND)
