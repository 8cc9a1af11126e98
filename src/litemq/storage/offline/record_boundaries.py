"""Record boundaries in the middle of a log, found through the consume queues.

Searching for the record magic is not safe: a message body may contain whole records, and a reader
that starts inside one would read a producer's data as records. Queue entries are written by the
broker alone. If none of the queues examined has an entry in a range, no boundary is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from litemq.errors import CorruptStoreError
from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.storage.log.reader import is_record_at
from litemq.storage.offline.directory_reader import DirectoryReader

__all__ = ["RecordBoundaries"]

_MAX_LISTED: Final = 4096  # queues whose length is read: a broker may have 100,000
_MAX_SEARCHED: Final = 16  # the longest of them
_ENTRY: Final = QUEUE_ENTRY.itemsize


class RecordBoundaries:
    """The record boundaries in the longest queues of a data directory."""

    def __init__(self, log: DirectoryReader) -> None:
        self._log = log
        queues = [_Queue(folder) for folder in islice(_folders(log.path / "consumequeue"), _MAX_LISTED)]
        self._queues = sorted((queue for queue in queues if queue.end > queue.begin), key=_Queue.length, reverse=True)[
            :_MAX_SEARCHED
        ]

    def first_between(self, begin: int, end: int) -> int | None:
        """Return a log offset in ``begin … end`` at which a record begins, or ``None``.

        It is close to ``begin`` if one of the queues has an entry there.
        """
        for queue in self._queues:
            found = queue.first_from(begin)
            if found is not None and found < end and self._is_record(found):
                return found
        return None

    def _is_record(self, offset: int) -> bool:
        """Whether the log has a record at ``offset``. Queue files are not synced one by one."""
        try:
            segment = self._log.segment_of(offset)
            size = int.from_bytes(segment.read(offset, min(offset + 4, segment.end)), "big")
            if not FIXED_BYTES <= size <= STORED_LIMITS.max_record_bytes:
                return False
            return is_record_at(segment.read(offset, min(offset + size, segment.end)), 0, offset)
        except CorruptStoreError:
            return False


def _folders(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        for topic in directory.iterdir():
            yield from topic.iterdir()


class _Queue:
    """The files of one queue. ``begin`` and ``end`` are entry numbers."""

    def __init__(self, folder: Path) -> None:
        self._starts = np.array(sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()), np.int64)
        self._folder = folder
        if self._starts.size:
            self.begin = int(self._starts[0]) // _ENTRY
            self.end = (int(self._starts[-1]) + self._path(int(self._starts[-1])).stat().st_size) // _ENTRY
        else:
            self.begin = self.end = 0

    def length(self) -> int:
        return self.end - self.begin

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:020d}"

    def _log_offset(self, entry: int) -> int:
        at = entry * _ENTRY
        start = int(self._starts[np.searchsorted(self._starts, at, side="right") - 1])
        file = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int.from_bytes(os.pread(file, 8, at - start), "big", signed=True)
        finally:
            os.close(file)

    def first_from(self, log_offset: int) -> int | None:
        """Return the log offset of the first message from ``log_offset`` on, or ``None``."""
        low, high = self.begin, self.end
        try:
            while low < high:
                middle = (low + high) // 2
                if self._log_offset(middle) < log_offset:
                    low = middle + 1
                else:
                    high = middle
            found = self._log_offset(low) if low < self.end else -1
        except FileNotFoundError:
            return None  # retention removed the file
        return found if found >= log_offset else None
