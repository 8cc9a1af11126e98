"""Reading messages through their queue, as raw record bytes.

The queue says where a record stands; the record decides. It says itself where it stands, in the log and in its queue, and its checksums
say that it is whole: nothing that does not fit leaves the store.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.batches.check import count_intact, explain, find_faults
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.queues.queues import Queues
from litemq.storage.state import QueueKey

__all__ = ["DamagedQueueError", "QueueReader"]

Longs = npt.NDArray[np.int64]

_ENTRIES_AT_ONCE: Final = 1024  # how many fit what is asked for is known only when their sizes are
_WORTH_READING_OVER: Final = 32 * 1024  # bytes of other queues between two records: one read is cheaper than two


class DamagedQueueError(CorruptStoreError):
    """The queue does not lead to its records: it can be made anew from the log."""


class QueueReader:
    """Any thread may read."""

    def __init__(self, log: CommitLog, queues: Queues, confirmed: Callable[[], int], directory: Path) -> None:
        self._log = log
        self.queues = queues
        self._confirmed = confirmed
        self._directory = directory

    def read(self, key: QueueKey, first: int, max_messages: int, max_bytes: int) -> bytes | memoryview:
        """Records from queue offset ``first`` on: at least one if there is one. Those before a damaged one come without it."""
        confirmed = self._confirmed()
        entries = self.entries(key, first, min(max_messages, _ENTRIES_AT_ONCE), confirmed)
        if entries.size == 0:
            return b""
        sizes = entries["size"].astype(np.int64)
        room = max_bytes - int(sizes.sum())
        if room > 0 and max_messages > entries.size == _ENTRIES_AT_ONCE:
            more = min(max_messages - entries.size, room // FIXED_BYTES + 1, room * entries.size // max(1, int(sizes.sum())) + 1)
            entries = np.concatenate((entries, self.entries(key, first + entries.size, more, confirmed)))
            sizes = entries["size"].astype(np.int64)
        fitting = max(1, int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")))
        offsets, sizes = entries["log_offset"][:fitting].astype(np.int64), sizes[:fitting]
        if int(sizes.min()) < FIXED_BYTES or int((offsets + sizes).max()) > confirmed or int(offsets.min()) < self._log.start:
            return self._before_what_is_wrong(key, first, offsets, sizes, confirmed)
        data = self._gather(offsets, sizes)
        starts = np.cumsum(sizes) - sizes
        if len(data) != int(starts[-1] + sizes[-1]):
            raise self._damaged(key, first, "an entry reaches beyond its segment")
        good = count_intact(RecordColumns(data, starts), offsets, first, key.topic_id, key.queue_id)
        if good == starts.size:
            return data
        if good > 0:
            return data[: int(starts[good])]
        header = RecordColumns(data, starts[:1]).header[0]
        place = (offsets[0], first, key.topic_id, key.queue_id, sizes[0])
        if tuple(header[name] for name in ("commitlog_offset", "queue_offset", "topic_id", "queue_id", "size")) != place:
            raise self._damaged(key, first, "an entry does not fit its record")
        segment = self._log.segment_of(int(offsets[0]))
        raise CorruptStoreError(str(segment.file.path), int(offsets[0]) - segment.start, str(explain(data, 0, limits=STORED_LIMITS)))

    def read_chosen(self, key: QueueKey, queue_offsets: Longs, entries: npt.NDArray[np.void]) -> bytes | memoryview | None:
        """The records of some entries, which stand at these offsets of their queue; ``None`` where anything is wrong with any of them."""
        offsets, sizes = entries["log_offset"].astype(np.int64), entries["size"].astype(np.int64)
        confirmed = self._confirmed()
        if offsets.size == 0:
            return b""
        if int(sizes.min()) < FIXED_BYTES or int((offsets + sizes).max()) > confirmed or int(offsets.min()) < self._log.start:
            return None
        data = self._gather(offsets, sizes)
        starts = np.cumsum(sizes) - sizes
        if len(data) != int(starts[-1] + sizes[-1]):
            return None
        columns = RecordColumns(data, starts)
        header = columns.header
        fits = (header["commitlog_offset"] == offsets) & (header["queue_offset"] == queue_offsets) & (header["size"] == sizes)
        fits &= (header["topic_id"] == key.topic_id) & (header["queue_id"] == key.queue_id)
        return data if fits.all() and not find_faults(columns, limits=STORED_LIMITS).size else None

    def entries(self, key: QueueKey, first: int, count: int, confirmed: int) -> npt.NDArray[np.void]:
        """Up to so many entries from queue offset ``first`` on, of records that end at or below log offset ``confirmed``."""
        try:
            return self.queues.read(key, first, count, confirmed)
        except CorruptStoreError as error:
            raise DamagedQueueError(error.path, error.offset, error.reason) from error

    def _before_what_is_wrong(self, key: QueueKey, first: int, offsets: Longs, sizes: Longs, confirmed: int) -> bytes | memoryview:
        wrong = (sizes < FIXED_BYTES) | (offsets + sizes > confirmed) | (offsets < self._log.start)
        good = int(wrong.argmax())
        if good == 0:
            raise self._damaged(key, first, "an entry leads nowhere")
        return self.read(key, first, good, int(sizes[:good].sum()))

    def _damaged(self, key: QueueKey, offset: int, reason: str) -> DamagedQueueError:
        return DamagedQueueError(str(self._directory), offset, f"{reason} (queue {key.queue_id} of topic number {key.topic_id})")

    def _gather(self, offsets: Longs, sizes: Longs) -> bytes | memoryview:
        """The records one behind another, with as few reads as is worth it."""
        ends = offsets + sizes
        gaps = offsets[1:] - ends[:-1]
        numbers = self._log.segment_numbers(offsets)
        apart = (gaps < 0) | (gaps > _WORTH_READING_OVER) | (numbers[1:] != numbers[:-1])
        runs = list(pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), offsets.size]))
        if not self._log.is_hot(int(offsets[0])) and not gaps[~apart].any():
            return self._read_runs([(int(offsets[begin]), int(ends[end - 1])) for begin, end in runs])
        pieces: list[bytes | memoryview] = []
        for begin, end in runs:
            base = int(offsets[begin])
            view = memoryview(self._log.read(base, int(ends[end - 1])))
            if gaps[begin : end - 1].any():
                places = zip(offsets[begin:end].tolist(), ends[begin:end].tolist(), strict=True)
                pieces += [view[at - base : until - base] for at, until in places]
            else:
                pieces.append(view)
        return b"".join(pieces)

    def _read_runs(self, runs: list[tuple[int, int]]) -> memoryview:
        """Runs of the log, each within its segment, one behind another in new memory that nobody else has to fill first."""
        data = np.empty(sum(end - begin for begin, end in runs), np.uint8).data
        at = 0
        for begin, end in runs:
            segment = self._log.segment_of(begin)
            at += segment.file.read_into(data[at : at + min(end, segment.end) - begin], begin - segment.start)
        return data[:at]
