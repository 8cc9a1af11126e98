"""Times, as they are typed."""

from __future__ import annotations

import datetime as dt

import typer

__all__ = ["moment"]


def moment(text: str, flag: str) -> dt.datetime:
    """A time such as 2026-01-31T12:00:00Z; without a zone, that of this machine."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 2026-01-31T12:00:00Z", param_hint=flag) from None
    return found if found.tzinfo is not None else found.astimezone()
