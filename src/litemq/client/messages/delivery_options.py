"""When a message is due, until when it is worth delivering, and how urgent it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError
from litemq.format.timer_batches import BATCH_ID, MAX_BATCH_ID_BYTES
from litemq.types import DEFAULT_PRIORITY, LEAST_DELAY_MS, MOST_DELAY_MS

__all__ = ["PLAIN", "Terms", "due_of", "in_batch", "terms_of"]


class Terms(NamedTuple):
    """What a message asks for besides being stored. Times are milliseconds since 1970; 0: at once, and for ever."""

    delay_time: int = 0
    expire_at: int = 0
    priority: int = DEFAULT_PRIORITY


PLAIN: Final = Terms()

_LEAST_DELAY_S: Final = LEAST_DELAY_MS / 1000
_MOST_DELAY_S: Final = MOST_DELAY_MS / 1000

# The delays of RocketMQ's levels 1 … 18, in seconds.
_LEVELS: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def terms_of(
    now_ms: int,
    delay: float | timedelta | None,
    deliver_at: datetime | None,
    ttl: float | timedelta | None,
    priority: int | None,
    delay_level: int | None = None,
) -> Terms:
    """What a caller asks for, or an error that says what may be asked for."""
    is_plain = deliver_at is None and ttl is None and priority is None and delay_level is None
    if is_plain and type(delay) is float and _LEAST_DELAY_S <= delay <= _MOST_DELAY_S:  # as most who send very many
        return Terms(now_ms + round(delay * 1000))
    due = due_of(now_ms, delay, deliver_at, delay_level)
    expire_at = 0
    if ttl is not None:
        worth = round(seconds(ttl, "ttl") * 1000)
        if worth < 1:
            raise InvalidArgumentError(f"ttl={ttl!r}: choose a millisecond or more")
        expire_at = max(now_ms, due) + worth
    if priority is not None and not (isinstance(priority, int) and 0 <= priority <= 255):
        raise InvalidArgumentError(f"priority={priority!r}: choose 0 … 255; {DEFAULT_PRIORITY} is the default, and 255 comes first")
    return Terms(due, expire_at, DEFAULT_PRIORITY if priority is None else priority)


def due_of(now_ms: int, delay: float | timedelta | None, deliver_at: datetime | None, delay_level: int | None = None) -> int:
    """When a message is due (ms since 1970); 0: at once."""
    if (delay is not None) + (deliver_at is not None) + (delay_level is not None) > 1:
        raise InvalidArgumentError("delay=, deliver_at= and delay_level= say the same in different ways: choose one")
    if delay_level is not None:
        if not (isinstance(delay_level, int) and 1 <= delay_level <= len(_LEVELS)):
            raise InvalidArgumentError(
                f"delay_level={delay_level!r}: choose 1 … {len(_LEVELS)}, from 1 s to 2 hours, or say delay= in seconds"
            )
        return now_ms + 1000 * _LEVELS[delay_level - 1]
    if delay is not None:
        return _due_after(now_ms, delay)
    if deliver_at is None:
        return 0
    due = to_ms(deliver_at, "deliver_at")
    if due > now_ms + MOST_DELAY_MS:
        raise InvalidArgumentError(f"deliver_at={deliver_at.isoformat()}: choose a time within 365 days")
    return due if due > now_ms else 0  # in the past: at once


def _due_after(now_ms: int, delay: float | timedelta) -> int:
    ms = round(seconds(delay, "delay") * 1000)
    if ms == 0 and not delay:
        return 0
    if not LEAST_DELAY_MS <= ms <= MOST_DELAY_MS:
        raise InvalidArgumentError(f"delay={delay!r}: choose 0.01 s … 365 days, or 0 for none")
    return now_ms + ms


def in_batch(properties: Mapping[str, str] | None, batch_id: str) -> Mapping[str, str]:
    """The properties of a message that belongs to a batch."""
    if not isinstance(batch_id, str) or len(batch_id.encode()) > MAX_BATCH_ID_BYTES:
        raise InvalidArgumentError(f"batch_id={batch_id!r}: choose a text of at most {MAX_BATCH_ID_BYTES} bytes")
    return {**(properties or {}), BATCH_ID: batch_id}
