"""Errors that only the garbage collector can free, because their tracebacks are part of a cycle.

Each keeps the variables of the calls that it passed through, so a client that causes many of them
fills the broker's memory with buffers until the collector runs, and the collector stalls others.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_error_in_cycles() -> Iterator[None]:
    """Assert that no error in a cycle is left behind by the block."""
    gc.collect()
    was_enabled, debug = gc.isenabled(), gc.get_debug()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [repr(each) for each in gc.garbage if isinstance(each, BaseException) and each.__traceback__]
    finally:
        gc.set_debug(debug)
        gc.garbage.clear()
        if was_enabled:
            gc.enable()
    assert not found, f"{len(found)} errors are in cycles, for example {sorted(set(found))[:5]}"
