"""Order by key: a message that fails holds the others of its key, and nobody else. No I/O; times are given.

Messages of one queue and ordering key form a lane: only the first of it is handled, and the next one when that is settled. Those without a
key share one lane, so that a topic with one queue and no keys is handled in one order. A failed message stays first in its lane and is tried
again when it is due. What stands behind a first one is *held*: up to a bound for each queue, beyond which the queue waits as a whole.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

__all__ = ["KeyOrder"]

Q = TypeVar("Q")
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

    def take(self) -> tuple[Q, M] | None:
        """The next message that may be handled now, and its queue; it stays first in its lane until ``settled`` or ``failed`` is called."""
        if not self._ready:
            return None
        lane = self._ready.popleft()
        return lane.queue, lane.messages[0]

    def settled(self, queue: Q, key: str, message: M) -> None:
        """The first message of a lane is done with, well or not: the next one may come. Nothing happens where it is not the first."""
        lane = self._lanes.get((queue, key))
        if lane is None or lane.messages[0] is not message:
            return
        lane.messages.popleft()
        if lane.messages:
            self._held[queue] -= 1
            self._ready.append(lane)
        else:
            del self._lanes[queue, key]

    def failed(self, queue: Q, key: str, message: M, again: M, due: float) -> None:
        """The first message of a lane is to be tried again at a time, as ``again``, and before all others of its key."""
        lane = self._lanes.get((queue, key))
        if lane is not None and lane.messages[0] is message:
            lane.messages[0] = again
            heappush(self._due, (due, next(self._numbers), lane))

    def wake(self, now: float) -> float | None:
        """Let what is due be taken; returns when the next one is."""
        while self._due and self._due[0][0] <= now:
            self._ready.append(heappop(self._due)[2])
        return self._due[0][0] if self._due else None

    @property
    def has_ready(self) -> bool:
        """Whether something may be taken now."""
        return bool(self._ready)

    def drop(self, queue: Q, is_kept: Callable[[M], bool] = lambda _: False) -> list[M]:
        """Forget the messages of a queue, but for first ones that are to be kept, since somebody has them. Returns those that were forgotten."""
        dropped: list[M] = []
        for place in [place for place in self._lanes if place[0] == queue]:
            messages = self._lanes[place].messages
            if is_kept(messages[0]):
                dropped += list(messages)[1:]
                self._lanes[place].messages = deque([messages[0]])
            else:
                dropped += messages
                del self._lanes[place]
        del self._held[queue]
        self._due = [entry for entry in self._due if self._is_there(entry[2])]
        heapify(self._due)
        self._ready = deque(lane for lane in self._ready if self._is_there(lane))
        return dropped

    def _is_there(self, lane: _Lane[Q, M]) -> bool:
        return self._lanes.get((lane.queue, lane.key)) is lane
