"""When a job runs: a cron expression in a time zone, or every so many seconds; pure, and quick enough for a million of them.

Six fields, the second first: second, minute, hour, day of month, month, day of week; with five, the second is 0. croniter reads a field, once
for each text that it has; finding times in what it read is done here. Where both days are restricted, either will do, as cron has it.

Clocks that change, as cron users expect them: a job at fixed times of the day runs once a day. A time that a clock passes over runs at the moment
after the gap; one that comes twice runs the first time. A job whose hour or minute is ``*`` (or ``*/n``) goes by what the clock shows, as time
passes: nothing in the gap, and all of the hour that comes twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter

from litemq.errors import CronSyntaxError

__all__ = ["NEVER", "CronSchedule", "EverySchedule", "Schedule", "cron_schedule", "duration_ms", "zone_of"]

NEVER: Final = 1 << 62
LEAST_EVERY_MS: Final = 1_000
_YEARS: Final = 50  # without any time: it never matches. The fifth Monday of February comes every 28 years, or 40
_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date(9999, 12, 31).toordinal() - _EPOCH
_PROBE: Final = 7 * _DAY  # no zone changes its clocks twice within this
_REMEMBERED: Final = 60 * _DAY
_MOST_CHARS: Final = 255
_NAMES: Final = ("second", "minute", "hour", "day of month", "month", "day of week")
_SECOND, _MINUTE, _HOUR, _DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK = range(6)
_PLACES: Final = (5, 0, 1, 2, 3, 4)  # of the fields in what croniter answers
_RANGES: Final = (range(60), range(60), range(24), range(1, 32), range(1, 13), range(7))
_ALIASES: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_BY_CHANCE: Final = re.compile(r"[hr](\(.*|/.*)?$")
_ZERO: Final = re.compile(r"(?<![\d/])0+(?!\d)")
_LAST_OF: Final = re.compile(r"(\w+)l$")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Schedule(Protocol):
    """What says when a job runs."""

    def next(self, after: int) -> int:
        """The first time (ms) later than another; ``NEVER`` where there is none."""
        ...


class EverySchedule(NamedTuple):
    """Every so many milliseconds, counted from an anchor."""

    every: int
    anchor: int

    def next(self, after: int) -> int:
        """The first time (ms) later than another."""
        return self.anchor if after < self.anchor else self.anchor + ((after - self.anchor) // self.every + 1) * self.every


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

    def __init__(self, fields: list[_Field], zone: tzinfo | None) -> None:
        """``zone`` is ``None`` for UTC."""
        self._seconds, self._minutes, self._hours = (field.numbers for field in fields[:3])
        self._days_of_month, self._has_last = fields[_DAY_OF_MONTH].members, fields[_DAY_OF_MONTH].has_last
        self._months = fields[_MONTH].members
        self._days_of_week, self._nth = fields[_DAY_OF_WEEK].members, fields[_DAY_OF_WEEK].nth
        self._either = not (fields[_DAY_OF_MONTH].is_any or fields[_DAY_OF_WEEK].is_any)
        self._fixed = not (fields[_MINUTE].is_star or fields[_HOUR].is_star)
        self._zone = zone
        self._clock = None if zone is None else _clock_of(zone)
        # Many jobs have one schedule, and each asks what others asked: for the tick that is due, and for the one behind it.
        self._asked = self._asked_before = -1
        self._found = self._found_before = NEVER
        self._can_be_never = not (fields[_DAY_OF_MONTH].is_any or self._either) or bool(self._nth)

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

    # On a clock that never changes; seconds since 1970 as it shows them ------------------------------------------------------------

    def _local(self, after: int) -> int | None:
        """The first match later than ``after``."""
        day, second = divmod(after + 1, _DAY)
        limit = min(day + _YEARS * 366, _LAST_DAY)
        while day <= limit:
            today = date.fromordinal(day + _EPOCH)
            if today.month not in self._months:
                day = (today.replace(day=1) + timedelta(days=32)).replace(day=1).toordinal() - _EPOCH if day < _LAST_DAY - 31 else limit + 1
                second = 0
                continue
            if self._is_day(today):
                found = self._time_from(second)
                if found is not None:
                    return day * _DAY + found
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
        return (number, (day.day + 6) // 7) in self._nth or ((number, -1) in self._nth and day.day + 7 > monthrange(day.year, day.month)[1])

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

    # On one that does; seconds since 1970 ------------------------------------------------------------------------------------------

    def _offset(self, second: int) -> int:
        """What the clock shows at a moment, less the moment itself."""
        clock = self._clock
        if clock is None:
            return 0
        return clock.offset if clock.begin <= second < clock.end else clock.offset_at(second)

    def _as_time_passes(self, after: int) -> int | None:
        limit = after + _YEARS * 366 * _DAY
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
        for _ in range(_DAY):  # it ends long before: what is not later than ``after`` is in one hour that comes twice
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
        earlier, later = self._offset(shown - _DAY), self._offset(shown + _DAY)
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
        return _first_change(clock.zone, begin, end, offset)


class _Clock:
    """What a zone's clock shows; the offset that it has lately is remembered, with how long it had it for sure."""

    __slots__ = ("begin", "end", "offset", "zone")

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self.begin = self.end = self.offset = 0

    def offset_at(self, second: int) -> int:
        """What it shows at a moment, less the moment itself."""
        offset = _offset(self.zone, second)
        begin = second - 2 * _DAY
        if not self.begin <= begin < self.end and _first_change(self.zone, begin, second, _offset(self.zone, begin)) is None:
            end = _first_change(self.zone, second, second + _REMEMBERED, offset) or second + _REMEMBERED
            self.begin, self.end, self.offset = begin, end, offset
        return offset


@lru_cache(maxsize=1_000)
def _clock_of(zone: tzinfo) -> _Clock:
    return _Clock(zone)


def _offset(zone: tzinfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _first_change(zone: tzinfo, begin: int, end: int, offset: int) -> int | None:
    """The first moment of begin … end at which a zone's clock has another offset."""
    while begin < end:
        until = min(begin + _PROBE, end)
        if _offset(zone, until) != offset:
            while until - begin > 1:
                middle = (begin + until) // 2
                begin, until = (begin, middle) if _offset(zone, middle) != offset else (middle, until)
            return until
        begin = until
    return None


class _Field(NamedTuple):
    """What one field of an expression allows."""

    numbers: tuple[int, ...]
    members: frozenset[int]  # the same numbers
    is_any: bool  # it restricts nothing
    is_star: bool  # it begins with one
    has_last: bool = False  # the last day of the month, too
    nth: frozenset[tuple[int, int]] = frozenset()  # weekday and which of the month, -1: the last


@lru_cache(maxsize=10_000)
def _field(place: int, text: str) -> _Field:
    if _BY_CHANCE.match(text) or (place == _DAY_OF_MONTH and "w" in text):
        raise CronSyntaxError(f"{text!r} in the field of the {_NAMES[place]}: H, R and W are not taken, say which times are meant")
    if place in (_DAY_OF_MONTH, _MONTH) and _ZERO.search(text):  # croniter takes it for a 1
        raise CronSyntaxError(f"{text!r} in the field of the {_NAMES[place]}: choose 1 … {_RANGES[place][-1]}")
    read = _with_sunday(text) if place == _DAY_OF_WEEK else text
    fields = ["*"] * 6
    fields[place] = read
    try:
        expanded, nth = croniter.expand(" ".join(fields), second_at_beginning=True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):  # the first is what it says, the others slip through
        least, most = _RANGES[place][0], _RANGES[place][-1]
        raise CronSyntaxError(
            f"{text!r} in the field of the {_NAMES[place]} cannot be read: use *, {least} … {most}, names, a-b, a,b, and /step from 1 on"
        ) from None
    found = expanded[_PLACES[place]]
    is_any = found == ["*"]
    numbers = tuple(_RANGES[place]) if is_any else tuple(sorted(each for each in found if isinstance(each, int)))
    has_last = not is_any and "l" in found
    if any(number not in _RANGES[place] for number in numbers) or not (numbers or has_last):
        raise CronSyntaxError(f"{text!r} in the field of the {_NAMES[place]}: choose {_RANGES[place][0]} … {_RANGES[place][-1]}")
    pairs = frozenset((int(day), -1 if str(which) == "l" else int(which)) for day, several in nth.items() for which in several)
    return _Field(numbers, frozenset(numbers), is_any, text.startswith("*"), has_last, pairs)


def _with_sunday(text: str) -> str:
    """The days of a week as croniter takes them: 7 is Sunday, and the last Friday is L5."""
    parts = []
    for part in text.split(","):
        last = _LAST_OF.match(part)
        if last is not None:
            part = "l" + last[1]
        head, slash, step = part.partition("/")
        if head == "0-7":
            head = "0-6"
        parts.append(re.sub(r"(?<![\d#])7(?!\d)", "sun", head) + slash + step)
    return ",".join(parts)


@lru_cache(maxsize=50_000)
def cron_schedule(expression: str, timezone: str = "") -> CronSchedule:
    """The schedule of an expression in a time zone, UTC where none is named. Raises ``CronSyntaxError`` where it can be none."""
    if len(expression) > _MOST_CHARS:
        raise CronSyntaxError(f"a cron expression of {len(expression)} characters: at most {_MOST_CHARS} are allowed")
    fields = _ALIASES.get(expression.strip().lower(), expression).lower().split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != 6:
        raise CronSyntaxError(
            f"{expression!r} has {len(fields)} fields: write second minute hour day month weekday, or five without the second; "
            f"or {', '.join(_ALIASES)}, @every 90s"
        )
    schedule = CronSchedule([_field(place, text) for place, text in enumerate(fields)], zone_of(timezone))
    if schedule.can_be_never and schedule.next(0) == NEVER:
        raise CronSyntaxError(f"{expression!r} never matches: no month has that day")
    return schedule


@lru_cache(maxsize=1_000)
def zone_of(timezone: str) -> tzinfo | None:
    """The time zone of a name; ``None`` for UTC, which has no changes."""
    if timezone in ("", "UTC", "Etc/UTC"):
        return None
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronSyntaxError(f"timezone {timezone!r} is not known: use a name such as Asia/Shanghai, Europe/Berlin or UTC") from None
    return zone


def duration_ms(text: str) -> int:
    """How many milliseconds "90s", "1h30m" or "@every 5m" are."""
    rest = text.strip().lower().removeprefix("@every").strip()
    parts = _PART.findall(rest)
    if not parts or _PART.sub("", rest).strip():
        raise CronSyntaxError(f"{text!r} is no duration: write @every 90s, 5m or 1h30m")
    total = round(sum(float(number) * _UNITS[unit] for number, unit in parts))
    return check_every(total, text)


def check_every(every: int, said: object = None) -> int:
    """A number of milliseconds between ticks, or an error."""
    if not LEAST_EVERY_MS <= every <= 366 * 86_400_000:
        raise CronSyntaxError(f"every {every if said is None else said}: choose one second … 366 days")
    return every


def shown(moment: int, timezone: str) -> datetime:
    """A time (ms) as a zone's clocks show it."""
    return datetime.fromtimestamp(moment / 1000, zone_of(timezone) or UTC)
