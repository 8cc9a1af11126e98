"""Interval schedules, and durations such as 90s or 1h30m."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from litemq.errors import CronSyntaxError

__all__ = ["MIN_EVERY_MS", "EverySchedule", "check_every", "duration_ms"]

MIN_EVERY_MS: Final = 1_000
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class EverySchedule(NamedTuple):
    """A tick every ``every`` milliseconds, counted from ``anchor``."""

    every: int
    anchor: int

    def next(self, after: int) -> int:
        """Return the first tick (ms) later than ``after``."""
        if after < self.anchor:
            return self.anchor
        return self.anchor + ((after - self.anchor) // self.every + 1) * self.every


def duration_ms(text: str) -> int:
    """Convert a duration such as "90s", "1h30m" or "@every 5m" to milliseconds."""
    rest = text.strip().lower().removeprefix("@every").strip()
    parts = _PART.findall(rest)
    if not parts or _PART.sub("", rest).strip():
        raise CronSyntaxError(f"{text!r} is not a duration: write @every 90s, 5m or 1h30m")
    total = round(sum(float(number) * _UNITS[unit] for number, unit in parts))
    return check_every(total, text)


def check_every(every: int, quoted: object = None) -> int:
    """Return ``every`` (ms). If it is out of range, raise an error with ``quoted``."""
    if not MIN_EVERY_MS <= every <= 366 * 86_400_000:
        raise CronSyntaxError(f"every {every if quoted is None else quoted}: choose one second … 366 days")
    return every
