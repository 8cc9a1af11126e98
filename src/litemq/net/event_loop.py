"""The event loop of servers and commands: uvloop if installed, else asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["new_event_loop", "run"]

T = TypeVar("T")


def _factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop of the fastest kind available."""
    return _factory()()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to completion on a new event loop."""
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(main)
