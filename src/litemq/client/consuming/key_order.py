"""Delivery order by ordering key: a failed message blocks its own key only.

No I/O; callers pass the time.

Messages of one queue and key form a lane. Only the first message of a lane is delivered; the next
one follows when it is settled. Messages without a key share one lane per queue. A failed message
stays first and is retried when it is due. The messages after it are *held*. When a queue holds too
many, no more of it is fetched.
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
    """The unsettled messages of one key in one queue."""

    __slots__ = ("key", "messages", "queue")

    def __init__(self, queue: Q, key: str) -> None:
        self.queue = queue
        self.key = key
        self.messages: deque[M] = deque()


class KeyOrder(Generic[Q, M]):
    """Decides which messages may be delivered now.

    At most ``max_held`` messages of a queue are held.
    """

    def __init__(self, max_held: int) -> None:
        self._max_held = max_held
        self._lanes: dict[tuple[Q, str], _Lane[Q, M]] = {}
        self._held: Counter[Q] = Counter()
        self._ready: deque[_Lane[Q, M]] = deque()
        self._due: list[tuple[float, int, _Lane[Q, M]]] = []
        self._numbers = count()  # breaks ties: the first to fail is the first to be retried

    def add(self, queue: Q, key: str, message: M) -> None:
        """Add a fetched message, after all earlier ones of ``queue``."""
        lane = self._lanes.get((queue, key))
        if lane is None:
            lane = self._lanes[queue, key] = _Lane(queue, key)
            self._ready.append(lane)
        else:
            self._held[queue] += 1
        lane.messages.append(message)

    def held(self, queue: Q) -> int:
        """Return how many messages of ``queue`` wait for another one of their key."""
        return self._held[queue]

    def is_full(self, queue: Q) -> bool:
        """Return whether ``queue`` holds ``max_held`` messages: no more should be fetched."""
        return self._held[queue] >= self._max_held

    def take(self) -> tuple[Q, M] | None:
        """Return the next message to deliver, with its queue, or ``None``.

        It stays first in its lane until ``settled`` or ``failed``.
        """
        if not self._ready:
            return None
        lane = self._ready.popleft()
        return lane.queue, lane.messages[0]

    def settled(self, queue: Q, key: str, message: M) -> None:
        """Remove the first message of a lane and free the next one.

        Ignored if ``message`` is not the first.
        """
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
        """Replace the first message of a lane by ``again``, to be delivered at ``due``."""
        lane = self._lanes.get((queue, key))
        if lane is not None and lane.messages[0] is message:
            lane.messages[0] = again
            heappush(self._due, (due, next(self._numbers), lane))

    def wake(self, now: float) -> float | None:
        """Free the messages that are due at ``now``; return when the next one is due."""
        while self._due and self._due[0][0] <= now:
            self._ready.append(heappop(self._due)[2])
        return self._due[0][0] if self._due else None

    @property
    def has_ready(self) -> bool:
        """Whether ``take`` returns a message."""
        return bool(self._ready)

    def drop(self, queue: Q, is_kept: Callable[[M], bool] = lambda _: False) -> list[M]:
        """Remove and return the messages of ``queue``, except first ones that ``is_kept``."""
        dropped: list[M] = []
        for lane_key in [lane_key for lane_key in self._lanes if lane_key[0] == queue]:
            messages = self._lanes[lane_key].messages
            if is_kept(messages[0]):
                dropped += list(messages)[1:]
                self._lanes[lane_key].messages = deque([messages[0]])
            else:
                dropped += messages
                del self._lanes[lane_key]
        del self._held[queue]
        self._due = [entry for entry in self._due if self._is_there(entry[2])]
        heapify(self._due)
        self._ready = deque(lane for lane in self._ready if self._is_there(lane))
        return dropped

    def _is_there(self, lane: _Lane[Q, M]) -> bool:
        return self._lanes.get((lane.queue, lane.key)) is lane
