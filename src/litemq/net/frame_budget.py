"""A memory budget for the unfinished frames of all connections of a server.

A connection that receives a long frame reserves its bytes first. If the budget is used up, the
connection waits without reading, so the frame stays in the peer's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["FREE_FRAME_BYTES", "FrameBudget"]

FREE_FRAME_BYTES: Final = 64 << 10  # shorter frames need no reservation


class FrameBudget:
    """The reservations of one server's connections, on its event loop."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._reserved: dict[object, int] = {}
        self._waiting: dict[object, tuple[int, Callable[[], None]]] = {}  # in their order

    @property
    def is_contended(self) -> bool:
        """Whether a connection waits for another to finish its frame."""
        return bool(self._waiting)

    def reserve(self, owner: object, size: int, resume: Callable[[], None]) -> bool:
        """Reserve ``size`` bytes for ``owner``.

        If there is no space, return ``False``, and call ``resume`` when there is. Then the bytes
        are reserved.
        """
        if owner in self._reserved:
            return True
        if self._waiting or size > self._free:
            self._waiting[owner] = size, resume
            return False
        self._free -= size
        self._reserved[owner] = size
        return True

    def release(self, owner: object) -> None:
        """Give back the bytes of ``owner``, whose frame is complete or whose connection ended."""
        self._waiting.pop(owner, None)
        self._free += self._reserved.pop(owner, 0)
        while self._waiting:
            following, (size, resume) = next(iter(self._waiting.items()))
            if size > self._free:
                break
            del self._waiting[following]
            self._free -= size
            self._reserved[following] = size
            resume()
