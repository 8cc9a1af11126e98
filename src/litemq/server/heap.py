"""The C heap of a server: memory that was freed goes back to the system.

The allocator keeps freed memory, for example after a recovery or after many connections: up to a
third of what the process takes.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

__all__ = ["trim_heap", "trim_heap_regularly"]

_INTERVAL_S: Final = 60.0  # trimming takes some milliseconds


def trim_heap() -> None:
    """Give free memory back, if the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


async def trim_heap_regularly() -> None:
    """Trim the heap now, and every minute until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await loop.run_in_executor(None, trim_heap)
        await asyncio.sleep(_INTERVAL_S)
