"""Message ids in bulk, in the format of a client's producer."""

from __future__ import annotations

import secrets
import time
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["MessageIdColumn"]

_LOW: Final = 4096  # values of the last three hex digits
_LAST_DIGITS: Final = np.frombuffer("".join(f"{number:03x}" for number in range(_LOW)).encode(), np.uint8).reshape(
    _LOW, 3
)


class MessageIdColumn:
    """Message ids of one task: milliseconds, a random part per task, a counter.

    They increase with time.
    """

    def __init__(self) -> None:
        self._random = secrets.token_hex(5)
        self._count = 0
        self._ms = 0

    def next(self, count: int) -> tuple[pa.Array, int]:
        """Return ``count`` ids and their time (ms). Neither decreases if the clock goes back."""
        self._ms = max(self._ms, time.time_ns() // 1_000_000)
        first, stop = self._count, self._count + count
        self._count = stop
        width = len(f"{self._prefix(0)}000")
        texts = np.empty((count, width), np.uint8)
        texts[:, -3:] = _LAST_DIGITS[np.arange(first, stop) % _LOW]
        for high in range(first // _LOW, -(-stop // _LOW)):
            begin, end = max(high * _LOW, first) - first, min((high + 1) * _LOW, stop) - first
            texts[begin:end, :-3] = np.frombuffer(self._prefix(high).encode(), np.uint8)
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)]), self._ms

    def _prefix(self, high: int) -> str:
        return f"{self._ms:012x}{self._random}{high:06x}"
