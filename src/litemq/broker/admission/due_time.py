"""The due time of delayed messages: within a year, and while timers fit the disk budget."""

from __future__ import annotations

from litemq.clock import Clock
from litemq.errors import DiskFullError, InvalidArgumentError
from litemq.storage.store import Store
from litemq.types import CLOCKS_DIFFER_MS, MAX_DELAY_MS

__all__ = ["check_due"]


def check_due(store: Store, clock: Clock, due: int, size: int) -> None:
    """Raise unless the broker may keep ``size`` bytes until ``due`` (ms)."""
    if due > clock.wall_ms() + MAX_DELAY_MS + CLOCKS_DIFFER_MS:
        raise InvalidArgumentError(f"delay_time={due} is too far ahead: choose a time within 365 days")
    if size > store.timer_bytes_left:
        raise DiskFullError(
            "delayed messages already use half of the disk budget: retry after some have been delivered"
        )
