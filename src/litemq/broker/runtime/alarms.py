"""Alarms: callbacks at a time, in slots of 5 ms.

An alarm never rings early. Alarms are never cancelled: the callback checks whether the event still
applies.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from litemq.clock import Clock

__all__ = ["Alarms"]

_SLOT_MS: Final = 5
# The clock may be moved meanwhile, so a sleep ends long before the time.
_MIN_SLEEP_MS: Final = 250
_MAX_SLEEP_MS: Final = 5_000
_LOG = logging.getLogger(__name__)

K = TypeVar("K")
Ring = Callable[[list[Any]], None]


class Alarms:
    """The alarms of a broker, by its clock and on its event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._slots: dict[int, dict[Ring, list[Any]]] = {}
        self._upcoming: list[int] = []  # a heap of slots
        self._waking: asyncio.TimerHandle | None = None
        self._wakes_for = 0
        self._closed = False

    def __len__(self) -> int:
        """The number of alarms that are set."""
        return sum(len(keys) for rings in self._slots.values() for keys in rings.values())

    def at(self, due_ms: int, ring: Callable[[list[K]], None], key: K) -> None:
        """Call ``ring`` at ``due_ms`` with ``key`` and its other keys that are due by then, in the
        order of their slots.
        """
        slot = -(-due_ms // _SLOT_MS)
        rings = self._slots.get(slot)
        if rings is None:
            rings = self._slots[slot] = {}
            heapq.heappush(self._upcoming, slot)
            if self._waking is None or slot < self._wakes_for:
                self._wake_for(slot)
        keys = rings.get(ring)
        if keys is None:
            rings[ring] = [key]
        else:
            keys.append(key)

    def ring_due(self) -> int:
        """Ring all due alarms now, before the loop does; return the number of their keys."""
        now = self._clock.wall_ms() // _SLOT_MS
        due: dict[Ring, list[Any]] = {}
        while self._upcoming and self._upcoming[0] <= now:
            for ring, keys in self._slots.pop(heapq.heappop(self._upcoming)).items():
                due.setdefault(ring, []).extend(keys)
        for ring, keys in due.items():
            try:
                ring(keys)
            except Exception:  # noqa: BLE001  the other callbacks are still called
                _LOG.exception("the callback of an alarm failed")
        return sum(map(len, due.values()))

    def close(self) -> None:
        """Drop all alarms."""
        self._closed = True
        self._slots.clear()
        self._upcoming.clear()
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None

    def _wake_for(self, slot: int) -> None:
        if self._closed:
            return
        if self._waking is not None:
            self._waking.cancel()
        self._wakes_for = slot
        left = slot * _SLOT_MS - self._clock.wall_ms()
        wait = min(left, max(_MIN_SLEEP_MS, min(left // 8, _MAX_SLEEP_MS)))
        self._waking = self._loop.call_later(max(0, wait) / 1000, self._awake)

    def _awake(self) -> None:
        self._waking = None
        self.ring_due()
        if self._upcoming and self._waking is None:
            self._wake_for(self._upcoming[0])
