"""Cron schedules: the next time of an expression in a time zone, fast enough for a million jobs.

An expression has six fields: second, minute, hour, day of month, month, day of week. With five
fields, the second is 0. If both days are restricted, a day that matches either matches, as in cron.

When clocks change, a job at fixed times of the day runs once a day: after the gap if its time is
skipped, the first time if its time occurs twice. A job whose hour or minute is ``*`` (or ``*/n``)
follows the clock as shown: never in the gap, and in both passes of an hour that occurs twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol

from litemq.errors import CronSyntaxError
from litemq.schedules.fields import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, Field, parse_field
from litemq.schedules.zones import DAY_SECONDS, first_change, time_zone, zone_clock

__all__ = ["NEVER", "CronSchedule", "Schedule", "cron_schedule"]

NEVER: Final = 1 << 62
_MAX_YEARS: Final = 50  # without a match; five Mondays in February are up to 40 years apart
_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - _EPOCH
_MAX_CHARACTERS: Final = 255
_ALIASES: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


class Schedule(Protocol):
    """The times at which a job runs."""

    def next(self, after: int) -> int:
        """Return the first time (ms) later than ``after``; ``NEVER`` if there is none."""
        ...


class CronSchedule:
    """The times of a cron expression in a time zone."""

    __slots__ = (
        "_asked",
        "_asked_before",
        "_can_be_never",
        "_clock",
        "_days_of_month",
        "_days_of_week",
        "_either",
        "_fixed",
        "_found",
        "_found_before",
        "_has_last",
        "_hours",
        "_minutes",
        "_months",
        "_nth",
        "_seconds",
        "_zone",
    )

    def __init__(self, fields: list[Field], zone: tzinfo | None) -> None:
        """``zone`` is ``None`` for UTC."""
        self._seconds, self._minutes, self._hours = (field.numbers for field in fields[:3])
        self._days_of_month, self._has_last = fields[DAY_OF_MONTH].members, fields[DAY_OF_MONTH].has_last
        self._months = fields[MONTH].members
        self._days_of_week, self._nth = fields[DAY_OF_WEEK].members, fields[DAY_OF_WEEK].nth
        self._either = not (fields[DAY_OF_MONTH].is_any or fields[DAY_OF_WEEK].is_any)
        self._fixed = not (fields[MINUTE].is_star or fields[HOUR].is_star)
        self._zone = zone
        self._clock = None if zone is None else zone_clock(zone)
        # Caches two results: jobs that share a schedule need the tick that is due, and the next.
        self._asked = self._asked_before = -1
        self._found = self._found_before = NEVER
        self._can_be_never = not (fields[DAY_OF_MONTH].is_any or self._either) or bool(self._nth)

    @property
    def can_be_never(self) -> bool:
        """Whether the expression may restrict days so that no month has them."""
        return self._can_be_never

    def next(self, after: int) -> int:
        """Return the first time (ms) later than ``after``; ``NEVER`` if there is none."""
        second = after // 1000
        if second == self._asked:
            return self._found
        if second == self._asked_before:
            return self._found_before
        if self._zone is None:
            found = self._local(second)
        elif self._fixed:
            found = self._at_fixed_time(second)
        else:
            found = self._follow_clock(second)
        self._asked_before, self._found_before = self._asked, self._found
        self._asked, self._found = second, NEVER if found is None else found * 1000
        return self._found

    # Local time, in seconds since 1970 as the clock shows them ------------------------------------

    def _local(self, after: int) -> int | None:
        """Return the first match later than ``after``."""
        day, second = divmod(after + 1, DAY_SECONDS)
        limit = min(day + _MAX_YEARS * 366, _LAST_DAY)
        while day <= limit:
            today = date.fromordinal(day + _EPOCH)
            if today.month not in self._months:
                if day >= _LAST_DAY - 31:
                    return None
                day = (today.replace(day=1) + timedelta(days=32)).replace(day=1).toordinal() - _EPOCH
                second = 0
                continue
            if self._is_day(today):
                found = self._time_from(second)
                if found is not None:
                    return day * DAY_SECONDS + found
            day += 1
            second = 0
        return None

    def _is_day(self, day: date) -> bool:
        of_month = day.day in self._days_of_month or (self._has_last and day.day == monthrange(day.year, day.month)[1])
        if of_month and self._either:
            return True
        if not (of_month or self._either):
            return False
        number = day.isoweekday() % 7
        if number not in self._days_of_week:
            return False
        if not self._nth:
            return True
        if (number, (day.day + 6) // 7) in self._nth:
            return True
        return (number, -1) in self._nth and day.day + 7 > monthrange(day.year, day.month)[1]

    def _time_from(self, second: int) -> int | None:
        """Return the first matching second of a day that is not before ``second``."""
        hour, rest = divmod(second, 3600)
        minute, second = divmod(rest, 60)
        hours, minutes, seconds = self._hours, self._minutes, self._seconds
        at = bisect_left(hours, hour)
        if at < len(hours) and hours[at] == hour:
            in_hour = bisect_left(minutes, minute)
            if in_hour < len(minutes) and minutes[in_hour] == minute:
                in_minute = bisect_left(seconds, second)
                if in_minute < len(seconds):
                    return hour * 3600 + minute * 60 + seconds[in_minute]
                in_hour += 1
            if in_hour < len(minutes):
                return hour * 3600 + minutes[in_hour] * 60 + seconds[0]
            at = bisect_right(hours, hour)
        return hours[at] * 3600 + minutes[0] * 60 + seconds[0] if at < len(hours) else None

    # Time zones with changing offsets, in seconds since 1970 --------------------------------------

    def _offset(self, second: int) -> int:
        """Return the UTC offset of the clock at ``second``."""
        clock = self._clock
        if clock is None:
            return 0
        return clock.offset if clock.begin <= second < clock.end else clock.offset_at(second)

    def _follow_clock(self, after: int) -> int | None:
        """Return the next match of a schedule that follows the clock as shown."""
        limit = after + _MAX_YEARS * 366 * DAY_SECONDS
        while after < limit:
            offset = self._offset(after + 1)
            shown = self._local(after + offset)
            if shown is None:
                return None
            change = self._first_change(after + 1, shown - offset, offset)
            if change is None:
                return shown - offset
            after = change - 1  # the offset changes there: search from there
        return None

    def _at_fixed_time(self, after: int) -> int | None:
        """Return the next match of a schedule at fixed times of day: once a day."""
        shown = after + self._offset(after)
        # The loop ends early: a moment is not after ``after`` only in an hour that occurs twice.
        for _ in range(DAY_SECONDS):
            found = self._local(shown)
            if found is None:
                return None
            moment = self._first_moment(found)
            if moment > after:
                return moment
            shown = found
        return None

    def _first_moment(self, shown: int) -> int:
        """Return when the clock first shows ``shown``; if it skips that, the end of the gap."""
        offset = self._offset(shown - self._offset(shown))
        # A clock set back shows it earlier, a clock set forward may skip it; both within a day.
        earlier, later = self._offset(shown - DAY_SECONDS), self._offset(shown + DAY_SECONDS)
        if earlier == later == offset:
            return shown - offset
        first, last = shown - max(earlier, later, offset), shown - min(earlier, later, offset)
        for moment in (first, shown - offset, last):
            if moment + self._offset(moment) == shown:
                return moment
        return self._first_change(first, last, self._offset(first)) or last

    def _first_change(self, begin: int, end: int, offset: int) -> int | None:
        """Return the first moment in ``begin`` … ``end`` whose offset is not ``offset``."""
        clock = self._clock
        if clock is None or (clock.begin <= begin and end < clock.end):
            return None
        return first_change(clock.zone, begin, end, offset)


@lru_cache(maxsize=50_000)
def cron_schedule(expression: str, timezone: str = "") -> CronSchedule:
    """Parse ``expression``; the default ``timezone`` is UTC. Raise ``CronSyntaxError``."""
    if len(expression) > _MAX_CHARACTERS:
        raise CronSyntaxError(f"a cron expression of {len(expression)} characters: use at most {_MAX_CHARACTERS}")
    fields = _ALIASES.get(expression.strip().lower(), expression).lower().split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != 6:
        raise CronSyntaxError(
            f"{expression!r} has {len(fields)} fields: write second minute hour day month weekday, "
            f"or five without the second; or {', '.join(_ALIASES)}, @every 90s"
        )
    schedule = CronSchedule([parse_field(position, text) for position, text in enumerate(fields)], time_zone(timezone))
    if schedule.can_be_never and schedule.next(0) == NEVER:
        raise CronSyntaxError(f"{expression!r} never matches: no month has that day")
    return schedule
