"""Cron expressions, and their times by other implementations."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Tehran")
# Some days before the clocks change, forward and back, in each zone; Tehran's changed last in 2022.
CHANGES = {
    "Europe/Berlin": (datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)),
    "America/New_York": (datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 10, 30, tzinfo=UTC)),
    "Australia/Lord_Howe": (datetime(2026, 10, 2, tzinfo=UTC), datetime(2026, 4, 3, tzinfo=UTC)),
    "America/Santiago": (datetime(2026, 9, 4, tzinfo=UTC), datetime(2026, 4, 2, tzinfo=UTC)),
    "Asia/Tehran": (datetime(2022, 3, 19, tzinfo=UTC), datetime(2022, 9, 19, tzinfo=UTC)),
}
_RANGES = ((0, 59), (0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
_NAMES = {
    4: ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    5: ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}


def expressions(count: int, seed: int, *, fields: int = 6) -> Iterator[str]:
    """Expressions that both references read alike: with steps, ranges, lists and names."""
    chance = random.Random(seed)
    for _ in range(count):
        parts = [_field(chance, place) for place in range(6)]
        if parts[3] != "*" and parts[5] != "*":
            # The references differ where a day field begins with a star, and restricts.
            parts[3], parts[5] = (
                part if not part.startswith("*") else str(chance.randint(1, 6)) for part in (parts[3], parts[5])
            )
        yield " ".join(parts[6 - fields :])


def _field(chance: random.Random, place: int) -> str:
    low, high = _RANGES[place]
    kind = chance.choices(("*", "step", "number", "range", "list", "name"), (4 if place > 2 else 2, 2, 3, 1, 1, 1))[0]
    if kind == "*":
        return "*"
    if kind == "step" and place not in (3, 5):
        return f"*/{chance.choice((2, 3, 5, 7, 10, 15))}"
    first, last = sorted((chance.randint(low, high), chance.randint(low, high)))
    # What is allowed whole restricts nothing for one of them, and does for the other.
    if kind == "range" and first < last and (first, last) != (low, high):
        return f"{first}-{last}" + (f"/{chance.randint(2, 4)}" if chance.random() < 0.3 else "")
    if kind == "list":
        return ",".join(map(str, sorted({chance.randint(low, high) for _ in range(3)})))
    if kind == "name" and place in _NAMES:
        return chance.choice(_NAMES[place])
    return str(first)


def by_croniter(expression: str, after: datetime, count: int) -> list[int]:
    """The next times (s), in UTC."""
    found = croniter(expression, after, second_at_beginning=True)
    return [int(found.get_next(float)) for _ in range(count)]


def by_cronsim(expression: str, after: datetime, zone: str, count: int) -> list[int]:
    """The next times (s) in a zone, as Debian's cron has it where there are five fields."""
    found = CronSim(expression, after.astimezone(ZoneInfo(zone)))
    return [int(next(found).timestamp()) for _ in range(count)]


def as_time_passes(expression: str, after: datetime, zone: str, until: datetime, *, step_s: int = 1) -> list[int]:
    """Return the matching times of an interval by testing each second or minute: slow but sure."""
    matches = CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
    found, moment, tz = [], after.replace(microsecond=0) + timedelta(seconds=step_s), ZoneInfo(zone)
    while moment <= until:
        shown = moment.astimezone(tz)
        if (
            shown.second in matches.seconds
            and shown.minute in matches.minutes
            and shown.hour in matches.hours
            and shown.month in matches.months
            and matches.match_day(shown.date())
        ):
            found.append(int(moment.timestamp()))
        moment += timedelta(seconds=step_s)
    return found
