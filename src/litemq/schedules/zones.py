"""Time zones: the UTC offset at a moment, and the moments at which it changes.

Moments and offsets are whole seconds, except in ``local_time``. A zone of ``None`` is UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from litemq.errors import CronSyntaxError

__all__ = ["DAY_SECONDS", "Clock", "first_change", "local_time", "time_zone", "zone_clock"]

DAY_SECONDS: Final = 86_400
_PROBE: Final = 7 * DAY_SECONDS  # no zone changes its offset twice within this
_CACHED: Final = 60 * DAY_SECONDS


class Clock:
    """A zone with a cached UTC ``offset``, valid at least from ``begin`` to ``end``."""

    __slots__ = ("begin", "end", "offset", "zone")

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self.begin = self.end = self.offset = 0

    def offset_at(self, second: int) -> int:
        """Return the UTC offset at ``second``."""
        offset = _offset(self.zone, second)
        begin = second - 2 * DAY_SECONDS
        known = self.begin <= begin < self.end
        if not known and first_change(self.zone, begin, second, _offset(self.zone, begin)) is None:
            end = first_change(self.zone, second, second + _CACHED, offset) or second + _CACHED
            self.begin, self.end, self.offset = begin, end, offset
        return offset


@lru_cache(maxsize=1_000)
def zone_clock(zone: tzinfo) -> Clock:
    """Return the clock of ``zone``, shared by all schedules in the zone."""
    return Clock(zone)


def _offset(zone: tzinfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def first_change(zone: tzinfo, begin: int, end: int, offset: int) -> int | None:
    """Return the first moment in ``begin`` … ``end`` whose offset is not ``offset``."""
    while begin < end:
        until = min(begin + _PROBE, end)
        if _offset(zone, until) != offset:
            while until - begin > 1:
                middle = (begin + until) // 2
                begin, until = (begin, middle) if _offset(zone, middle) != offset else (middle, until)
            return until
        begin = until
    return None


@lru_cache(maxsize=1_000)
def time_zone(timezone: str) -> tzinfo | None:
    """Return the zone with the name ``timezone``; ``None`` for UTC."""
    if timezone in ("", "UTC", "Etc/UTC"):
        return None
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        names = "Asia/Shanghai, Europe/Berlin or UTC"
        raise CronSyntaxError(f"unknown timezone {timezone!r}: use a name such as {names}") from None
    return zone


def local_time(moment: int, timezone: str) -> datetime:
    """Convert ``moment`` (ms) to the local date and time in ``timezone``."""
    return datetime.fromtimestamp(moment / 1000, time_zone(timezone) or UTC)
