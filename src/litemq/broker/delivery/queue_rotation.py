"""Whose turn it is among the queues of a topic that a group takes messages of. No I/O, no clock.

Where a topic has priorities, each queue is eight, one for each class of 32 priorities: ``queue × 8 + priority // 32``. Class 7 has the
priorities 224 … 255, which come first.

*Strict*: everything of a higher class before anything of a lower one; but of a class that has waited while ``PATIENCE`` messages of others went
by, some are taken first. *Weighted*: class c gets c + 1 messages where class 0 gets one, as long as each has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from litemq.types import PRIORITY_CLASSES

__all__ = ["PATIENCE", "QueueTurns", "Take"]

PATIENCE: Final = 1000
_ONE_IN: Final = 16  # of what is asked for, this part goes to a class that has waited for too long
_WEIGHTS: Final = tuple(number + 1 for number in range(PRIORITY_CLASSES))
_STEP: Final = 840  # divisible by each weight

# Takes up to so many messages of a queue and says how many there were; ``None``: no more of any queue, for another reason.
Take = Callable[[int, int], int | None]


class QueueTurns:
    """The order in which one group takes from the queues of one topic."""

    __slots__ = ("_classes", "_first", "_passed", "_queues", "_served", "_weighted")

    def __init__(self, queue_ids: int, *, has_priorities: bool = False, weighted: bool = False) -> None:
        self._classes = PRIORITY_CLASSES if has_priorities else 1
        self._queues = queue_ids // self._classes
        self._weighted = weighted and has_priorities
        self._first = 0  # the queue to begin with, another one each time
        self._passed = [0] * self._classes  # messages of others since this class gave some, or had none
        self._served = [0] * self._classes  # weighted: what each class has given, divided by its weight

    def take(self, most: int, take: Take) -> int:
        """Call ``take`` for one queue after another until there are ``most`` messages, or no more; returns how many there are."""
        first, self._first = self._first, (self._first + 1) % max(1, self._queues)
        taken = [0] * self._classes
        empty = [False] * self._classes
        left = most
        for number, share in self._shares(most):
            if not left:
                break
            if empty[number]:
                continue
            wanted = min(share, left)
            for queue in range(self._queues):
                got = take((first + queue) % self._queues * self._classes + number, wanted)
                if got is None:
                    self._count(taken, empty)
                    return most - left
                taken[number] += got
                left -= got
                wanted -= got
                if not wanted:
                    break
            else:
                empty[number] = True
        self._count(taken, empty)
        return most - left

    def _shares(self, most: int) -> Iterator[tuple[int, int]]:
        """Which class next, and how many of it at most."""
        if self._weighted:
            total = sum(_WEIGHTS)
            for number in sorted(range(self._classes), key=lambda number: (self._served[number], -number)):
                yield number, -(-most * _WEIGHTS[number] // total)  # rounded up: who comes last and gets less is the first next time
        else:
            for number, passed in enumerate(self._passed):
                if passed >= PATIENCE:
                    yield number, max(1, most // _ONE_IN)
        for number in reversed(range(self._classes)):
            yield number, most

    def _count(self, taken: list[int], empty: list[bool]) -> None:
        total = sum(taken)
        for number, count in enumerate(taken):
            self._passed[number] = 0 if count or empty[number] else self._passed[number] + total
            self._served[number] += count * _STEP // _WEIGHTS[number]
        # Who had nothing to give saves nothing up for later.
        busy = [self._served[number] for number in range(self._classes) if not empty[number]]
        for number in range(self._classes):
            if empty[number] and busy:
                self._served[number] = max(self._served[number], min(busy))
