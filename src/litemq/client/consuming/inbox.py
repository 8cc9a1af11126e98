"""The prefetch buffer of a feed: fetched messages that were not taken yet, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice

from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.messages.message import Message

__all__ = ["Inbox"]


class Inbox:
    """Batches of messages in order of arrival; each queue stays in order.

    An error is raised at its position.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._batches: deque[tuple[list[Message], int, QueueReader | None] | Exception] = deque()
        self._bytes = 0
        self._current: Iterator[Message] = iter(())
        self._current_bytes = 0
        self._current_queue: QueueReader | None = None
        self._message_waiters: deque[asyncio.Future[None]] = deque()
        self._space_waiters: deque[asyncio.Future[None]] = deque()
        self._ended = self._finished = False
        self._broken: Exception | None = None

    @property
    def is_broken(self) -> bool:
        """Whether some queues will deliver no more messages."""
        return self._broken is not None

    def put(self, messages: list[Message], size: int, queue: QueueReader) -> None:
        """Add the ``messages`` of a pull from ``queue``, ``size`` bytes in total."""
        self._add(messages, size, queue)

    def _add(self, messages: list[Message], size: int, queue: QueueReader | None) -> None:
        self._batches.append((messages, size, queue))
        self._bytes += size
        self._wake_one(self._message_waiters)

    def fail(self, error: Exception) -> None:
        """Raise ``error`` once, in place of the next message."""
        self._batches.append(error)
        self._wake_one(self._message_waiters)

    def break_off(self, error: Exception) -> None:
        """Raise ``error`` each time the inbox is empty: some queues deliver no more messages."""
        self._broken = error
        while self._message_waiters:
            self._wake_one(self._message_waiters)

    def finish(self) -> None:
        """Deliver the buffered messages, then end."""
        self._finished = True
        while self._message_waiters:
            self._wake_one(self._message_waiters)

    def end(self) -> None:
        """Discard the buffered messages, and end."""
        self._ended = True
        self._batches.clear()
        self._current = iter(())
        while self._message_waiters:
            self._wake_one(self._message_waiters)

    def drop(self, queue: QueueReader) -> int | None:
        """Discard the messages of ``queue``; return the offset of the first one discarded."""
        left: list[Message] = []
        if self._current_queue is queue:
            left += self._current
            self._bytes, self._current_bytes = self._bytes - self._current_bytes, 0
            self._current, self._current_queue = iter(()), None
        for batch in [batch for batch in self._batches if isinstance(batch, tuple) and batch[2] is queue]:
            self._batches.remove(batch)
            left += batch[0]
            self._bytes -= batch[1]
        self._wake_one(self._space_waiters)
        return left[0].queue_offset if left else None

    @staticmethod
    def _wake_one(waiters: deque[asyncio.Future[None]]) -> None:
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def take(self) -> Message | None:
        """Return the next message, or ``None``. Raises an error that was added with ``fail``."""
        message = next(self._current, None)
        while message is None:
            if self._current_bytes:
                self._bytes -= self._current_bytes
                self._current_bytes = 0
                self._wake_one(self._space_waiters)
            if not self._batches:
                return None
            batch = self._batches.popleft()
            if isinstance(batch, Exception):
                raise batch
            messages, self._current_bytes, self._current_queue = batch
            self._current = iter(messages)
            message = next(self._current, None)
        return message

    def take_some(self, limit: int) -> list[Message]:
        """Return up to ``limit`` messages; an empty list: none are there."""
        message = self.take()
        return [] if message is None else [message, *islice(self._current, limit - 1)]

    async def wait(self) -> bool:
        """Wait for a message; return ``False`` when no more will come."""
        while not self._ended and not self._batches:
            if self._broken is not None:
                raise self._broken
            if self._finished:
                return False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._message_waiters.append(waiter)
            await waiter
        return not self._ended

    async def wait_for_space(self, queue: QueueReader | None = None) -> None:  # noqa: ARG002
        """Wait until the inbox is below its bound and takes more messages of ``queue``."""
        while self._bytes >= self._max_bytes:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._space_waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._wake_one(self._space_waiters)  # pass the wake-up on
                raise
        self._wake_one(self._space_waiters)  # another queue may fit, too
