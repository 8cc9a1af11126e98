"""Acknowledged offsets of one queue: the finished prefix, and single messages above it. No I/O."""

from __future__ import annotations

import asyncio

__all__ = ["AckWindow"]


class AckWindow:
    """The acknowledged offsets of one queue.

    All messages below ``done`` are acknowledged and may be committed.
    """

    __slots__ = ("_above", "_awaited_offset", "_skipped", "_waiter", "committed", "done")

    def __init__(self, done: int) -> None:
        self.done = done
        self.committed = done  # the offset that the broker has
        self._above: set[int] = set()
        self._skipped: dict[int, int] = {}  # ends of skipped ranges above ``done``, by their begin
        self._awaited_offset = -1
        self._waiter: asyncio.Future[None] | None = None

    def ack(self, offset: int) -> None:
        """Acknowledge the message at ``offset``."""
        if offset != self.done:
            if offset > self.done:
                self._above.add(offset)
            return
        self.done += 1
        above = self._above
        while above and self.done in above:
            above.remove(self.done)
            self.done += 1
        if self._skipped:
            self._advance()
        if self._waiter is not None:
            self._notify()

    def ack_run(self, offset: int, count: int) -> None:
        """Acknowledge ``count`` messages from ``offset`` on."""
        if offset == self.done and not self._above and not self._skipped:
            self.done += count
            if self._waiter is not None:
                self._notify()
            return
        for each in range(offset, offset + count):
            self.ack(each)

    def skip_range(self, begin: int, end: int) -> None:
        """Treat offsets ``begin`` to before ``end`` as acknowledged.

        They are filtered out, or unreadable. Offsets below ``begin`` must still be acknowledged.
        """
        begin = max(begin, self.done)
        if begin < end:
            self._skipped[begin] = max(end, self._skipped.get(begin, end))
            self._advance()
            if self._waiter is not None:
                self._notify()

    def is_done(self, offset: int) -> bool:
        """Return whether the message at ``offset`` is acknowledged."""
        return offset < self.done or offset in self._above

    def _advance(self) -> None:
        """Move ``done`` across the acknowledged and skipped offsets that follow it."""
        while True:
            if self.done in self._above:
                self._above.remove(self.done)
                self.done += 1
            elif self.done in self._skipped:
                self.done = self._skipped.pop(self.done)
            else:
                return

    def skip_to(self, offset: int) -> None:
        """Treat all offsets below ``offset`` as acknowledged.

        They are gone, or another consumer did them.
        """
        if offset > self.done:
            self.done = offset
            self._above = {acked for acked in self._above if acked >= offset}
            self._skipped = {max(begin, offset): end for begin, end in self._skipped.items() if end > offset}
            self._advance()
        if self._waiter is not None:
            self._notify()

    async def wait_done(self, offset: int) -> None:
        """Wait until all messages below ``offset`` are acknowledged."""
        if self.done < offset:
            self._awaited_offset, self._waiter = offset, asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _notify(self) -> None:
        if self.done >= self._awaited_offset and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def needs_commit(self) -> bool:
        """Return whether ``done`` is ahead of the committed offset."""
        return self.done > self.committed
