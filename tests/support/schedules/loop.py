"""An event loop as a thread of a schedule: it waits in virtual time, and never for a socket."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from support.schedules.primitives import ScheduledExecutor
from support.schedules.scheduler import Scheduler


class _Selector(selectors.SelectSelector):
    """Waits for a wake-up from another thread, or for the time of the next timer."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self.is_woken = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.is_woken or (timeout is not None and timeout <= 0):
            self._scheduler.step()
        else:
            self._scheduler.wait_for(lambda: self.is_woken, timeout)
        self.is_woken = False
        return []


class ScheduledLoop(asyncio.SelectorEventLoop):
    """An event loop whose every wait is a step of ``scheduler``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._wakes = _Selector(scheduler)
        super().__init__(self._wakes)
        self._executor = ScheduledExecutor(scheduler)

    def time(self) -> float:
        return self._scheduler.now_ns / 1e9

    def _write_to_self(self) -> None:
        self._wakes.is_woken = True
        self._scheduler.step()

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        return super().run_in_executor(executor or self._executor, func, *args)
