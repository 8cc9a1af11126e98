"""How far a queue has been acknowledged: everything below an offset, and single messages above it."""

from __future__ import annotations

import asyncio

__all__ = ["AckedOffsets"]


class AckedOffsets:
    """``done`` is the offset that may be committed: all messages below it are acknowledged."""

    __slots__ = ("_above", "_awaited", "_passed", "_reached", "committed", "done")

    def __init__(self, done: int) -> None:
        self.done = done
        self.committed = done  # what the broker is known to have
        self._above: set[int] = set()
        self._passed: dict[int, int] = {}  # runs above it that nobody has to acknowledge, by where they begin
        self._awaited = -1
        self._reached: asyncio.Future[None] | None = None

    def ack(self, offset: int) -> None:
        """One message is done."""
        if offset != self.done:
            if offset > self.done:
                self._above.add(offset)
            return
        self.done += 1
        above = self._above
        while above and self.done in above:
            above.remove(self.done)
            self.done += 1
        if self._passed:
            self._follow()
        if self._reached is not None:
            self._tell()

    def pass_by(self, begin: int, end: int) -> None:
        """These are nobody's to acknowledge: a filter does not want them, or they cannot be read. What stands before them still is."""
        begin = max(begin, self.done)
        if begin < end:
            self._passed[begin] = max(end, self._passed.get(begin, end))
            self._follow()
            if self._reached is not None:
                self._tell()

    def is_done(self, offset: int) -> bool:
        """Whether a message was acknowledged."""
        return offset < self.done or offset in self._above

    def _follow(self) -> None:
        """Go on over what is done right behind what is."""
        while True:
            if self.done in self._above:
                self._above.remove(self.done)
                self.done += 1
            elif self.done in self._passed:
                self.done = self._passed.pop(self.done)
            else:
                return

    def skip_to(self, offset: int) -> None:
        """What is below is no longer to be had, or was done by another."""
        if offset > self.done:
            self.done = offset
            self._above = {acked for acked in self._above if acked >= offset}
            self._passed = {max(begin, offset): end for begin, end in self._passed.items() if end > offset}
            self._follow()
        if self._reached is not None:
            self._tell()

    async def wait_done(self, offset: int) -> None:
        """Wait until everything below ``offset`` is acknowledged."""
        if self.done < offset:
            self._awaited, self._reached = offset, asyncio.get_running_loop().create_future()
            try:
                await self._reached
            finally:
                self._reached = None

    def _tell(self) -> None:
        if self.done >= self._awaited and self._reached is not None and not self._reached.done():
            self._reached.set_result(None)

    def wants_commit(self) -> bool:
        """Whether the broker does not know yet how far it is."""
        return self.done > self.committed
