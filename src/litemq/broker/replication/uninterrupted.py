"""Work in a thread that a cancelled task still waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["uninterrupted"]

T = TypeVar("T")


async def uninterrupted(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread, and wait for its end even if the caller is cancelled.

    Otherwise the next role of a replica would use its store while this one still changes it.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
