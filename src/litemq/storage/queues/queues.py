"""The consume queues of a store: new entries in memory, older ones in files.

The writer adds entries in memory. The maintenance thread writes them to files: the queues with the
oldest unwritten entries first. The latest written entries stay cached, so that a reader close to
the writer needs no file. Callers pass the confirmed log offset: only entries of confirmed records
may be read.
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
_RAW: Final = np.dtype((np.void, QUEUE_ENTRY.itemsize))  # copied as bytes, not field by field
_NONE = np.empty(0, QUEUE_ENTRY)
_MIN_BUFFER: Final = 64  # entries
_MAX_CACHED_PER_QUEUE: Final = 8192  # entries
_MAX_CACHED: Final = 1 << 20  # entries of all queues: 24 MiB


class _Cached(NamedTuple):
    """The latest entries in a queue's files, from queue offset ``first`` on."""

    first: int
    entries: Entries

    @property
    def end(self) -> int:
        return self.first + int(self.entries.size)


class _Unwritten:
    """The entries of a queue that are not in its files yet, from queue offset ``first`` on.

    The first one leads to log offset ``oldest``. ``entries`` is a view of a larger buffer, which
    only grows after it: readers may hold the view.
    """

    __slots__ = ("_buffer", "entries", "first", "oldest")

    def __init__(self, first: int, entries: Entries) -> None:
        self.first = first
        self.oldest = int(entries["log_offset"][0])
        self.entries = entries
        self._buffer = entries.view(_RAW)

    def add(self, entries: Entries) -> None:
        count, total = self.entries.size, self.entries.size + entries.size
        if total > self._buffer.size:
            buffer = np.empty(max(2 * total, _MIN_BUFFER), _RAW)
            buffer[:count] = self.entries.view(_RAW)
            self._buffer = buffer
        self._buffer[count:total] = entries.view(_RAW)
        self.entries = self._buffer[:total].view(QUEUE_ENTRY)


class Queues:
    """All queues of a store. Any thread may read, one adds entries, and one writes them to files.

    ``State`` has the end offset of each queue.
    """

    def __init__(self, files: QueueFiles, state: State) -> None:
        self._files = files
        self._state = state
        self._lock = threading.Lock()
        self._file_lock = threading.Lock()  # held while writing to the files
        self._unwritten: dict[QueueKey, _Unwritten] = {}
        self._cached: dict[QueueKey, _Cached] = {}  # the least recently written first
        self._cached_entries = 0
        # The queue offsets of damaged records, with the log offset before the damage. A rebuild
        # fills it.
        self.holes: dict[tuple[QueueKey, int], int] = {}

    def add(self, key: QueueKey, first: int, entries: Entries) -> None:
        """Add the entries of records that were just written, at queue offsets ``first …``."""
        with self._lock:
            self._add(key, first, entries)

    def _add(self, key: QueueKey, first: int, entries: Entries) -> None:
        unwritten = self._unwritten.get(key)
        if unwritten is None:
            self._unwritten[key] = _Unwritten(first, entries)
        else:
            unwritten.add(entries)

    def add_batch(self, keys: list[QueueKey], start_offsets: list[int], entries: Entries, bounds: list[int]) -> None:
        """Add the entries of a batch; queue ``g`` gets ``entries[bounds[g] : bounds[g + 1]]``."""
        with self._lock:
            for key, first, (begin, end) in zip(keys, start_offsets, pairwise(bounds), strict=True):
                self._add(key, first, entries[begin:end])

    def log_offset_in_memory(self, key: QueueKey, offset: int) -> int | None:
        """Return the log offset of the message at ``offset``; ``None`` if not in memory."""
        with self._lock:
            unwritten, cached = self._unwritten.get(key), self._cached.get(key)
            if unwritten is not None and offset >= unwritten.first:
                first, entries = unwritten.first, unwritten.entries
            elif cached is not None and cached.end == self._stored(key, unwritten):
                first, entries = cached
            else:
                return None
            return int(entries["log_offset"][offset - first]) if first <= offset < first + entries.size else None

    def _stored(self, key: QueueKey, unwritten: _Unwritten | None) -> int:
        """Return the queue offset after the last entry in the files."""
        return unwritten.first if unwritten is not None else self._state.end_offsets.get(key, 0)

    def read(self, key: QueueKey, first: int, count: int, below: int) -> Entries:
        """Read up to ``count`` entries from ``first`` on, of records that end by ``below``."""
        with self._lock:
            unwritten = self._unwritten.get(key)
            stored = self._stored(key, unwritten)
            new = _NONE
            cached = self._cached.get(key)
            if unwritten is not None and first + count > stored:
                new = unwritten.entries[max(0, first - stored) : first + count - stored]
        parts = []
        if first < stored and cached is not None and cached.first <= first and cached.end == stored:
            parts.append(cached.entries[first - cached.first : first - cached.first + count])
        elif first < stored:
            topic = self._state.topics[key.topic_id].name
            parts.append(self._files.read(topic, key.queue_id, first, min(count, stored - first), stored))
        if new.size:
            # Entries in the files were confirmed when they were written.
            parts.append(new[: _count_below(new, below)])
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else _NONE

    def end_below(self, key: QueueKey, below: int) -> int:
        """Return the queue offset after the last record that ends by log offset ``below``."""
        with self._lock:
            unwritten = self._unwritten.get(key)
            if unwritten is None:  # entries in the files were confirmed when they were written
                return self._state.end_offsets.get(key, 0)
            return unwritten.first + _count_below(unwritten.entries, below)

    def drop_before(self, key: QueueKey, start_offset: int) -> None:
        """Remove the files of a queue whose entries are all before ``start_offset``."""
        self._files.drop_before(self._state.topics[key.topic_id].name, key.queue_id, start_offset)

    def write_behind(self, below: int, max_seconds: float) -> int:
        """Write the entries of records that end by ``below``, for at most ``max_seconds``.

        The queues with the oldest unwritten entries come first. Return the log offset below which
        every entry is in its file.
        """
        until = time.monotonic() + max_seconds
        with self._file_lock:
            oldest_first = list(self._unwritten.items())
            for number, (key, unwritten) in enumerate(oldest_first):
                if time.monotonic() >= until:
                    return min(below, *(other.oldest for _, other in oldest_first[number:]))
                self._write(key, unwritten, below)
            return below

    def _write(self, key: QueueKey, unwritten: _Unwritten, below: int) -> None:
        with self._lock:
            entries = unwritten.entries
        confirmed = _count_below(entries, below)
        if confirmed == 0:
            return
        self._files.write(self._state.topics[key.topic_id].name, key.queue_id, unwritten.first, entries[:confirmed])
        with self._lock:
            self._cache(key, unwritten.first, entries[:confirmed])
            del self._unwritten[key]
            if confirmed < unwritten.entries.size:  # at the end of the order
                self._unwritten[key] = _Unwritten(unwritten.first + confirmed, unwritten.entries[confirmed:].copy())

    def _cache(self, key: QueueKey, first: int, entries: Entries) -> None:
        """Cache entries that were just written to files, and evict the least recently written."""
        before = self._cached.pop(key, None)
        if before is not None:
            self._cached_entries -= before.entries.size
            if before.end == first:
                first, entries = before.first, np.concatenate((before.entries, entries))
        excess = max(0, entries.size - _MAX_CACHED_PER_QUEUE)
        cached = self._cached[key] = _Cached(first + excess, entries[excess:].copy())
        self._cached_entries += cached.entries.size
        while self._cached_entries > _MAX_CACHED:
            oldest = self._cached.pop(next(iter(self._cached)))
            self._cached_entries -= oldest.entries.size


def _count_below(entries: Entries, below: int) -> int:
    """Count the leading entries of records that end by log offset ``below``: usually all."""
    log_offset, size, _, _ = entries[-1].item()
    if log_offset + size <= below:
        return int(entries.size)
    return int(np.searchsorted(entries["log_offset"] + entries["size"], below, side="right"))
