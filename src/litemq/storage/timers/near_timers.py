"""The timers that are due soon, in memory. Pure; whoever has it locks it.

What was loaded from a bucket is kept by column, with a place up to which it was taken; what came since is in a heap. A timer is taken by whoever
fires it, and given back where that fails; it is done with when a record says that it waits no longer, taken or not.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.storage.timers.entries import MINUTE_MS, Entries, Timer

__all__ = ["NearTimers"]

Longs = npt.NDArray[np.int64]
_UNPACKED_AT_ONCE: Final = 4096


class NearTimers:
    """All timers that are due before ``end`` (ms)."""

    def __init__(self, end: int) -> None:
        self.end = end
        self._loaded: deque[Longs] = deque()  # rows of due times, places and sizes, in order: one bucket behind another
        self._heap: list[Timer] = []
        self._taken: dict[int, Timer] = {}
        # Those that are still in the heap or among the loaded ones, and wait no longer, by due time and place: one that was moved to another
        # time and back is there more than once.
        self._ended: Counter[tuple[int, int]] = Counter()
        self._waiting: defaultdict[int, int] = defaultdict(int)  # how many of a minute have not ended

    def __len__(self) -> int:
        """How many have not ended."""
        return sum(self._waiting.values())

    def begin(self, timer: Timer) -> None:
        """A timer waits from now on."""
        heapq.heappush(self._heap, timer)
        self._waiting[timer.due // MINUTE_MS] += 1

    def load(self, entries: Entries, end: int) -> None:
        """Timers of the bucket that comes next, in order; all that are due before ``end`` are known now."""
        self.end = end
        if entries.size:
            self._loaded.append(np.stack([entries[name].astype(np.int64) for name in Timer._fields]))
            self._waiting[int(entries["due"][0]) // MINUTE_MS] += int(entries.size)

    def finish(self, due: int, pending: int) -> None:
        """A timer waits no longer."""
        if self._taken.pop(pending, None) is None:
            self._ended[due, pending] += 1
        minute = due // MINUTE_MS
        self._waiting[minute] -= 1
        if self._waiting[minute] == 0:
            del self._waiting[minute]

    def is_taken(self, pending: int) -> bool:
        """Whether somebody is about to fire it, and it has not ended otherwise."""
        return pending in self._taken

    def has_any_of(self, minute: int) -> bool:
        """Whether a timer of a minute still waits."""
        return minute in self._waiting

    @property
    def next_due(self) -> int | None:
        """When the next one is due that nobody has taken; it may have ended already."""
        dues = [timer.due for timer in self._heap[:1]]
        dues += [int(self._loaded[0][0, 0])] if self._loaded else []
        return min(dues, default=None)

    def take(self, now: int, confirmed: int, most: int) -> list[Timer]:
        """Up to ``most`` timers that are due, whose records end at or below ``confirmed``."""
        taken: list[Timer] = []
        early: list[Timer] = []  # in the log, and not yet safe
        while len(taken) < most:
            timer = self._pop(now)
            if timer is None:
                break
            if self._ended and timer[:2] in self._ended:
                self._forget(timer)
            elif timer.pending + timer.size > confirmed:
                early.append(timer)
            else:
                taken.append(timer)
        for timer in early:
            heapq.heappush(self._heap, timer)
        self._taken.update((timer.pending, timer) for timer in taken)
        return taken

    def _forget(self, timer: Timer) -> None:
        """One that had ended is out of the heap."""
        self._ended[timer[:2]] -= 1
        if not self._ended[timer[:2]]:
            del self._ended[timer[:2]]

    def all(self) -> list[Timer]:
        """All that have not ended, taken or not, in no order. It takes a while where there are many."""
        there = [*self._heap, *(timer for rows in self._loaded for timer in map(Timer, *rows.tolist()))]
        ended = self._ended.copy()
        found = list(self._taken.values())
        for timer in there:
            if ended[timer[:2]]:
                ended[timer[:2]] -= 1
            else:
                found.append(timer)
        return found

    def _pop(self, now: int) -> Timer | None:
        """The next one that is due."""
        if self._loaded:
            due, pending, _ = self._loaded[0][:, 0].tolist()
            if not (self._heap and self._heap[0] < (due, pending)):
                if due > now:
                    return None
                self._unpack(now)
        if self._heap and self._heap[0].due <= now:
            return heapq.heappop(self._heap)
        return None

    def _unpack(self, now: int) -> None:
        """Put the loaded ones that are due into the heap, some at a time."""
        rows = self._loaded.popleft()
        count = min(int(np.searchsorted(rows[0], now, side="right")), _UNPACKED_AT_ONCE)
        for timer in map(Timer, *rows[:, :count].tolist()):
            heapq.heappush(self._heap, timer)
        if count < rows.shape[1]:
            self._loaded.appendleft(rows[:, count:])

    def give_back(self, timers: Iterable[Timer]) -> None:
        """They were not fired: those that have not ended otherwise are due again."""
        for timer in timers:
            if self._taken.pop(timer.pending, None) is not None:
                heapq.heappush(self._heap, timer)
