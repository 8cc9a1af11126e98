"""Reads the messages of a queue, as raw record bytes.

A queue entry gives the log offset of a record. The record itself has its log offset, its queue
offset and checksums; a record that does not match its entry never leaves the store.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format import native
from litemq.format.batches.check import count_intact, explain, find_faults
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.queues.queues import Queues
from litemq.storage.state import QueueKey

__all__ = ["DamagedQueueError", "QueueReader"]

Longs = npt.NDArray[np.int64]

_ENTRIES_AT_ONCE: Final = 1024  # the entries' sizes show how many more to read
# Up to this many bytes between two records, one read is cheaper than two.
_MAX_GAP: Final = 32 * 1024


class DamagedQueueError(CorruptStoreError):
    """A queue's entries do not lead to its records. The queues can be rebuilt from the log."""


class QueueReader:
    """Reads records by queue offset. Any thread may call."""

    def __init__(self, log: CommitLog, queues: Queues, directory: Path) -> None:
        self._log = log
        self.queues = queues
        self._directory = directory

    def read(self, key: QueueKey, first: int, max_messages: int, max_bytes: int, below: int) -> bytes | memoryview:
        """Read records from queue offset ``first`` on: at least one if there is one.

        They end by the log offset ``below``. Stop before a damaged record; raise
        ``CorruptStoreError`` if the first is damaged, and ``DamagedQueueError`` if its entry is.
        """
        entries = self.entries(key, first, min(max_messages, _ENTRIES_AT_ONCE), below)
        if entries.size == 0:
            return b""
        sizes = entries["size"].astype(np.int64)
        left = max_bytes - int(sizes.sum())
        if left > 0 and max_messages > entries.size == _ENTRIES_AT_ONCE:
            likely = left * entries.size // max(1, int(sizes.sum())) + 1
            more = min(max_messages - entries.size, left // FIXED_BYTES + 1, likely)
            entries = np.concatenate((entries, self.entries(key, first + entries.size, more, below)))
            sizes = entries["size"].astype(np.int64)
        fitting = max(1, int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")))
        offsets, sizes = entries["log_offset"][:fitting].astype(np.int64), sizes[:fitting]
        if (
            int(sizes.min()) < FIXED_BYTES
            or int((offsets + sizes).max()) > below
            or int(offsets.min()) < self._log.start
        ):
            return self._read_before_damage(key, first, offsets, sizes, below)
        data = self._gather(offsets, sizes)
        starts = np.cumsum(sizes) - sizes
        if len(data) != int(starts[-1] + sizes[-1]):
            raise self._damaged(key, first, "an entry ends after its segment")
        good = count_intact(RecordColumns(data, starts), offsets, first, key.topic_id, key.queue_id)
        if good == starts.size:
            return data
        if good > 0:
            return data[: int(starts[good])]
        header = RecordColumns(data, starts[:1]).header[0]
        expected = (offsets[0], first, key.topic_id, key.queue_id, sizes[0])
        if (
            tuple(header[name] for name in ("commitlog_offset", "queue_offset", "topic_id", "queue_id", "size"))
            != expected
        ):
            raise self._damaged(key, first, "an entry does not match its record")
        segment = self._log.segment_of(int(offsets[0]))
        position = int(offsets[0]) - segment.start
        raise CorruptStoreError(str(segment.file.path), position, str(explain(data, 0, limits=STORED_LIMITS)))

    def read_recent(self, key: QueueKey, first: int, max_messages: int, max_bytes: int, below: int) -> bytes | None:
        """Read as ``read`` does if the entries are in memory and the records are hot.

        Return ``None`` if not, or if they are not all in the last segment and certainly intact.
        """
        tail, segments = self.queues.tail(key, first), self._log.segments
        if tail is None or not segments or not native.enabled:
            return None
        segment, number = segments[-1], first - tail.first
        return native.loops.read_entries(
            segment.mapped,
            segment.start,
            self._log.hot_from,
            below,
            tail.raw,
            number,
            min(max_messages, tail.size - number),
            max_bytes,
            first,
            key.topic_id,
            key.queue_id,
        )

    def read_chosen(
        self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void], below: int
    ) -> bytes | memoryview | None:
        """Read the records of ``entries``, which have ``queue_offsets`` in their queue.

        Return ``None`` if any entry or record is bad, or ends after ``below``.
        """
        offsets, sizes = entries["log_offset"].astype(np.int64), entries["size"].astype(np.int64)
        if offsets.size == 0:
            return b""
        if (
            int(sizes.min()) < FIXED_BYTES
            or int((offsets + sizes).max()) > below
            or int(offsets.min()) < self._log.start
        ):
            return None
        data = self._gather(offsets, sizes)
        starts = np.cumsum(sizes) - sizes
        if len(data) != int(starts[-1] + sizes[-1]):
            return None
        columns = RecordColumns(data, starts)
        header = columns.header
        matches = (
            (header["commitlog_offset"] == offsets)
            & (header["queue_offset"] == queue_offsets)
            & (header["size"] == sizes)
        )
        matches &= (header["topic_id"] == key.topic_id) & (header["queue_id"] == key.queue_id)
        return data if matches.all() and not find_faults(columns, limits=STORED_LIMITS).size else None

    def entries(self, key: QueueKey, first: int, count: int, below: int) -> npt.NDArray[np.void]:
        """Read up to ``count`` entries from ``first`` on, of records that end by ``below``.

        Raise ``DamagedQueueError`` if the queue's files are damaged.
        """
        try:
            return self.queues.read(key, first, count, below)
        except CorruptStoreError as error:
            raise DamagedQueueError(error.path, error.offset, error.reason) from error

    def _read_before_damage(
        self, key: QueueKey, first: int, offsets: Longs, sizes: Longs, below: int
    ) -> bytes | memoryview:
        bad = (sizes < FIXED_BYTES) | (offsets + sizes > below) | (offsets < self._log.start)
        good = int(bad.argmax())
        if good == 0:
            raise self._damaged(key, first, "an entry is outside the readable log")
        return self.read(key, first, good, int(sizes[:good].sum()), below)

    def _damaged(self, key: QueueKey, offset: int, reason: str) -> DamagedQueueError:
        return DamagedQueueError(
            str(self._directory), offset, f"{reason} (queue {key.queue_id} of topic number {key.topic_id})"
        )

    def _gather(self, offsets: Longs, sizes: Longs) -> bytes | memoryview:
        """Read the records into one buffer. Records close to each other share one read."""
        ends = offsets + sizes
        gaps = offsets[1:] - ends[:-1]
        numbers = self._log.segment_numbers(offsets)
        apart = (gaps < 0) | (gaps > _MAX_GAP) | (numbers[1:] != numbers[:-1])
        runs = list(pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), offsets.size]))
        if not self._log.is_hot(int(offsets[0])) and not gaps[~apart].any():
            return self._read_runs([(int(offsets[begin]), int(ends[end - 1])) for begin, end in runs])
        pieces: list[bytes | memoryview] = []
        for begin, end in runs:
            base = int(offsets[begin])
            view = memoryview(self._log.read(base, int(ends[end - 1])))
            if gaps[begin : end - 1].any():
                spans = zip(offsets[begin:end].tolist(), ends[begin:end].tolist(), strict=True)
                pieces += [view[at - base : until - base] for at, until in spans]
            else:
                pieces.append(view)
        return b"".join(pieces)

    def _read_runs(self, runs: list[tuple[int, int]]) -> memoryview:
        """Read runs of the log, each within its segment, into one buffer without zeroing it."""
        data = np.empty(sum(end - begin for begin, end in runs), np.uint8).data
        at = 0
        for begin, end in runs:
            segment = self._log.segment_of(begin)
            at += segment.file.read_into(data[at : at + min(end, segment.end) - begin], begin - segment.start)
        return data[:at]
