"""How far a queue has been acknowledged: everything below an offset, and single messages above it. No I/O."""

from __future__ import annotations

__all__ = ["AckedOffsets"]


class AckedOffsets:
    """``done`` is the offset that may be committed: all messages below it are acknowledged."""

    __slots__ = ("_above", "committed", "done")

    def __init__(self, done: int) -> None:
        self.done = done
        self.committed = done  # what the broker is known to have
        self._above: set[int] = set()

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

    def skip_to(self, offset: int) -> None:
        """What is below is no longer to be had, or was done by another."""
        if offset > self.done:
            self.done = offset
            self._above = {acked for acked in self._above if acked >= offset}
            while self.done in self._above:
                self._above.remove(self.done)
                self.done += 1

    def wants_commit(self) -> bool:
        """Whether the broker does not know yet how far it is."""
        return self.done > self.committed
