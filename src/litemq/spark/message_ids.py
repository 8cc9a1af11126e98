"""Message ids by the thousand, as a client's producer makes them one by one."""

from __future__ import annotations

import secrets
import time
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["MessageIdColumn"]

_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_COUNT_DIGITS: Final = 9


class MessageIdColumn:
    """Message ids of one task: milliseconds, the task's own random part, a count. They rise with time."""

    def __init__(self) -> None:
        self._random = secrets.token_hex(5)
        self._count = 0
        self._ms = 0

    def next(self, count: int) -> tuple[pa.Array, int]:
        """So many ids, and the time in milliseconds that they were made from; neither falls when the clock does."""
        self._ms = max(self._ms, time.time_ns() // 1_000_000)
        prefix = np.frombuffer(f"{self._ms:012x}{self._random}".encode(), np.uint8)
        numbers = np.arange(self._count, self._count + count, dtype=np.int64)
        self._count += count
        width = prefix.size + _COUNT_DIGITS
        texts = np.empty((count, width), np.uint8)
        texts[:, : prefix.size] = prefix
        for digit in range(_COUNT_DIGITS):
            texts[:, width - 1 - digit] = _DIGITS[(numbers >> 4 * digit) & 15]
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)]), self._ms
