"""The event loop of a simulation: virtual time, processes, and a network of its own."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import Server
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from typing import TYPE_CHECKING, Any

from support.schedules.loop import ScheduledLoop
from support.sim.process import PROCESS, Process
from support.sim.scheduler import SimulationScheduler

if TYPE_CHECKING:
    from support.sim.network import Network

__all__ = ["SimulationLoop"]


class _Handle(asyncio.Handle):
    """A callback that runs only while its process may run."""

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    """A callback at a time, which runs only while its process may run."""

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is that of its number, not of its address."""

    def __init__(self, number: int, *arguments: Any, **options: Any) -> None:
        self._number = number  # first: to register a task needs its hash
        super().__init__(*arguments, **options)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """A future whose place in a set is that of its number, not of its address."""

    def __init__(self, number: int, *arguments: Any, **options: Any) -> None:
        self._number = number  # first: to register a task needs its hash
        super().__init__(*arguments, **options)
        self.process = PROCESS.get()

    def __hash__(self) -> int:
        return self._number


class SimulationLoop(ScheduledLoop):
    """One event loop for all processes. A callback belongs to the process of its context."""

    def __init__(self, scheduler: SimulationScheduler) -> None:
        super().__init__(scheduler)
        self.network: Network
        self._numbers = count(1)
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> _Task:
        return _Task(next(self._numbers), main, loop=self, context=context)

    def create_future(self) -> _Future:
        return _Future(next(self._numbers), loop=self)

    def _call_soon(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> _Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def resume(self, process: Process) -> None:
        """Let a paused process go on with the callbacks that were due."""
        process.is_paused = False
        self._ready.extend(process.deferred)  # type: ignore[attr-defined]
        process.deferred = []

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_options: object
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_options: object
    ) -> Server:
        return self.network.listen(protocol_factory, host, port)  # type: ignore[return-value]
