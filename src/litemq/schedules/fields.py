"""Fields of cron expressions as sets of numbers, parsed by croniter and cached."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from croniter import croniter

from litemq.errors import CronSyntaxError

__all__ = ["DAY_OF_MONTH", "DAY_OF_WEEK", "HOUR", "MINUTE", "MONTH", "SECOND", "Field", "parse_field"]

SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK = range(6)  # positions in an expression
_NAMES: Final = ("second", "minute", "hour", "day of month", "month", "day of week")
_CRONITER_POSITIONS: Final = (5, 0, 1, 2, 3, 4)  # of the fields in croniter's result
_RANGES: Final = (range(60), range(60), range(24), range(1, 32), range(1, 13), range(7))
_RANDOM: Final = re.compile(r"[hr](\(.*|/.*)?$")
_ZERO: Final = re.compile(r"(?<![\d/])0+(?!\d)")
_LAST_OF: Final = re.compile(r"(\w+)l$")


class Field(NamedTuple):
    """The numbers that one field of an expression allows."""

    numbers: tuple[int, ...]
    members: frozenset[int]  # the same numbers
    is_any: bool  # every number
    is_star: bool  # the text begins with ``*``
    has_last: bool = False  # also the last day of the month
    nth: frozenset[tuple[int, int]] = frozenset()  # weekday, and which in the month (-1: last)


@lru_cache(maxsize=10_000)
def parse_field(position: int, text: str) -> Field:
    """Parse the field at ``position``, or raise ``CronSyntaxError`` if ``text`` is invalid."""
    allowed, where = _RANGES[position], f"{text!r} in the field of the {_NAMES[position]}"
    first, last = allowed[0], allowed[-1]
    if _RANDOM.match(text) or (position == DAY_OF_MONTH and "w" in text):
        raise CronSyntaxError(f"{where}: H, R and W are not supported, write the times")
    if position in (DAY_OF_MONTH, MONTH) and _ZERO.search(text):  # croniter reads it as 1
        raise CronSyntaxError(f"{where}: choose 1 … {last}")
    fields = ["*"] * 6
    fields[position] = _with_sunday(text) if position == DAY_OF_WEEK else text
    try:
        expanded, nth = croniter.expand(" ".join(fields), second_at_beginning=True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):  # croniter documents only ValueError
        raise CronSyntaxError(
            f"{where} cannot be read: use *, {first} … {last}, names, a-b, a,b, and /step from 1 on",
        ) from None
    found = expanded[_CRONITER_POSITIONS[position]]
    is_any = found == ["*"]
    numbers = tuple(allowed) if is_any else tuple(sorted(each for each in found if isinstance(each, int)))
    has_last = not is_any and "l" in found
    if any(number not in allowed for number in numbers) or not (numbers or has_last):
        raise CronSyntaxError(f"{where}: choose {first} … {last}")
    days = ((int(day), which) for day, several in nth.items() for which in several)
    pairs = frozenset((day, -1 if str(which) == "l" else int(which)) for day, which in days)
    return Field(numbers, frozenset(numbers), is_any, text.startswith("*"), has_last, pairs)


def _with_sunday(text: str) -> str:
    """Rewrite days of the week for croniter: 7 becomes Sunday, 5L (the last Friday) becomes L5."""
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
