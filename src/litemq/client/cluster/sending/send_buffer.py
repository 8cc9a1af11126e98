"""What all sends of a client may take of memory together."""

from __future__ import annotations

import asyncio
from collections import deque

from litemq.errors import BufferFullError, ClientClosedError

__all__ = ["Room"]


class Room:
    """Counts bytes; whoever takes some or gives some back changes ``taken``, and calls ``admit`` where somebody waits."""

    __slots__ = ("_loop", "limit", "taken", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._loop = asyncio.get_running_loop()

    def full(self) -> BufferFullError:
        """What to tell those who do not wait."""
        return BufferFullError(
            f"{self.taken} bytes wait to be sent, and buffer_bytes is {self.limit}: await send() or flush(), or raise it"
        )

    async def wait(self) -> None:
        """Wait until there may be room for one more message; those who wait come in their order."""
        if self.taken < self.limit:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self.waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.admit()  # the place goes to the next
            raise
        finally:
            if waiter in self.waiting:
                self.waiting.remove(waiter)

    def give_back(self, size: int) -> None:
        """So many bytes are free again."""
        self.taken -= size
        if self.waiting:
            self.admit()

    def admit(self) -> None:
        """Let the next one in, if there is room."""
        while self.waiting and self.taken < self.limit:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._loop.call_soon(self.admit)  # one at a time: each takes its room first
                return

    def close(self) -> None:
        """Nobody is let in any more."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ClientClosedError("the client was closed"))
