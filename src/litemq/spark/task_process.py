"""Set-up of the process in which Spark runs the Python of tasks, one after another."""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["freeze_once"]


@cache
def freeze_once() -> None:
    """Exclude imported modules from garbage collection; scanning them outlasts a small task."""
    gc.collect()
    gc.freeze()
