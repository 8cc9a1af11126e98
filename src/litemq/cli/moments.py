"""Parsing of times and durations that users type."""

from __future__ import annotations

import datetime as dt
import re

import typer

from litemq.cli.configuration.kinds import parse_duration
from litemq.errors import ConfigurationError

__all__ = ["moment", "seconds"]


def moment(text: str, flag: str) -> dt.datetime:
    """Parse a time such as 2026-01-31T12:00:00Z, in local time if ``text`` has no zone."""
    try:
        parsed = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"invalid time {text!r}: write it like 2026-01-31T12:00:00Z", param_hint=flag
        ) from None
    return parsed if parsed.tzinfo is not None else parsed.astimezone()


def seconds(text: str, flag: str) -> float:
    """Parse a duration such as 90s or 2h30m; a plain number is in seconds."""
    if re.fullmatch(r"\d+(\.\d*)?", text.strip(), re.ASCII):
        return float(text)
    try:
        return parse_duration(text)
    except ConfigurationError:
        raise typer.BadParameter(
            f"invalid duration {text!r}: write seconds, such as 90, or units (ms, s, m, h, d), such as 2h30m",
            param_hint=flag,
        ) from None
