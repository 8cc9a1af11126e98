"""When a message is due, until when it is worth delivering, and how urgent it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError
from litemq.types import DEFAULT_PRIORITY, LEAST_DELAY_MS, MOST_DELAY_MS

__all__ = ["PLAIN", "Terms", "terms_of"]


class Terms(NamedTuple):
    """What a message asks for besides being stored. Times are milliseconds since 1970; 0: at once, and for ever."""

    delay_time: int = 0
    expire_at: int = 0
    priority: int = DEFAULT_PRIORITY


PLAIN: Final = Terms()


def terms_of(
    now_ms: int,
    delay: float | timedelta | None,
    deliver_at: datetime | None,
    ttl: float | timedelta | None,
    priority: int | None,
) -> Terms:
    """What a caller asks for, or an error that says what may be asked for."""
    due = 0
    if delay is not None and deliver_at is not None:
        raise InvalidArgumentError("delay= and deliver_at= say the same in two ways: choose one")
    if delay is not None:
        due = _due_after(now_ms, delay)
    elif deliver_at is not None:
        due = to_ms(deliver_at, "deliver_at")
        if due > now_ms + MOST_DELAY_MS:
            raise InvalidArgumentError(f"deliver_at={deliver_at.isoformat()}: choose a time within 365 days")
        due = due if due > now_ms else 0  # in the past: at once
    expire_at = 0
    if ttl is not None:
        worth = round(seconds(ttl, "ttl") * 1000)
        if worth < 1:
            raise InvalidArgumentError(f"ttl={ttl!r}: choose a millisecond or more")
        expire_at = max(now_ms, due) + worth
    if priority is not None and not (isinstance(priority, int) and 0 <= priority <= 255):
        raise InvalidArgumentError(f"priority={priority!r}: choose 0 … 255; {DEFAULT_PRIORITY} is the default, and 255 comes first")
    return Terms(due, expire_at, DEFAULT_PRIORITY if priority is None else priority)


def _due_after(now_ms: int, delay: float | timedelta) -> int:
    ms = round(seconds(delay, "delay") * 1000)
    if ms == 0 and not delay:
        return 0
    if not LEAST_DELAY_MS <= ms <= MOST_DELAY_MS:
        raise InvalidArgumentError(f"delay={delay!r}: choose 0.01 s … 365 days, or 0 for none")
    return now_ms + ms
