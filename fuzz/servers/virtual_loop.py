"""An event loop in the time of a fake clock, without sockets and threads.

The same input gives the same run: timers fire when the input advances the clock, and work for an
executor runs at once.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from litemq.clock import FakeClock

__all__ = ["VirtualLoop"]

_MAX_TICKS: Final = 20_000
T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in the time of ``clock``, which collects the errors that nobody handled."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.connect: Callable[[], asyncio.Protocol] | None = None  # of the server that listens
        self.unhandled: list[str] = []
        super().__init__()
        self._clock_resolution = 1e-6  # a float of many seconds is not more precise
        self.set_exception_handler(self._note)

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self.unhandled.append(f"{context['message']}\n{trace}")

    def time(self) -> float:
        return self.clock.elapsed_ns() / 1e9

    def run_in_executor(self, _executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        futures: list[asyncio.Future[Any]] = [self.create_future()]
        try:
            futures[0].set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the caller takes it from the future
            futures[0].set_exception(error)
        return futures.pop()  # its error has this frame: no variable may lead back to it

    async def create_server(self, factory: Callable[[], asyncio.Protocol], *_args: Any, **_options: Any) -> Any:  # type: ignore[override]
        """Listen nowhere: connections begin with ``connect``."""
        self.connect = factory
        return _Listening()

    def play(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end."""
        return self.run_until_complete(work)

    async def settle(self) -> None:
        """Run until nothing is left to do at this time. Fail if that never happens."""
        for _ in range(_MAX_TICKS):
            await asyncio.sleep(0)
            if not self._is_busy():
                return
        waiting = [*self._ready, *self._scheduled[:3]]  # type: ignore[attr-defined]
        raise AssertionError(f"the server is still busy after {_MAX_TICKS} ticks at the same time: {waiting}")

    async def advance(self, seconds: float) -> None:
        """Move the clock forward and do all work that is due then."""
        self.clock.advance(seconds)
        await self.settle()

    def _is_busy(self) -> bool:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return bool(self._ready) or (bool(scheduled) and scheduled[0].when() <= self.time())  # type: ignore[attr-defined]


class _Socket:
    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 9875


class _Listening:
    """The part of ``asyncio.Server`` that a ``FrameServer`` uses."""

    sockets = (_Socket(),)

    def close(self) -> None:
        pass
