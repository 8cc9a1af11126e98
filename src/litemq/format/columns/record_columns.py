"""Record columns: the columnar codec, for many records of version 2 at once.

No loop here runs over messages if it can run over columns. One gather reads the fixed parts of all
records, one cumulative sum gives the positions of all variable parts, and the lists inside them are
walked side by side. ``batches/check.py`` validates the records, ``batches/stamp.py`` writes the
broker's fields, ``arrow/batches.py`` converts them to Arrow. ``record_decode.py`` is the scalar
codec; property tests hold the two equal, on good and on malformed bytes.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.format.columns.string_lists import COMPARED_BYTES, ListColumn, Strings, rows_at
from litemq.format.limits import MAX_KEYS, MAX_PROPERTIES_BYTES, MAX_TAGS
from litemq.format.record import FIXED_BYTES, Buffer

__all__ = ["BODY_AT", "HEADER", "PARTS", "TAGS_AT", "HeaderWord", "RecordColumns"]

HEADER: Final = np.dtype(
    [
        ("size", ">u4"),
        ("magic", ">u4"),
        ("producer_crc", ">u4"),
        ("broker_crc", ">u4"),
        ("commitlog_offset", ">i8"),
        ("queue_offset", ">i8"),
        ("store_timestamp", ">i8"),
        ("origin", ">i8"),
        ("topic_id", ">u4"),
        ("queue_id", ">u4"),
        ("epoch", ">u4"),
        ("kind", "u1"),
        ("zero_1", "u1"),
        ("consume_count", ">u2"),
        ("born_timestamp", ">i8"),
        ("delay_time", ">i8"),
        ("expire_at", ">i8"),
        ("producer_id", ">u8"),
        ("sequence", ">u8"),
        ("tag_hash", ">u4"),
        ("flags", ">u4"),
        ("type", "u1"),
        ("priority", "u1"),
        ("reliability", "u1"),
        ("zero_2", "u1"),
        ("string_lengths", ">u2", 5),
        ("zero_3", ">u2"),
        ("part_lengths", ">u4", 4),
    ]
)
assert HEADER.itemsize == FIXED_BYTES

# The variable parts in their order. ``bounds[PARTS.index(name)]`` has the starts of a part, the
# next row its ends.
PARTS: Final = (
    "message_id",
    "topic",
    "transaction_id",
    "sharding_key",
    "born_host",
    "tags",
    "keys",
    "properties",
    "body",
)
TAGS_AT: Final = PARTS.index("tags")
BODY_AT: Final = PARTS.index("body")
_FIXED: Final = np.dtype((np.void, FIXED_BYTES))
_PRODUCER: Final = np.dtype([("producer_id", ">u8"), ("sequence", ">u8")])


class HeaderWord(IntEnum):
    """The 32-bit words of the header. A 64-bit field is two words, the upper half first."""

    SIZE = 0
    MAGIC = 1
    PRODUCER_CRC = 2
    BROKER_CRC = 3
    COMMITLOG = 4
    COMMITLOG_LOW = 5
    QUEUE = 6
    QUEUE_LOW = 7
    STORED = 8
    STORED_LOW = 9
    ORIGIN = 10
    ORIGIN_LOW = 11
    TOPIC_ID = 12
    QUEUE_ID = 13
    EPOCH = 14
    KIND = 15
    BORN = 16
    BORN_LOW = 17
    DUE = 18
    DUE_LOW = 19
    EXPIRE = 20
    EXPIRE_LOW = 21
    PRODUCER_ID = 22
    PRODUCER_ID_LOW = 23
    SEQUENCE = 24
    SEQUENCE_LOW = 25
    TAG_HASH = 26
    FLAGS = 27
    ATTRIBUTES = 28
    ID_AND_TOPIC = 29
    TRANSACTION_AND_SHARDING = 30
    HOST_AND_ZERO = 31
    TAGS = 32
    KEYS = 33
    PROPERTIES = 34
    BODY = 35


def sizes_between(starts: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.int64]:
    """Return the sizes of consecutive records, the last of which ends at ``end``."""
    sizes = np.empty_like(starts)
    if starts.size:
        np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
        sizes[-1] = end - starts[-1]
    return sizes


class RecordColumns:
    """The records at ``starts`` in a buffer. The starts must come from a scan."""

    def __init__(self, buffer: Buffer, starts: npt.NDArray[np.int64]) -> None:
        self.buffer = buffer
        self.data = np.frombuffer(buffer, np.uint8)
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.is_uniform = False  # all records are known to have equal tags and properties

    def __len__(self) -> int:
        return int(self.starts.size)

    def subset(self, which: npt.NDArray[np.int64]) -> RecordColumns:
        """Return the columns of the records ``which``."""
        return RecordColumns(self.buffer, self.starts[which])

    @cached_property
    def header(self) -> npt.NDArray[np.void]:
        """The fixed part of every record."""
        # One gather, from a view with an overlapping item at each byte of the buffer.
        beginning_anywhere = np.ndarray((max(0, self.data.size - FIXED_BYTES + 1),), _FIXED, self.buffer, 0, (1,))
        return beginning_anywhere[self.starts].view(HEADER)

    def forget_headers(self) -> None:
        """Drop cached headers after the buffer has changed."""
        if "header" in self.__dict__:
            for name in ("header", "words", "set_anywhere", "set_everywhere"):
                self.__dict__.pop(name, None)

    def _word(self, word: HeaderWord) -> npt.NDArray[np.uint32]:
        """Return one column of ``words``, without gathering the others."""
        if "words" in self.__dict__:
            return self.words[:, word]
        beginning_anywhere = np.ndarray((max(0, self.data.size - 3),), ">u4", self.buffer, 0, (1,))
        return beginning_anywhere[self.starts + 4 * word].astype(np.uint32)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size of every record."""
        return self._word(HeaderWord.SIZE).astype(np.int64)

    @cached_property
    def tag_hashes(self) -> npt.NDArray[np.uint32]:
        """The hash of every record's tags."""
        return self._word(HeaderWord.TAG_HASH)

    @property
    def producers(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The producer id and sequence of every record; sequences from 2^63 on are negative."""
        beginning_anywhere = np.ndarray(
            (max(0, self.data.size - _PRODUCER.itemsize + 1),), _PRODUCER, self.buffer, 0, (1,)
        )
        found = beginning_anywhere[self.starts + 4 * HeaderWord.PRODUCER_ID]
        return found["producer_id"].astype(np.uint64), found["sequence"].astype(np.int64)

    @cached_property
    def words(self) -> npt.NDArray[np.uint32]:
        """The headers as 32-bit words, one row per record."""
        return self.header.view(">u4").reshape(len(self), FIXED_BYTES // 4).astype(np.uint32)

    @cached_property
    def set_anywhere(self) -> list[int]:
        """For each of ``words``, the bits that are set in at least one record."""
        bits: list[int] = np.bitwise_or.reduce(self.words, axis=0).tolist()
        return bits

    @cached_property
    def set_everywhere(self) -> list[int]:
        """For each of ``words``, the bits that are set in all records."""
        bits: list[int] = np.bitwise_and.reduce(self.words, axis=0).tolist()
        return bits

    @cached_property
    def layout(self) -> list[int] | None:
        """The starts of the parts, relative to the first part, if they are the same in all records.

        The last number is the start of the body.
        """
        lengths = slice(HeaderWord.ID_AND_TOPIC, HeaderWord.BODY)
        same = self.set_everywhere[lengths]
        if not len(self) or self.set_anywhere[lengths] != same:
            return None
        halves = [half for pair in same[:3] for half in divmod(pair, 1 << 16)]
        return list(accumulate([*halves[:TAGS_AT], *same[3:]], initial=0))

    @cached_property
    def rows(self) -> npt.NDArray[np.uint8] | None:
        """The bytes between header and body, one row per record, if all have one short layout.

        Valid only if the lengths add up.
        """
        if self.layout is None or self.layout[-1] > COMPARED_BYTES:
            return None
        return rows_at(self.data, self.starts + FIXED_BYTES, self.layout[-1])

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """The starts of all parts, one row per part; the last row has the ends of the bodies."""
        words = self.words
        bounds = np.empty((len(PARTS) + 1, len(self)), np.int64)
        if self.layout is not None:
            np.add(self.starts, np.array(self.layout)[:, None] + FIXED_BYTES, out=bounds[:-1])
            np.add(bounds[-2], words[:, HeaderWord.BODY], out=bounds[-1])
            return bounds
        np.add(self.starts, FIXED_BYTES, out=bounds[0])
        pairs = words[:, HeaderWord.ID_AND_TOPIC : HeaderWord.TAGS].T
        bounds[1:6:2] = pairs >> 16
        bounds[2:6:2] = pairs[:2] & 0xFFFF
        bounds[6:] = words[:, HeaderWord.TAGS :].T
        return np.cumsum(bounds, axis=0, out=bounds)

    def part(self, name: str) -> Strings:
        """Return one variable part of every record."""
        at = PARTS.index(name)
        begins = self.bounds[at]
        return Strings(begins, self.bounds[at + 1] - begins)

    def _list(self, name: str, *, max_strings: int, may_be_shared: bool) -> ListColumn:
        at = PARTS.index(name)
        column = ListColumn(
            self.data, self.bounds[at], self.bounds[at + 1], max_strings=max_strings, may_be_shared=may_be_shared
        )
        if may_be_shared and self.is_uniform:
            column.is_shared = True
        return column

    @cached_property
    def tags(self) -> ListColumn:
        """The tags of every record."""
        return self._list("tags", max_strings=MAX_TAGS, may_be_shared=True)

    @cached_property
    def keys(self) -> ListColumn:
        """The keys of every record. They are hardly ever equal, so that is not tested."""
        return self._list("keys", max_strings=MAX_KEYS, may_be_shared=False)

    @cached_property
    def properties(self) -> ListColumn:
        """The properties of every record, as alternating names and values."""
        return self._list("properties", max_strings=MAX_PROPERTIES_BYTES, may_be_shared=True)
