"""Wait in a test until a condition holds.

The limit only ends a test that hangs: no outcome depends on the speed of the machine.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["HANG_S", "eventually", "wait_until"]

# More than ten times the slowest of these steps, even while other programs keep every core busy.
HANG_S: Final = 120.0


async def eventually(condition: Callable[[], object], within: float = HANG_S) -> None:
    """Poll ``condition`` on the event loop until it is true; fail after ``within`` seconds."""
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, f"still false after {within:g} s"
        await asyncio.sleep(0.005)


def wait_until(condition: Callable[[], object], within: float = HANG_S) -> None:
    """Poll ``condition`` in this thread until it is true; fail after ``within`` seconds."""
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, f"still false after {within:g} s"
        time.sleep(0.005)
