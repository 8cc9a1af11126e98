"""Columns of many records, version 1, for reading. The layout is in ``v1/record.py``.

In version 1 the lengths are between the parts, so a cursor moves through all records in parallel,
one field at a time.
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

_ATTRIBUTES: Final = np.dtype([("type", "u1"), ("priority", "u1"), ("reliability", "u1"), ("delay_time", ">u8")])
_STORED: Final = np.dtype(
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
    """The version 1 records at ``starts`` in a buffer. The starts must come from a scan."""

    def __init__(self, buffer: Buffer, starts: Longs) -> None:
        self.buffer = buffer
        self.data = np.frombuffer(buffer, np.uint8)
        self.starts = starts
        cursor = _Cursor(self.data, starts)
        self.magic = cursor.numbers(">u4")
        self.message_id = cursor.string()
        self.topic = cursor.string()
        self.tags = cursor.strings()
        self.keys = cursor.strings()
        self.properties = cursor.strings(per_item=2)
        self.body = cursor.body()
        self.attributes = cursor.items(_ATTRIBUTES)
        self.transaction_id = cursor.string()
        self.status = cursor.numbers("u1")
        self.sharding_key = cursor.string()
        self.broadcast = cursor.numbers("u1")
        self.born_timestamp = cursor.items(np.dtype(">u8"))
        self.born_host = cursor.string()
        self.store_host = cursor.string()
        self.stored = cursor.items(_STORED)
        self.sizes = cursor.ends - starts
        self.broken = cursor.broken | (cursor.at != cursor.ends)

    def __len__(self) -> int:
        return int(self.starts.size)

    def subset(self, which: Longs) -> RecordColumnsV1:
        """Return the columns of the records ``which``."""
        return RecordColumnsV1(self.buffer, self.starts[which])

    @property
    def kinds(self) -> Longs:
        """The kind of each record, from its status and its type."""
        kinds = np.array([RecordKind.MESSAGE, RecordKind.HALF, RecordKind.COMMITTED, RecordKind.HALF])[self.status & 3]
        delayed = (self.status == MessageStatus.NORMAL) & (self.attributes["type"] == MessageType.DELAY)
        return np.where(delayed, np.int64(RecordKind.PENDING), kinds)


class _Cursor:
    """A position in each record, moved by one field at a time, never beyond a record's end."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: Longs) -> None:
        self.data = data
        self.ends = starts
        self.broken = np.zeros(starts.size, np.bool_)
        self._safe = starts  # positions with at least MIN_BYTES_V1 readable bytes
        self.at = starts
        self.ends = starts + MIN_BYTES_V1
        self.ends = starts + 4 + self.numbers(">u4")

    def _advance(self, count: Longs | int) -> Longs:
        """Advance by ``count`` bytes and return the old positions.

        A record that has fewer bytes is broken; its cursor moves to a safe position.
        """
        begin = self.at
        end = begin + count
        beyond = end > self.ends
        if beyond.any():
            self.broken = self.broken | beyond
            begin = np.where(beyond, self._safe, begin)
            end = np.where(beyond, self._safe, end)
        self.at = end
        return begin

    def items(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        begin = self._advance(dtype.itemsize)
        if begin.size == 0:
            return np.empty(0, dtype)
        item = np.dtype((np.void, dtype.itemsize))
        raw = np.ndarray((self.data.size - dtype.itemsize + 1,), item, self.data.data, 0, (1,))
        return raw[begin].view(dtype)

    def numbers(self, dtype: str) -> Longs:
        return self.items(np.dtype(dtype)).astype(np.int64)

    def string(self) -> Strings:
        lengths = self.numbers(">u2")
        return self._part(lengths)

    def body(self) -> Strings:
        return self._part(self.numbers(">u4"))

    def _part(self, lengths: Longs) -> Strings:
        was_broken = self.broken
        positions = self._advance(lengths)
        if self.broken is not was_broken:
            lengths = np.where(self.broken, 0, lengths)
        return Strings(positions, lengths)

    def strings(self, per_item: int = 1) -> StringLists:
        counts = self.numbers(">u4") * per_item
        # Reject counts that cannot fit: each string needs at least two bytes.
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
    """Return the indexes of the invalid records, ascending."""
    if columns.broken.any():
        kept = np.flatnonzero(~columns.broken)
        rest = find_faults_v1(columns.subset(kept), limits=limits) if kept.size else kept
        return np.sort(np.concatenate((np.flatnonzero(columns.broken), kept[rest])))
    if len(columns) == 0:
        return np.empty(0, np.int64)
    attributes, stored = columns.attributes, columns.stored
    marks = (columns.magic != MAGIC_V1) | (columns.sizes > limits.max_record_bytes)
    marks |= (attributes["type"] > 4) | (attributes["reliability"] > 3) | (columns.status > 3) | (columns.broadcast > 1)
    marks |= (stored["queue_offset"] < 0) | (stored["commitlog_offset"] < 0)
    for times in (
        attributes["delay_time"],
        columns.born_timestamp,
        stored["store_timestamp"],
        stored["consume_start_time"],
        stored["consume_end_time"],
    ):
        marks |= times > LATEST_TIME_MS

    doubtful = np.zeros(len(columns), np.bool_)
    several = np.flatnonzero(columns.properties.counts > 2)
    doubtful[maybe_repeated_names(columns.data, columns.properties, several)] = True
    named = (
        columns.message_id,
        columns.topic,
        columns.transaction_id,
        columns.sharding_key,
        columns.born_host,
        columns.store_host,
    )
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
