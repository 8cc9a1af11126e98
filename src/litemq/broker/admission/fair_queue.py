"""The fair queue of sends: which requests are next while callers send more than the disk takes.

The log is flushed in order, so one caller that sends as fast as it can would delay all others.
While few bytes are unconfirmed, no request waits. Above that, each caller may add a small share,
which is enough for most. Its other requests wait in a queue of their own. When the disk has caught
up, the broker takes the same number of bytes from each queue. A request that does not fit into its
caller's queue is refused.

A caller that is alone may fill the log up to the broker's limit.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import Final

from litemq.broker.runtime.caller import Caller
from litemq.net.frame import Frame

__all__ = ["FREE_BYTES", "FairQueue", "WaitingSend"]

FREE_BYTES: Final = 1 << 20  # while fewer bytes are unconfirmed, no request waits
_OWN_BYTES: Final = 256 << 10  # each caller may add these beyond that
_MAX_QUEUE_BYTES: Final = 32 << 20
_MIN_QUEUE_BYTES: Final = 1 << 20
_REMEMBERED_S: Final = 1.0

# The caller, the frame, the topic id, the queue id.
WaitingSend = tuple[Caller, Frame, int, int]


class FairQueue:
    """The queues of all callers. Pure: ``now`` is the time of a monotonic clock."""

    def __init__(self, max_bytes: int) -> None:
        """``max_bytes`` bounds the waiting requests, and the unconfirmed bytes of a lone caller."""
        self._max_bytes = max_bytes
        self._queues: dict[Caller, deque[WaitingSend]] = {}
        self._sizes: dict[Caller, int] = {}
        self._added: dict[Caller, int] = {}  # since the disk last caught up
        self._seen_at: dict[Caller, float] = {}

    @property
    def is_empty(self) -> bool:
        return not self._queues

    @property
    def size(self) -> int:
        """The number of bytes that wait."""
        return sum(self._sizes.values())

    def may_pass(self, caller: Caller, size: int, unconfirmed: int, now: float) -> bool:
        """Return whether a request of ``size`` bytes is appended now.

        If not, the caller calls ``join``.
        """
        self._seen_at[caller] = now
        if caller in self._queues:
            return False  # earlier requests of this caller wait
        added = self._added.get(caller, 0) + size
        if (
            unconfirmed > FREE_BYTES
            and added > _OWN_BYTES
            and not (unconfirmed <= self._max_bytes and self._is_alone(caller, now))
        ):
            return False
        self._added[caller] = added
        return True

    def _is_alone(self, caller: Caller, now: float) -> bool:
        return not any(other is not caller and now - seen < _REMEMBERED_S for other, seen in self._seen_at.items())

    def join(self, waiting: WaitingSend) -> bool:
        """Put a request into the queue of its caller; return ``False`` if the queue is full."""
        caller, frame = waiting[:2]
        size = self._sizes.get(caller, 0) + len(frame[4])
        max_bytes = max(_MIN_QUEUE_BYTES, min(_MAX_QUEUE_BYTES, self._max_bytes // (len(self._queues) + 1)))
        if size > max_bytes and caller in self._queues:
            return False
        self._queues.setdefault(caller, deque()).append(waiting)
        self._sizes[caller] = size
        return True

    def take_next(self, now: float) -> list[WaitingSend]:
        """Take the next requests: the same share of each queue, about ``FREE_BYTES`` in total."""
        self._added.clear()
        for caller in [caller for caller, seen in self._seen_at.items() if now - seen > _REMEMBERED_S]:
            del self._seen_at[caller]
        taken: list[WaitingSend] = []
        budget = FREE_BYTES
        while self._queues and budget > 0:
            share = budget // len(self._queues)
            for caller in list(self._queues):
                budget -= self._take(caller, share, taken)
        return taken

    def _take(self, caller: Caller, share: int, taken: list[WaitingSend]) -> int:
        """Take at least one request of ``caller``, and as many as fit into ``share`` bytes."""
        queue = self._queues[caller]
        size = 0
        while queue and (not size or size + len(queue[0][1][4]) <= share):
            waiting = queue.popleft()
            taken.append(waiting)
            size += len(waiting[1][4])
        if queue:
            self._sizes[caller] -= size
        else:
            self.forget(caller)
        return max(size, 1)

    def forget(self, caller: Caller) -> None:
        """Drop the queue of ``caller``."""
        self._queues.pop(caller, None)
        self._sizes.pop(caller, None)

    def clear(self) -> list[WaitingSend]:
        """Take all requests, in no fair order."""
        waiting = list(chain.from_iterable(self._queues.values()))
        self._queues.clear()
        self._sizes.clear()
        return waiting
