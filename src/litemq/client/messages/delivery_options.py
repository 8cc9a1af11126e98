"""Delivery options of a message: due time, expiry and priority, from the arguments of ``send``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from litemq.client.labels import property_pairs
from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError
from litemq.format.timer_batches import BATCH_ID, MAX_BATCH_ID_BYTES
from litemq.types import DEFAULT_PRIORITY, MAX_DELAY_MS, MIN_DELAY_MS

__all__ = ["NO_OPTIONS", "DeliveryOptions", "delivery_options", "due_time", "with_batch_id"]


class DeliveryOptions(NamedTuple):
    """Due time, expiry and priority of a message.

    Times are ms since 1970; 0: deliver at once, never expire.
    """

    delay_time: int = 0
    expire_at: int = 0
    priority: int = DEFAULT_PRIORITY


NO_OPTIONS: Final = DeliveryOptions()

_MIN_DELAY_S: Final = MIN_DELAY_MS / 1000
_MAX_DELAY_S: Final = MAX_DELAY_MS / 1000

# The delays of RocketMQ's levels 1 … 18, in seconds.
_LEVELS: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def delivery_options(
    now_ms: int,
    delay: float | timedelta | None,
    deliver_at: datetime | None,
    ttl: float | timedelta | None,
    priority: int | None,
    delay_level: int | None = None,
) -> DeliveryOptions:
    """Convert the arguments of ``send``.

    Raise ``InvalidArgumentError`` for a value that is not allowed.
    """
    is_plain = deliver_at is None and ttl is None and priority is None and delay_level is None
    if is_plain and type(delay) is float and _MIN_DELAY_S <= delay <= _MAX_DELAY_S:  # the fast path of bulk senders
        return DeliveryOptions(now_ms + round(delay * 1000))
    due = due_time(now_ms, delay, deliver_at, delay_level)
    expire_at = 0
    if ttl is not None:
        ttl_ms = round(seconds(ttl, "ttl") * 1000)
        if ttl_ms < 1:
            raise InvalidArgumentError(f"ttl={ttl!r}: choose at least one millisecond")
        expire_at = max(now_ms, due) + ttl_ms
    if priority is not None and not (isinstance(priority, int) and 0 <= priority <= 255):
        raise InvalidArgumentError(
            f"priority={priority!r}: choose 0 … 255; the default is {DEFAULT_PRIORITY}, and 255 is delivered first"
        )
    return DeliveryOptions(due, expire_at, DEFAULT_PRIORITY if priority is None else priority)


def due_time(
    now_ms: int, delay: float | timedelta | None, deliver_at: datetime | None, delay_level: int | None = None
) -> int:
    """Return when a message is due (ms since 1970); 0: at once."""
    if (delay is not None) + (deliver_at is not None) + (delay_level is not None) > 1:
        raise InvalidArgumentError("delay=, deliver_at= and delay_level= exclude each other: choose one")
    if delay_level is not None:
        if not (isinstance(delay_level, int) and 1 <= delay_level <= len(_LEVELS)):
            raise InvalidArgumentError(
                f"delay_level={delay_level!r}: choose 1 … {len(_LEVELS)}, from 1 s to 2 hours, or use delay= in seconds"
            )
        return now_ms + 1000 * _LEVELS[delay_level - 1]
    if delay is not None:
        return _due_after(now_ms, delay)
    if deliver_at is None:
        return 0
    due = to_ms(deliver_at, "deliver_at")
    if due > now_ms + MAX_DELAY_MS:
        raise InvalidArgumentError(f"deliver_at={deliver_at.isoformat()}: choose a time within 365 days")
    # The broker compares it with its own clock, also if it has passed by this one: a client whose
    # clock is ahead must not have the message delivered early.
    return max(due, 0)


def _due_after(now_ms: int, delay: float | timedelta) -> int:
    ms = round(seconds(delay, "delay") * 1000)
    if ms == 0 and not delay:
        return 0
    if not MIN_DELAY_MS <= ms <= MAX_DELAY_MS:
        raise InvalidArgumentError(f"delay={delay!r}: choose 0.01 s … 365 days, or 0 for none")
    return now_ms + ms


def with_batch_id(properties: Mapping[str, str] | None, batch_id: str) -> Mapping[str, str]:
    """Return ``properties`` with the batch id added."""
    if not isinstance(batch_id, str) or len(batch_id.encode()) > MAX_BATCH_ID_BYTES:
        raise InvalidArgumentError(f"batch_id={batch_id!r}: choose a string of at most {MAX_BATCH_ID_BYTES} bytes")
    return {**dict(property_pairs(properties or {})), BATCH_ID: batch_id}
