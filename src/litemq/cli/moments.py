"""Times and durations, as they are typed."""

from __future__ import annotations

import datetime as dt
import re

import typer

from litemq.cli.configuration.kinds import parse_duration
from litemq.errors import ConfigurationError

__all__ = ["moment", "seconds"]


def moment(text: str, flag: str) -> dt.datetime:
    """A time such as 2026-01-31T12:00:00Z; without a zone, that of this machine."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-01-31T12:00:00Z", param_hint=flag) from None
    return found if found.tzinfo is not None else found.astimezone()


def seconds(text: str, flag: str) -> float:
    """A duration such as 90s or 2h30m; a number alone is of seconds."""
    if re.fullmatch(r"\d+(\.\d*)?", text.strip(), re.ASCII):
        return float(text)
    try:
        return parse_duration(text)
    except ConfigurationError:
        raise typer.BadParameter(
            f"{text!r} is no duration: write seconds, such as 90, or units (ms, s, m, h, d), such as 2h30m", param_hint=flag
        ) from None
