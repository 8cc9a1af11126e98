"""Threads that take turns are on one processor: a change of the processor would only cost time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["on_one_processor"]

_STAT: Final = Path("/proc/thread-self/stat")  # Linux
_PROCESSOR: Final = 36  # the field, counted after the name


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep this thread, and those that it starts, on the processor that it is on now."""
    if not _STAT.exists():
        yield
        return
    before = os.sched_getaffinity(0)
    processor = int(_STAT.read_text().rpartition(")")[2].split()[_PROCESSOR])
    os.sched_setaffinity(0, {processor} & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
