"""Asynchronous tests, each on its own event loop."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from support.waiting import HANG_S

P = ParamSpec("P")


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Decorate an ``async def`` test: run it on its own event loop, and fail if it hangs."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(HANG_S):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run
