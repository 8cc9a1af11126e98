"""The consume queues of a store: entries come in memory and go to their files behind the writer's back.

A queue's entries up to some offset are in its files; the others wait here, in the order in which their queues began to wait. Which of
them may be read is for the caller to say: an entry counts once its record is confirmed. The latest of those that are in the files are kept
in memory, too: whoever reads a moment behind the writer does not have to wait for a file.
"""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.state import QueueKey, State

__all__ = ["Queues"]

Entries = npt.NDArray[np.void]
_RAW: Final = np.dtype((np.void, QUEUE_ENTRY.itemsize))  # copied as it is, not field by field
_NONE = np.empty(0, QUEUE_ENTRY)
_LEAST_ROOM: Final = 64  # entries
_KEPT_OF_QUEUE: Final = 8192  # entries
_KEPT: Final = 1 << 20  # of all queues together: 24 MiB


class _Kept(NamedTuple):
    """The latest entries of a queue that are in its files, from queue offset ``first`` on."""

    first: int
    entries: Entries

    @property
    def end(self) -> int:
        return self.first + int(self.entries.size)


class _Waiting:
    """The entries of one queue that are not in its files yet, from queue offset ``first`` on, which leads to log offset ``oldest``.

    They stand in one piece, with room for more behind them: whoever reads them holds what is never written again.
    """

    __slots__ = ("_room", "entries", "first", "oldest")

    def __init__(self, first: int, entries: Entries) -> None:
        self.first = first
        self.oldest = int(entries["log_offset"][0])
        self.entries = entries
        self._room = entries.view(_RAW)

    def add(self, entries: Entries) -> None:
        count, total = self.entries.size, self.entries.size + entries.size
        if total > self._room.size:
            room = np.empty(max(2 * total, _LEAST_ROOM), _RAW)
            room[:count] = self.entries.view(_RAW)
            self._room = room
        self._room[count:total] = entries.view(_RAW)
        self.entries = self._room[:total].view(QUEUE_ENTRY)


class Queues:
    """All queues of a store. How far each reaches is the state's to know. Any thread may read; one writes, and one writes behind."""

    def __init__(self, files: QueueFiles, state: State) -> None:
        self._files = files
        self._state = state
        self._lock = threading.Lock()
        self._behind = threading.Lock()  # held by whoever writes to the files
        self._waiting: dict[QueueKey, _Waiting] = {}
        self._kept: dict[QueueKey, _Kept] = {}  # those that were written longest ago first
        self._kept_entries = 0
        # Queue offsets whose record is damaged, and the log offset behind which it stands: found when the queues were made anew.
        self.holes: dict[tuple[QueueKey, int], int] = {}

    def add(self, key: QueueKey, first: int, entries: Entries) -> None:
        """Entries of records that were just written, at queue offsets ``first …``."""
        with self._lock:
            self._add(key, first, entries)

    def _add(self, key: QueueKey, first: int, entries: Entries) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = _Waiting(first, entries)
        else:
            waiting.add(entries)

    def add_batch(self, keys: list[QueueKey], firsts: list[int], entries: Entries, bounds: list[int]) -> None:
        """The entries of a whole batch: those of queue g are ``entries[bounds[g] : bounds[g + 1]]``."""
        with self._lock:
            for key, first, (begin, end) in zip(keys, firsts, pairwise(bounds), strict=True):
                self._add(key, first, entries[begin:end])

    def place_in_memory(self, key: QueueKey, offset: int) -> int | None:
        """The log offset that a queue offset leads to, where its entry is in memory."""
        with self._lock:
            waiting, kept = self._waiting.get(key), self._kept.get(key)
            if waiting is not None and offset >= waiting.first:
                first, entries = waiting.first, waiting.entries
            elif kept is not None and kept.end == self._stored(key, waiting):
                first, entries = kept
            else:
                return None
            return int(entries["log_offset"][offset - first]) if first <= offset < first + entries.size else None

    def _stored(self, key: QueueKey, waiting: _Waiting | None) -> int:
        """The queue offset behind the last entry that is in the files."""
        return waiting.first if waiting is not None else self._state.next.get(key, 0)

    def read(self, key: QueueKey, first: int, count: int, below: int) -> Entries:
        """Up to ``count`` entries from ``first`` on, of records that end at or below log offset ``below``."""
        with self._lock:
            waiting = self._waiting.get(key)
            stored = self._stored(key, waiting)
            new = _NONE
            kept = self._kept.get(key)
            if waiting is not None and first + count > stored:
                new = waiting.entries[max(0, first - stored) : first + count - stored]
        parts = []
        if first < stored and kept is not None and kept.first <= first and kept.end == stored:
            parts.append(kept.entries[first - kept.first : first - kept.first + count])
        elif first < stored:
            topic = self._state.topics[key.topic_id].name
            parts.append(self._files.read(topic, key.queue_id, first, min(count, stored - first), stored))
        if new.size:
            # What is in the files was confirmed when it was written there; an entry there that says otherwise is damaged, not new.
            parts.append(new[: _count_below(new, below)])
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else _NONE

    def end_below(self, key: QueueKey, below: int) -> int:
        """The queue offset behind the last record that ends at or below log offset ``below``."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:  # what is in the files was confirmed when it was written there
                return self._state.next.get(key, 0)
            return waiting.first + _count_below(waiting.entries, below)

    def drop_before(self, key: QueueKey, least: int) -> None:
        """Remove the files of a queue that hold nothing from ``least`` on."""
        self._files.drop_before(self._state.topics[key.topic_id].name, key.queue_id, least)

    def write_behind(self, below: int, most_seconds: float) -> int:
        """Put the entries of records that end at or below log offset ``below`` into their files: the queues that wait longest first, until
        the time is used up. Returns the log offset below which every entry is in its file.
        """
        until = time.monotonic() + most_seconds
        with self._behind:
            longest_first = list(self._waiting.items())
            for number, (key, waiting) in enumerate(longest_first):
                if time.monotonic() >= until:
                    return min(below, *(other.oldest for _, other in longest_first[number:]))
                self._write(key, waiting, below)
            return below

    def _write(self, key: QueueKey, waiting: _Waiting, below: int) -> None:
        with self._lock:
            entries = waiting.entries
        safe = _count_below(entries, below)
        if safe == 0:
            return
        self._files.write(self._state.topics[key.topic_id].name, key.queue_id, waiting.first, entries[:safe])
        with self._lock:
            self._keep(key, waiting.first, entries[:safe])
            del self._waiting[key]
            if safe < waiting.entries.size:  # behind those that have waited longer
                self._waiting[key] = _Waiting(waiting.first + safe, waiting.entries[safe:].copy())

    def _keep(self, key: QueueKey, first: int, entries: Entries) -> None:
        """Remember what was just written to a queue's files, and forget what was written longest ago."""
        before = self._kept.pop(key, None)
        if before is not None:
            self._kept_entries -= before.entries.size
            if before.end == first:
                first, entries = before.first, np.concatenate((before.entries, entries))
        spare = max(0, entries.size - _KEPT_OF_QUEUE)
        kept = self._kept[key] = _Kept(first + spare, entries[spare:].copy())
        self._kept_entries += kept.entries.size
        while self._kept_entries > _KEPT:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._kept_entries -= oldest.entries.size


def _count_below(entries: Entries, below: int) -> int:
    """How many entries, from the first on, are of records that end at or below a log offset: mostly all."""
    log_offset, size, _, _ = entries[-1].item()
    if log_offset + size <= below:
        return int(entries.size)
    return int(np.searchsorted(entries["log_offset"] + entries["size"], below, side="right"))
