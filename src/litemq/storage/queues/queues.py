"""The consume queues of a store: new entries in memory, older ones in files.

The writer adds entries in memory. The maintenance thread writes them to files: the queues with the
oldest unwritten entries first. The latest written entries stay cached, so that a reader close to
the writer needs no file. Callers pass the confirmed log offset: only entries of confirmed records
may be read.
"""

from __future__ import annotations

import struct
import threading
import time
from bisect import bisect_right
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.state import QueueKey, State

__all__ = ["Queues", "Tail"]

Entries = npt.NDArray[np.void]
_ENTRY_BYTES: Final = QUEUE_ENTRY.itemsize
_NONE = np.empty(0, QUEUE_ENTRY)
_PLACE: Final = struct.Struct(">qi")  # the first fields of an entry
_MIN_BUFFER: Final = 64 * _ENTRY_BYTES
_MAX_CACHED_PER_QUEUE: Final = 8192  # entries
_MAX_CACHED: Final = 1 << 20  # entries of all queues: 24 MiB


class Tail(NamedTuple):
    """The latest entries of a queue, from queue offset ``first`` on.

    ``raw`` begins with the bytes of ``size`` entries. They never change: the writer only adds.
    """

    first: int
    raw: bytes | bytearray
    size: int

    @property
    def end(self) -> int:
        return self.first + self.size

    @property
    def entries(self) -> Entries:
        return np.frombuffer(self.raw, QUEUE_ENTRY, self.size)


class _Unwritten:
    """The entries of a queue that are not in its files yet, from queue offset ``first`` on.

    The first one leads to log offset ``oldest``.
    """

    __slots__ = ("_raw", "first", "oldest", "size")

    def __init__(self, first: int, raw: bytes) -> None:
        self.first = first
        self.oldest = _ends(raw, 0)[0]
        self._raw: bytes | bytearray = raw
        self.size = len(raw) // _ENTRY_BYTES

    def add(self, raw: bytes) -> None:
        begin = self.size * _ENTRY_BYTES
        end = begin + len(raw)
        buffer = self._raw
        if isinstance(buffer, bytes) or end > len(buffer):  # readers keep the old one
            buffer = bytearray(max(2 * end, _MIN_BUFFER))
            buffer[:begin] = memoryview(self._raw)[:begin]
            self._raw = buffer
        buffer[begin:end] = raw
        self.size = end // _ENTRY_BYTES

    @property
    def tail(self) -> Tail:
        return Tail(self.first, self._raw, self.size)


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
        self._cached: dict[QueueKey, Tail] = {}  # the least recently written first
        self._cached_entries = 0
        # The queue offsets of damaged records, with the log offset before the damage. A rebuild
        # fills it.
        self.holes: dict[tuple[QueueKey, int], int] = {}

    def add(self, key: QueueKey, first: int, entries: Entries) -> None:
        """Add the entries of records that were just written, at queue offsets ``first …``."""
        self.add_raw(key, first, entries.tobytes())

    def add_raw(self, key: QueueKey, first: int, raw: bytes) -> None:
        """Add the bytes of entries as ``add`` does."""
        with self._lock:
            unwritten = self._unwritten.get(key)
            if unwritten is None:
                self._unwritten[key] = _Unwritten(first, raw)
            else:
                unwritten.add(raw)

    def tail(self, key: QueueKey, offset: int) -> Tail | None:
        """Return the entries in memory that begin at or before ``offset`` and reach the queue's
        end; ``None`` if there are none.
        """
        with self._lock:
            unwritten = self._unwritten.get(key)
            if unwritten is not None:
                return unwritten.tail if offset >= unwritten.first else None
            cached = self._cached.get(key)
            is_latest = cached is not None and cached.first <= offset and cached.end == self._stored(key, None)
            return cached if is_latest else None

    def log_offset_in_memory(self, key: QueueKey, offset: int) -> int | None:
        """Return the log offset of the message at ``offset``; ``None`` if not in memory."""
        with self._lock:
            unwritten, cached = self._unwritten.get(key), self._cached.get(key)
            if unwritten is not None and offset >= unwritten.first:
                first, raw, count = unwritten.tail
            elif cached is not None and cached.end == self._stored(key, unwritten):
                first, raw, count = cached
            else:
                return None
            return _ends(raw, offset - first)[0] if first <= offset < first + count else None

    def _stored(self, key: QueueKey, unwritten: _Unwritten | None) -> int:
        """Return the queue offset after the last entry in the files."""
        return unwritten.first if unwritten is not None else self._state.end_offsets.get(key, 0)

    def read(self, key: QueueKey, first: int, count: int, below: int) -> Entries:
        """Read up to ``count`` entries from ``first`` on, of records that end by ``below``."""
        with self._lock:
            unwritten = self._unwritten.get(key)
            stored = self._stored(key, unwritten)
            cached = self._cached.get(key)
            tail = unwritten.tail if unwritten is not None and first + count > stored else None
        parts = []
        if first < stored and cached is not None and cached.first <= first and cached.end == stored:
            parts.append(cached.entries[first - cached.first : first - cached.first + count])
        elif first < stored:
            topic = self._state.topics[key.topic_id].name
            parts.append(self._files.read(topic, key.queue_id, first, min(count, stored - first), stored))
        if tail is not None:
            # Entries in the files were confirmed when they were written.
            confirmed = _count_below(tail, below)
            parts.append(tail.entries[max(0, first - stored) : max(0, min(first + count - stored, confirmed))])
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else _NONE

    def end_below(self, key: QueueKey, below: int) -> int:
        """Return the queue offset after the last record that ends by log offset ``below``."""
        with self._lock:
            unwritten = self._unwritten.get(key)
            if unwritten is None:  # entries in the files were confirmed when they were written
                return self._state.end_offsets.get(key, 0)
            return unwritten.first + _count_below(unwritten.tail, below)

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
            first, raw, count = tail = unwritten.tail
        confirmed = _count_below(tail, below)
        if confirmed == 0:
            return
        self._files.write(self._state.topics[key.topic_id].name, key.queue_id, first, tail.entries[:confirmed])
        with self._lock:
            self._cache(key, first, bytes(memoryview(raw)[: confirmed * _ENTRY_BYTES]))
            del self._unwritten[key]
            _, raw, count = unwritten.tail
            if confirmed < count:  # at the end of the order
                rest = bytes(memoryview(raw)[confirmed * _ENTRY_BYTES : count * _ENTRY_BYTES])
                self._unwritten[key] = _Unwritten(first + confirmed, rest)

    def _cache(self, key: QueueKey, first: int, raw: bytes) -> None:
        """Cache entries that were just written to files, and evict the least recently written."""
        before = self._cached.pop(key, None)
        if before is not None:
            self._cached_entries -= before.size
            if before.end == first:
                first, raw = before.first, bytes(before.raw) + raw
        excess = max(0, len(raw) // _ENTRY_BYTES - _MAX_CACHED_PER_QUEUE)
        raw = raw[excess * _ENTRY_BYTES :]
        cached = self._cached[key] = Tail(first + excess, raw, len(raw) // _ENTRY_BYTES)
        self._cached_entries += cached.size
        while self._cached_entries > _MAX_CACHED:
            oldest = self._cached.pop(next(iter(self._cached)))
            self._cached_entries -= oldest.size


def _ends(raw: bytes | bytearray, number: int) -> tuple[int, int]:
    """Return the log offsets of an entry's record and of the record's end."""
    log_offset, size = _PLACE.unpack_from(raw, number * _ENTRY_BYTES)
    return log_offset, log_offset + size


def _count_below(tail: Tail, below: int) -> int:
    """Count the leading entries of records that end by log offset ``below``: usually all."""
    _, raw, count = tail
    if _ends(raw, count - 1)[1] <= below:
        return count
    return bisect_right(range(count), below, key=lambda number: _ends(raw, number)[1])
