"""Conversion of durations and points in time that callers pass."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from litemq.errors import InvalidArgumentError

__all__ = ["lease_ms", "seconds", "to_ms"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MIN_LEASE: Final = 0.1
_MAX_LEASE: Final = 12 * 3600.0


def seconds(value: float | timedelta, what: str) -> float:
    """Convert a duration to seconds; ``what`` names the argument in errors."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0 <= number < 1e10:
        raise InvalidArgumentError(f"{what}={value!r}: choose 0 or more seconds, or a timedelta, below 300 years")
    return float(number)


def lease_ms(lease: float | timedelta) -> int:
    """Convert the duration of a lease to milliseconds."""
    length = seconds(lease, "lease")
    if not _MIN_LEASE <= length <= _MAX_LEASE:
        raise InvalidArgumentError(
            f"lease={lease!r}: choose {_MIN_LEASE:g} s … {_MAX_LEASE / 3600:g} hours; "
            "process() renews the lease while it runs"
        )
    return round(length * 1000)


def to_ms(moment: datetime, what: str) -> int:
    """Convert a ``datetime`` with a time zone to milliseconds since 1970, rounded up."""
    if not isinstance(moment, datetime):
        raise InvalidArgumentError(f"{what}={moment!r}: expected a datetime, got {type(moment).__name__}")
    if moment.tzinfo is None:
        raise InvalidArgumentError(
            f"{what}={moment!r} has no time zone: use datetime(…, tzinfo=timezone.utc) or moment.astimezone()"
        )
    # Rounded up, so that nothing is early. Integer division is exact where a float is not.
    return -((_EPOCH - moment) // _MILLISECOND)
