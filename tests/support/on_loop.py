"""Asynchronous tests, each on an event loop of its own."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

P = ParamSpec("P")


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """``@on_loop`` above an ``async def``: it runs to its end, and not longer than a test should."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(30):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run
