"""The due time of delayed messages: within a year, and while timers fit the disk budget."""

from __future__ import annotations

from litemq.clock import Clock
from litemq.errors import DiskFullError, InvalidArgumentError
from litemq.storage.store import Store
from litemq.types import CLOCKS_DIFFER_MS, MOST_DELAY_MS

__all__ = ["check_due"]


def check_due(store: Store, clock: Clock, due: int, size: int) -> None:
    """Raise unless the broker may keep ``size`` bytes until ``due`` (ms)."""
    if due > clock.wall_ms() + MOST_DELAY_MS + CLOCKS_DIFFER_MS:
        raise InvalidArgumentError(f"delay_time={due}: choose a time within 365 days")
    if size > store.timer_room:
        raise DiskFullError("as many messages wait for their time as half the disk can hold: send again when some were delivered")
