"""The decisions that a fuzzer's input makes, read from its bytes in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Choices"]

T = TypeVar("T")


class Choices:
    """Decisions from ``data``. After its end, every further decision is 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        """Whether all bytes have been used."""
        return self._at >= len(self._data)

    def byte(self) -> int:
        """Return the next byte."""
        at = self._at
        self._at = at + 1
        return self._data[at] if at < len(self._data) else 0

    def raw(self, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        at = self._at
        self._at = at + size
        return self._data[at : at + size]

    def integer(self, size: int) -> int:
        """Return an unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.raw(size), "big")

    def pick(self, values: Sequence[T]) -> T:
        """Return one of ``values``, of which there are 1 … 256."""
        return values[self.byte() % len(values)]
