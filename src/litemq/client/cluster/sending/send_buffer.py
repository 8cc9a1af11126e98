"""The send buffer: the limit on the bytes of unsent and unacknowledged messages of one client."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from litemq.client import native
from litemq.errors import BufferFullError, ClientClosedError

__all__ = ["ByteCount", "PythonByteCount", "SendBuffer"]


class PythonByteCount:
    """The bytes that are used, and their limit."""

    __slots__ = ("limit", "used")

    used: int
    limit: int


if TYPE_CHECKING:
    ByteCount = native.sending.ByteCount
else:
    ByteCount = native.sending.ByteCount if native.enabled else PythonByteCount


class SendBuffer(ByteCount):
    """A byte counter with waiters.

    Senders add to ``used`` directly. To return bytes, call ``release``, or change ``used`` and call
    ``admit``.
    """

    __slots__ = ("_loop", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._loop = asyncio.get_running_loop()

    def full_error(self) -> BufferFullError:
        """Return the error for a sender that does not wait."""
        return BufferFullError(
            f"{self.used} bytes wait to be sent, and buffer_bytes is {self.limit}: "
            "await send() or flush(), or raise buffer_bytes"
        )

    async def wait(self) -> None:
        """Wait until the buffer takes one more message; waiters are admitted in order."""
        if self.used < self.limit:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self.waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.admit()  # pass the admission on to the next waiter
            raise
        finally:
            if waiter in self.waiting:
                self.waiting.remove(waiter)

    def release(self, size: int) -> None:
        """Return ``size`` bytes to the buffer and admit the next waiter."""
        self.used -= size
        if self.waiting:
            self.admit()

    def admit(self) -> None:
        """Admit the next waiter if the buffer is not full."""
        while self.waiting and self.used < self.limit:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._loop.call_soon(self.admit)  # one at a time: each adds its bytes before the next is admitted
                return

    def close(self) -> None:
        """Fail all waiters."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ClientClosedError("the client was closed while this send waited for buffer space"))
