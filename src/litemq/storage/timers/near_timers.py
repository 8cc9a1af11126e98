"""Timers that are due soon, in memory. Pure; the owner does the locking.

Timers loaded from a bucket are stored by column, newer ones in a heap. The caller that fires a
timer takes it, and gives it back if firing fails. A timer ends when a record says so, taken or not.
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
_UNPACK_LIMIT: Final = 4096


class NearTimers:
    """All timers that are due before ``end`` (ms)."""

    def __init__(self, end: int) -> None:
        self.end = end
        self._loaded: deque[Longs] = deque()  # rows of due times, log offsets and sizes, in order, one array per bucket
        self._heap: list[Timer] = []
        self._taken: dict[int, Timer] = {}
        # Ended timers that are still in the heap or loaded, by due time and log offset. A timer
        # that was rescheduled and back is there more than once.
        self._ended: Counter[tuple[int, int]] = Counter()
        self._waiting: defaultdict[int, int] = defaultdict(int)  # the number of timers that have not ended, by minute

    def __len__(self) -> int:
        """Return the number of timers that have not ended."""
        return sum(self._waiting.values())

    def begin(self, timer: Timer) -> None:
        """Add a new timer."""
        heapq.heappush(self._heap, timer)
        self._waiting[timer.due // MINUTE_MS] += 1

    def load(self, entries: Entries, end: int) -> None:
        """Add the timers of the next bucket, in order; ``end`` is the end of the bucket (ms)."""
        self.end = end
        if entries.size:
            self._loaded.append(np.stack([entries[name].astype(np.int64) for name in Timer._fields]))
            self._waiting[int(entries["due"][0]) // MINUTE_MS] += int(entries.size)

    def finish(self, due: int, pending: int) -> None:
        """End a timer, taken or not."""
        if self._taken.pop(pending, None) is None:
            self._ended[due, pending] += 1
        minute = due // MINUTE_MS
        self._waiting[minute] -= 1
        if self._waiting[minute] == 0:
            del self._waiting[minute]

    def is_taken(self, pending: int) -> bool:
        """Return whether a timer is taken and has not ended."""
        return pending in self._taken

    def has_minute(self, minute: int) -> bool:
        """Return whether any timer of ``minute`` has not ended."""
        return minute in self._waiting

    @property
    def next_due(self) -> int | None:
        """The due time of the next timer that is not taken. It may have ended already."""
        dues = [timer.due for timer in self._heap[:1]]
        dues += [int(self._loaded[0][0, 0])] if self._loaded else []
        return min(dues, default=None)

    def take(self, now: int, confirmed: int, limit: int) -> list[Timer]:
        """Take up to ``limit`` due timers whose records end at or below ``confirmed``."""
        taken: list[Timer] = []
        early: list[Timer] = []  # due, but not confirmed yet
        while len(taken) < limit:
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
        """Forget an ended timer that is out of the heap."""
        self._ended[timer[:2]] -= 1
        if not self._ended[timer[:2]]:
            del self._ended[timer[:2]]

    def all(self) -> list[Timer]:
        """Return all timers that have not ended, taken or not, unordered. Slow if many."""
        known = [*self._heap, *(timer for rows in self._loaded for timer in map(Timer, *rows.tolist()))]
        ended = self._ended.copy()
        found = list(self._taken.values())
        for timer in known:
            if ended[timer[:2]]:
                ended[timer[:2]] -= 1
            else:
                found.append(timer)
        return found

    def _pop(self, now: int) -> Timer | None:
        """Pop the next timer that is due, or return ``None``."""
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
        """Move up to ``_UNPACK_LIMIT`` loaded timers that are due to the heap."""
        rows = self._loaded.popleft()
        count = min(int(np.searchsorted(rows[0], now, side="right")), _UNPACK_LIMIT)
        for timer in map(Timer, *rows[:, :count].tolist()):
            heapq.heappush(self._heap, timer)
        if count < rows.shape[1]:
            self._loaded.appendleft(rows[:, count:])

    def give_back(self, timers: Iterable[Timer]) -> None:
        """Return timers that were taken but not fired. Those that ended meanwhile are ignored."""
        for timer in timers:
            if self._taken.pop(timer.pending, None) is not None:
                heapq.heappush(self._heap, timer)
