"""Many records of version 1 at once, for reading. The layout is in ``record.py``.

Version 1 has its lengths between its parts, so the records are walked side by side, one field of all of them after another.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from litemq.errors import RecordFormatError
from litemq.format.columns.string_lists import StringLists, Strings, all_utf8, maybe_repeated_names, walk_counted
from litemq.format.limits import DEFAULT_LIMITS, RecordLimits
from litemq.format.record import Buffer
from litemq.format.v1.record import MAGIC_V1, MIN_BYTES_V1, decode_record_v1
from litemq.types import LATEST_TIME_MS, MessageStatus, MessageType, RecordKind

__all__ = ["RecordColumnsV1", "find_faults_v1"]

Longs = npt.NDArray[np.int64]

_MEANING: Final = np.dtype([("type", "u1"), ("priority", "u1"), ("reliability", "u1"), ("delay_time", ">u8")])
_PLACE: Final = np.dtype(
    [
        ("queue_id", ">u4"),
        ("queue_offset", ">i8"),
        ("commitlog_offset", ">i8"),
        ("store_size", ">u4"),
        ("store_timestamp", ">u8"),
        ("consume_start_time", ">u8"),
        ("consume_end_time", ">u8"),
        ("consume_count", ">u4"),
    ]
)


class RecordColumnsV1:
    """The version 1 records that begin at ``starts`` in a buffer. Every start must come from a scan of version 1."""

    def __init__(self, buffer: Buffer, starts: Longs) -> None:
        self.buffer = buffer
        self.data = np.frombuffer(buffer, np.uint8)
        self.starts = starts
        walk = _Walk(self.data, starts)
        self.magic = walk.numbers(">u4")
        self.message_id = walk.string()
        self.topic = walk.string()
        self.tags = walk.strings()
        self.keys = walk.strings()
        self.properties = walk.strings(of_each=2)
        self.body = walk.body()
        self.meaning = walk.items(_MEANING)
        self.transaction_id = walk.string()
        self.status = walk.numbers("u1")
        self.sharding_key = walk.string()
        self.broadcast = walk.numbers("u1")
        self.born_timestamp = walk.items(np.dtype(">u8"))
        self.born_host = walk.string()
        self.store_host = walk.string()
        self.place = walk.items(_PLACE)
        self.sizes = walk.ends - starts
        self.broken = walk.broken | (walk.at != walk.ends)

    def __len__(self) -> int:
        return int(self.starts.size)

    def subset(self, which: Longs) -> RecordColumnsV1:
        """Some of the records."""
        return RecordColumnsV1(self.buffer, self.starts[which])

    @property
    def kinds(self) -> Longs:
        """What each record is in the log, from its status and its type."""
        kinds = np.array([RecordKind.MESSAGE, RecordKind.HALF, RecordKind.COMMITTED, RecordKind.HALF])[self.status & 3]
        delayed = (self.status == MessageStatus.NORMAL) & (self.meaning["type"] == MessageType.DELAY)
        return np.where(delayed, np.int64(RecordKind.PENDING), kinds)


class _Walk:
    """A place in each record, moved over one field of all of them at a time, never beyond a record's end."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: Longs) -> None:
        self.data = data
        self.ends = starts
        self.broken = np.zeros(starts.size, np.bool_)
        self._safe = starts  # where at least MIN_BYTES_V1 bytes can be read
        self.at = starts
        self.ends = starts + MIN_BYTES_V1
        self.ends = starts + 4 + self.numbers(">u4")

    def _pass(self, count: Longs | int) -> Longs:
        """Go over ``count`` bytes and return where they begin; where they are not there, the record is broken and goes nowhere."""
        here = self.at
        following = here + count
        beyond = following > self.ends
        if beyond.any():
            self.broken = self.broken | beyond
            here = np.where(beyond, self._safe, here)
            following = np.where(beyond, self._safe, following)
        self.at = following
        return here

    def items(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        here = self._pass(dtype.itemsize)
        if here.size == 0:
            return np.empty(0, dtype)
        raw = np.ndarray((self.data.size - dtype.itemsize + 1,), np.dtype((np.void, dtype.itemsize)), self.data.data, 0, (1,))
        return raw[here].view(dtype)

    def numbers(self, dtype: str) -> Longs:
        return self.items(np.dtype(dtype)).astype(np.int64)

    def string(self) -> Strings:
        lengths = self.numbers(">u2")
        return self._part(lengths)

    def body(self) -> Strings:
        return self._part(self.numbers(">u4"))

    def _part(self, lengths: Longs) -> Strings:
        was_broken = self.broken
        positions = self._pass(lengths)
        if self.broken is not was_broken:
            lengths = np.where(self.broken, 0, lengths)
        return Strings(positions, lengths)

    def strings(self, of_each: int = 1) -> StringLists:
        counts = self.numbers(">u4") * of_each
        # A count is believed only as far as there are bytes: each string needs two.
        beyond = counts * 2 > self.ends - self.at
        if beyond.any():
            self.broken = self.broken | beyond
            counts = np.where(beyond, 0, counts)
        lists = walk_counted(self.data, self.at, counts, self.ends)
        self.at = lists.ends
        if lists.broken.size:
            self.broken = self.broken.copy()
            self.broken[lists.broken] = True
        return lists


def find_faults_v1(columns: RecordColumnsV1, *, limits: RecordLimits = DEFAULT_LIMITS) -> Longs:
    """The numbers of the records that are not valid, rising."""
    if columns.broken.any():
        kept = np.flatnonzero(~columns.broken)
        rest = find_faults_v1(columns.subset(kept), limits=limits) if kept.size else kept
        return np.sort(np.concatenate((np.flatnonzero(columns.broken), kept[rest])))
    if len(columns) == 0:
        return np.empty(0, np.int64)
    meaning, place = columns.meaning, columns.place
    marks = (columns.magic != MAGIC_V1) | (columns.sizes > limits.max_record_bytes)
    marks |= (meaning["type"] > 4) | (meaning["reliability"] > 3) | (columns.status > 3) | (columns.broadcast > 1)
    marks |= (place["queue_offset"] < 0) | (place["commitlog_offset"] < 0)
    for times in (
        meaning["delay_time"],
        columns.born_timestamp,
        place["store_timestamp"],
        place["consume_start_time"],
        place["consume_end_time"],
    ):
        marks |= times > LATEST_TIME_MS

    doubtful = np.zeros(len(columns), np.bool_)
    several = np.flatnonzero(columns.properties.counts > 2)
    doubtful[maybe_repeated_names(columns.data, columns.properties, several)] = True
    named = (columns.message_id, columns.topic, columns.transaction_id, columns.sharding_key, columns.born_host, columns.store_host)
    inside = (columns.tags.strings, columns.keys.strings, columns.properties.strings)
    every = Strings(*(np.concatenate([strings[i] for strings in (*named, *inside)]) for i in (0, 1)))
    if not all_utf8(columns.data, every):
        doubtful[:] = True
    for number in np.flatnonzero(doubtful & ~marks).tolist():
        try:
            decode_record_v1(columns.buffer, int(columns.starts[number]), limits=limits)
        except RecordFormatError:
            marks[number] = True
    return np.flatnonzero(marks)
