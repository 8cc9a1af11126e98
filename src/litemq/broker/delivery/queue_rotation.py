"""Queue rotation: the order in which a group takes messages from the queues of a topic.

No I/O, no clock.

If a topic has priorities, each queue is eight, one for each class of 32 priorities: ``queue × 8 +
priority // 32``. Class 7 has the priorities 224 … 255, which come first.

*Strict*: all messages of a higher class before those of a lower one. A class is starved after
``STARVED_AFTER`` messages of others, and gets a share first. *Weighted*: class c gets c + 1
messages for each one of class 0, as long as each class has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from litemq.types import PRIORITY_CLASSES

__all__ = ["STARVED_AFTER", "QueueRotation", "Take"]

STARVED_AFTER: Final = 1000
_ONE_IN: Final = 16  # the share of a class that is starved
_WEIGHTS: Final = tuple(number + 1 for number in range(PRIORITY_CLASSES))
_STEP: Final = 840  # divisible by each weight

# Takes up to a number of messages of a queue and returns their number; ``None`` ends the rotation.
Take = Callable[[int, int], int | None]


class QueueRotation:
    """The rotation of one group and topic."""

    __slots__ = ("_classes", "_first", "_passed", "_queues", "_served", "_weighted")

    def __init__(self, queue_ids: int, *, has_priorities: bool = False, weighted: bool = False) -> None:
        self._classes = PRIORITY_CLASSES if has_priorities else 1
        self._queues = queue_ids // self._classes
        self._weighted = weighted and has_priorities
        self._first = 0  # the queue to begin with, another one each time
        self._passed = [0] * self._classes  # messages of others since this class gave some, or had none
        self._served = [0] * self._classes  # weighted: messages of each class, divided by its weight

    def take(self, limit: int, take: Take) -> int:
        """Call ``take`` for one queue after another until there are ``limit`` messages, or no more;
        return their number.
        """
        first, self._first = self._first, (self._first + 1) % max(1, self._queues)
        taken = [0] * self._classes
        empty = [False] * self._classes
        left = limit
        for number, share in self._shares(limit):
            if not left:
                break
            if empty[number]:
                continue
            wanted = min(share, left)
            for queue in range(self._queues):
                got = take((first + queue) % self._queues * self._classes + number, wanted)
                if got is None:
                    self._count(taken, empty)
                    return limit - left
                taken[number] += got
                left -= got
                wanted -= got
                if not wanted:
                    break
            else:
                empty[number] = True
        self._count(taken, empty)
        return limit - left

    def _shares(self, limit: int) -> Iterator[tuple[int, int]]:
        """Yield the next class, and the number of messages that it may give."""
        if self._weighted:
            total = sum(_WEIGHTS)
            for number in sorted(range(self._classes), key=lambda number: (self._served[number], -number)):
                # Rounded up. A class that gets less because it comes last is the first next time.
                yield number, -(-limit * _WEIGHTS[number] // total)
        else:
            for number, passed in enumerate(self._passed):
                if passed >= STARVED_AFTER:
                    yield number, max(1, limit // _ONE_IN)
        for number in reversed(range(self._classes)):
            yield number, limit

    def _count(self, taken: list[int], empty: list[bool]) -> None:
        total = sum(taken)
        for number, count in enumerate(taken):
            self._passed[number] = 0 if count or empty[number] else self._passed[number] + total
            self._served[number] += count * _STEP // _WEIGHTS[number]
        # An empty class saves up no share for later.
        busy = [self._served[number] for number in range(self._classes) if not empty[number]]
        for number in range(self._classes):
            if empty[number] and busy:
                self._served[number] = max(self._served[number], min(busy))
