"""Filtered scans: search a queue for the messages that a filter accepts.

The scan filters the queue's entries by column, and reads the records of the remaining ones, many at
a time. It ends when it has found enough, when its time is up, or at the end of the queue. So it
delays other callers by a few milliseconds at most.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.filters.filter import Filter
from litemq.format.record_view import record_views
from litemq.storage.state import QueueKey
from litemq.storage.store import QueueReads

__all__ = ["Scan", "ScanResult", "scan", "scan_if_hot"]

_ENTRIES_HOT: Final = 8192
_ENTRIES_COLD: Final = 65_536
_RECORDS: Final = 256  # read at once, up to ``_RECORD_BYTES``
_RECORD_BYTES: Final = 1 << 20
_SECONDS_HOT: Final = 0.004
_SECONDS_COLD: Final = 0.1

Longs = npt.NDArray[np.int64]


class Scan(NamedTuple):
    """The queue, the first offset, the filter and the limits of a scan."""

    key: QueueKey
    first: int
    wanted: Filter
    max_messages: int
    max_bytes: int


class ScanResult(NamedTuple):
    """The records found, and the offset to continue from.

    ``error``: why the record there cannot be read.
    """

    records: bytes
    next_offset: int
    at_end: bool = False
    error: CorruptStoreError | None = None


def scan(queues: QueueReads, request: Scan) -> ScanResult:
    """Scan a queue. It may wait for the disk, so do not call it on the event loop."""
    found = _Search(queues, request, is_hot=False).run()
    if found is None:
        raise AssertionError("a scan that may wait for the disk always returns a result")
    return found


def scan_if_hot(queues: QueueReads, request: Scan) -> ScanResult | None:
    """Scan the part of a queue that is in memory; ``None`` if the start is not."""
    return _Search(queues, request, is_hot=True).run()


class _Search:
    def __init__(self, queues: QueueReads, request: Scan, *, is_hot: bool) -> None:
        self._queues = queues
        self._request = request
        self._is_hot = is_hot
        self._until = perf_counter() + (_SECONDS_HOT if is_hot else _SECONDS_COLD)
        self._found: list[bytes] = []
        self._size = 0

    def run(self) -> ScanResult | None:
        """Run the scan; ``None`` if the start is not in memory."""
        queues, (key, first, wanted, _, _) = self._queues, self._request
        at = first
        while True:
            if self._is_hot:
                entries = queues.read_entries_if_hot(key, at, _ENTRIES_HOT)
                if entries is None:
                    return None if at == first else self._ended(at)
            else:
                entries = queues.read_entries(key, at, _ENTRIES_COLD)
            if not entries.size:
                return self._ended(at, at_end=True)
            candidates = np.flatnonzero(wanted.candidates(entries))
            ended = self._look_at(at, candidates, entries[candidates])
            if ended is not None:
                nothing_read = self._is_hot and ended.next_offset == first and ended.error is None
                return None if nothing_read else ended
            at += entries.size
            if perf_counter() >= self._until:
                return self._ended(at)

    def _look_at(self, base: int, candidates: Longs, entries: npt.NDArray[np.void]) -> ScanResult | None:
        """Read the records of ``entries``; return ``None`` if the scan continues after them."""
        begin = 0
        while begin < candidates.size:
            if self._is_hot and not self._queues.is_hot(int(entries["log_offset"][begin])):
                return self._ended(base + int(candidates[begin]))
            end = self._end_of_portion(begin, entries)
            queue_offsets = base + candidates[begin:end]
            try:
                records = self._queues.read_chosen(self._request.key, queue_offsets, entries[begin:end])
            except CorruptStoreError as error:
                return self._ended(int(queue_offsets[0]), error=error)
            ended, looked_at = self._choose(records)
            if ended is not None:
                return ended
            begin += looked_at
            if begin < candidates.size and perf_counter() >= self._until:
                return self._ended(base + int(candidates[begin]))
        return None

    @staticmethod
    def _end_of_portion(begin: int, entries: npt.NDArray[np.void]) -> int:
        sizes = np.cumsum(entries["size"][begin : begin + _RECORDS].astype(np.int64))
        return begin + max(1, int(np.searchsorted(sizes, _RECORD_BYTES, side="right")))

    def _choose(self, records: bytes | memoryview) -> tuple[ScanResult | None, int]:
        """Keep the records that the filter accepts; return the result if it is complete, and the
        number of records read.
        """
        accepts, limit = self._request.wanted.accepts, self._request.max_messages
        looked_at = 0
        for view in record_views(records):
            looked_at += 1
            if not accepts(view):
                if perf_counter() >= self._until:  # one record may take milliseconds
                    return self._ended(view.queue_offset + 1), looked_at
                continue
            raw = view.raw
            if self._found and self._size + len(raw) > self._request.max_bytes:
                return self._ended(view.queue_offset), looked_at
            self._found.append(raw)
            self._size += len(raw)
            if len(self._found) >= limit or self._size >= self._request.max_bytes:
                return self._ended(view.queue_offset + 1), looked_at
        return None, looked_at

    def _ended(self, next_offset: int, *, at_end: bool = False, error: CorruptStoreError | None = None) -> ScanResult:
        return ScanResult(b"".join(self._found), next_offset, at_end, error)
