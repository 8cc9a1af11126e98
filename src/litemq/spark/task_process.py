"""The process in which Spark runs a task's Python: one after another, for as long as the executor lives."""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["freeze_once"]


@cache
def freeze_once() -> None:
    """What was imported stays: the collector need not look at it after each task, which takes longer than a small one."""
    gc.collect()
    gc.freeze()
