"""Asynchronous tests, each on an event loop of its own."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from support.waiting import HANG_S

P = ParamSpec("P")


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """``@on_loop`` above an ``async def``: it runs to its end, and fails where it hangs."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(HANG_S):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run
