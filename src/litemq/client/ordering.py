"""Order by key: a message that fails holds the others of its key, and nobody else. No I/O; times are given.

Messages of one queue and ordering key form a lane: only the first of it is handled, and the next one when that is settled. Those without a
key share one lane, so that a topic with one queue and no keys is handled in one order. A failed message stays first in its lane and is tried
again when it is due. What stands behind a first one is *held*: up to a bound for each queue, beyond which the queue waits as a whole.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

__all__ = ["KeyOrder"]

Q = TypeVar("Q", bound=Hashable)
M = TypeVar("M")


class _Lane(Generic[Q, M]):
    """The messages of one key in one queue that were not settled yet."""

    __slots__ = ("key", "messages", "queue")

    def __init__(self, queue: Q, key: str) -> None:
        self.queue = queue
        self.key = key
        self.messages: deque[M] = deque()


class KeyOrder(Generic[Q, M]):
    """Which messages may be handled now."""

    def __init__(self, max_held: int) -> None:
        self._max_held = max_held
        self._lanes: dict[tuple[Q, str], _Lane[Q, M]] = {}
        self._held: Counter[Q] = Counter()
        self._ready: deque[_Lane[Q, M]] = deque()
        self._due: list[tuple[float, int, _Lane[Q, M]]] = []
        self._numbers = count()  # of two that are due at once the first to fail is first

    def add(self, queue: Q, key: str, message: M) -> None:
        """A message came, behind all those of its queue that came before."""
        lane = self._lanes.get((queue, key))
        if lane is None:
            lane = self._lanes[queue, key] = _Lane(queue, key)
            self._ready.append(lane)
        else:
            self._held[queue] += 1
        lane.messages.append(message)

    def held(self, queue: Q) -> int:
        """How many messages of a queue wait behind another one of their key."""
        return self._held[queue]

    def is_full(self, queue: Q) -> bool:
        """Whether so many are held that no more of this queue should come."""
        return self._held[queue] >= self._max_held

    def take(self) -> M | None:
        """The next message that may be handled now; it stays first in its lane until ``settled`` or ``failed`` is called."""
        while self._ready:
            lane = self._ready.popleft()
            if self._lanes.get((lane.queue, lane.key)) is lane:  # else its queue was dropped
                return lane.messages[0]
        return None

    def settled(self, queue: Q, key: str) -> None:
        """The message of this lane that was taken is done with, well or not: the next one may come. Nothing happens where there is none."""
        lane = self._lanes.get((queue, key))
        if lane is None:
            return
        lane.messages.popleft()
        if lane.messages:
            self._held[queue] -= 1
            self._ready.append(lane)
        else:
            del self._lanes[queue, key]

    def failed(self, queue: Q, key: str, due: float) -> None:
        """The message of this lane that was taken is to be tried again at a time, before all others of its key."""
        lane = self._lanes.get((queue, key))
        if lane is not None:
            heappush(self._due, (due, next(self._numbers), lane))

    def wake(self, now: float) -> float | None:
        """Let what is due be taken; returns when the next one is."""
        while self._due and self._due[0][0] <= now:
            self._ready.append(heappop(self._due)[2])
        return self._due[0][0] if self._due else None

    def drop(self, queue: Q) -> None:
        """A queue is another's by now: none of its messages is to be handled here."""
        for place in [place for place in self._lanes if place[0] == queue]:
            del self._lanes[place]
        del self._held[queue]
        self._due = [entry for entry in self._due if entry[2].queue != queue]
