"""What was fetched and not yet taken, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.messages.message import Message

__all__ = ["Inbox"]


class Inbox:
    """Batches of messages in the order in which they came; those of a queue stay in order. An error stands where it happened."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._batches: deque[tuple[list[Message], int, QueueReader | None] | Exception] = deque()
        self._bytes = 0
        self._present: Iterator[Message] = iter(())
        self._present_bytes = 0
        self._present_queue: QueueReader | None = None
        self._wanted: deque[asyncio.Future[None]] = deque()
        self._room: deque[asyncio.Future[None]] = deque()
        self._ended = self._finished = False
        self._broken: Exception | None = None

    @property
    def is_broken(self) -> bool:
        """Whether nothing will come any more from some queues."""
        return self._broken is not None

    def put(self, messages: list[Message], size: int, queue: QueueReader) -> None:
        """Add what was pulled from a queue."""
        self._add(messages, size, queue)

    def _add(self, messages: list[Message], size: int, queue: QueueReader | None) -> None:
        self._batches.append((messages, size, queue))
        self._bytes += size
        self._tell(self._wanted)

    def fail(self, error: Exception) -> None:
        """Whoever takes the next message gets this instead, once."""
        self._batches.append(error)
        self._tell(self._wanted)

    def break_off(self, error: Exception) -> None:
        """Nothing will come any more from some queues: whoever has taken all that is here gets this, again and again."""
        self._broken = error
        while self._wanted:
            self._tell(self._wanted)

    def finish(self) -> None:
        """No more will come; what is here is still given out."""
        self._finished = True
        while self._wanted:
            self._tell(self._wanted)

    def end(self) -> None:
        """No more is given out."""
        self._ended = True
        self._batches.clear()
        self._present = iter(())
        while self._wanted:
            self._tell(self._wanted)

    def drop(self, queue: QueueReader) -> int | None:
        """Give out nothing more of a queue; returns the offset of the first message that was here and not taken."""
        left: list[Message] = []
        if self._present_queue is queue:
            left += self._present
            self._bytes, self._present_bytes = self._bytes - self._present_bytes, 0
            self._present, self._present_queue = iter(()), None
        for batch in [batch for batch in self._batches if isinstance(batch, tuple) and batch[2] is queue]:
            self._batches.remove(batch)
            left += batch[0]
            self._bytes -= batch[1]
        self._tell(self._room)
        return left[0].queue_offset if left else None

    @staticmethod
    def _tell(waiters: deque[asyncio.Future[None]]) -> None:
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def take(self) -> Message | None:
        """The next message, if one is here. Raises the error that stands in its place."""
        message = next(self._present, None)
        while message is None:
            if self._present_bytes:
                self._bytes -= self._present_bytes
                self._present_bytes = 0
                self._tell(self._room)
            if not self._batches:
                return None
            batch = self._batches.popleft()
            if isinstance(batch, Exception):
                raise batch
            messages, self._present_bytes, self._present_queue = batch
            self._present = iter(messages)
            message = next(self._present, None)
        return message

    async def wait(self) -> bool:
        """Wait until there may be something; ``False`` when no more will come."""
        while not self._ended and not self._batches:
            if self._broken is not None:
                raise self._broken
            if self._finished:
                return False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wanted.append(waiter)
            await waiter
        return not self._ended

    async def wait_for_room(self, queue: QueueReader | None = None) -> None:  # noqa: ARG002  here all queues share it
        """Wait until what is here is below the bound, and more of a queue may come."""
        while self._bytes >= self._max_bytes:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._tell(self._room)  # its turn is another's
                raise
        self._tell(self._room)  # there may be room for another queue, too
