"""The next time of a cron expression in a time zone. Pure, and fast enough for a million jobs.

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
from litemq.schedules.zones import DAY_SECONDS, clock_of, first_change, zone_of

__all__ = ["NEVER", "CronSchedule", "Schedule", "cron_schedule"]

NEVER: Final = 1 << 62
_YEARS: Final = 50  # without any time: it never matches. The fifth Monday of February comes every 28 years, or 40
_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - _EPOCH
_MOST_CHARS: Final = 255
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
        """The first time (ms) later than another; ``NEVER`` where there is none."""
        ...


class CronSchedule:
    """The times of an expression in a time zone."""

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
        self._clock = None if zone is None else clock_of(zone)
        # Jobs that share a schedule ask for the same two times: the tick that is due, and the next.
        self._asked = self._asked_before = -1
        self._found = self._found_before = NEVER
        self._can_be_never = not (fields[DAY_OF_MONTH].is_any or self._either) or bool(self._nth)

    @property
    def can_be_never(self) -> bool:
        """Whether it has days that no month may have."""
        return self._can_be_never

    def next(self, after: int) -> int:
        """The first time (ms) later than another; ``NEVER`` where there is none."""
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
            found = self._as_time_passes(second)
        self._asked_before, self._found_before = self._asked, self._found
        self._asked, self._found = second, NEVER if found is None else found * 1000
        return self._found

    # On a clock that never changes; seconds since 1970 as it shows them ---------------------------

    def _local(self, after: int) -> int | None:
        """The first match later than ``after``."""
        day, second = divmod(after + 1, DAY_SECONDS)
        limit = min(day + _YEARS * 366, _LAST_DAY)
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
        """The first time of a day that is not before a second of it."""
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

    # On a clock that changes; seconds since 1970 --------------------------------------------------

    def _offset(self, second: int) -> int:
        """What the clock shows at a moment, less the moment itself."""
        clock = self._clock
        if clock is None:
            return 0
        return clock.offset if clock.begin <= second < clock.end else clock.offset_at(second)

    def _as_time_passes(self, after: int) -> int | None:
        limit = after + _YEARS * 366 * DAY_SECONDS
        while after < limit:
            offset = self._offset(after + 1)
            shown = self._local(after + offset)
            if shown is None:
                return None
            change = self._first_change(after + 1, shown - offset, offset)
            if change is None:
                return shown - offset
            after = change - 1  # the clock is another from there on
        return None

    def _at_fixed_time(self, after: int) -> int | None:
        shown = after + self._offset(after)
        # The loop ends early: only in an hour that occurs twice is a moment not later.
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
        """When a clock first shows a time; for one that it passes over, the moment after the gap."""
        offset = self._offset(shown - self._offset(shown))
        # A clock that is set back shows it earlier, one that was set forward may never: both are within a day.
        earlier, later = self._offset(shown - DAY_SECONDS), self._offset(shown + DAY_SECONDS)
        if earlier == later == offset:
            return shown - offset
        first, last = shown - max(earlier, later, offset), shown - min(earlier, later, offset)
        for moment in (first, shown - offset, last):
            if moment + self._offset(moment) == shown:
                return moment
        return self._first_change(first, last, self._offset(first)) or last

    def _first_change(self, begin: int, end: int, offset: int) -> int | None:
        """The first moment of begin … end at which the clock has another offset."""
        clock = self._clock
        if clock is None or (clock.begin <= begin and end < clock.end):
            return None
        return first_change(clock.zone, begin, end, offset)


@lru_cache(maxsize=50_000)
def cron_schedule(expression: str, timezone: str = "") -> CronSchedule:
    """Parse ``expression``; ``timezone`` is UTC by default. Raise ``CronSyntaxError`` if invalid."""
    if len(expression) > _MOST_CHARS:
        raise CronSyntaxError(f"a cron expression of {len(expression)} characters: at most {_MOST_CHARS} are allowed")
    fields = _ALIASES.get(expression.strip().lower(), expression).lower().split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != 6:
        raise CronSyntaxError(
            f"{expression!r} has {len(fields)} fields: write second minute hour day month weekday, "
            f"or five without the second; or {', '.join(_ALIASES)}, @every 90s"
        )
    schedule = CronSchedule([parse_field(position, text) for position, text in enumerate(fields)], zone_of(timezone))
    if schedule.can_be_never and schedule.next(0) == NEVER:
        raise CronSyntaxError(f"{expression!r} never matches: no month has that day")
    return schedule
