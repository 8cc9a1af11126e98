"""The C heap: what was freed goes back to the system."""

import ctypes
from pathlib import Path

import pytest

from litemq.server.heap import trim_heap

BLOCK, COUNT = 5000, 20_000


def _anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot trim its heap")
def test_freed_memory_goes_back_to_the_system() -> None:
    blocks = [bytes(BLOCK) for _ in range(COUNT)]
    kept = blocks[-1:]  # above the others: the heap cannot shrink by itself
    del blocks
    before = _anonymous_bytes()
    trim_heap()
    assert before - _anonymous_bytes() > BLOCK * COUNT // 2
    assert len(kept) == 1
