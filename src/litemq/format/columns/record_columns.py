"""Many records of version 2 at once: the columnar codec.

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

__all__ = ["BODY_AT", "HEADER", "PARTS", "TAGS_AT", "RecordColumns", "Word"]

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

# The variable parts in their order; ``bounds[PARTS.index(name)]`` is where a part begins and the next row where it ends.
PARTS: Final = ("message_id", "topic", "transaction_id", "sharding_key", "born_host", "tags", "keys", "properties", "body")
TAGS_AT: Final = PARTS.index("tags")
BODY_AT: Final = PARTS.index("body")
_FIXED: Final = np.dtype((np.void, FIXED_BYTES))
_PRODUCER: Final = np.dtype([("producer_id", ">u8"), ("sequence", ">u8")])


class Word(IntEnum):
    """The header in numbers of 32 bits; of a field with 64, the first name is its upper half."""

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
    MEANING = 28
    ID_AND_TOPIC = 29
    TRANSACTION_AND_SHARDING = 30
    HOST_AND_ZERO = 31
    TAGS = 32
    KEYS = 33
    PROPERTIES = 34
    BODY = 35


def sizes_between(starts: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.int64]:
    """The sizes of records that stand one behind another, the last of them before ``end``."""
    sizes = np.empty_like(starts)
    if starts.size:
        np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
        sizes[-1] = end - starts[-1]
    return sizes


class RecordColumns:
    """The records that begin at ``starts`` in a buffer. Every start must come from a scan: 144 bytes and the whole record are there."""

    def __init__(self, buffer: Buffer, starts: npt.NDArray[np.int64]) -> None:
        self.buffer = buffer
        self.data = np.frombuffer(buffer, np.uint8)
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.of_one_template = False  # whether all are known to have the same tags and the same properties

    def __len__(self) -> int:
        return int(self.starts.size)

    def subset(self, which: npt.NDArray[np.int64]) -> RecordColumns:
        """Some of the records."""
        return RecordColumns(self.buffer, self.starts[which])

    @cached_property
    def header(self) -> npt.NDArray[np.void]:
        """The fixed part of every record."""
        # One gather: an item of 144 bytes begins at each byte of the buffer.
        beginning_anywhere = np.ndarray((max(0, self.data.size - FIXED_BYTES + 1),), _FIXED, self.buffer, 0, (1,))
        return beginning_anywhere[self.starts].view(HEADER)

    def forget_headers(self) -> None:
        """The headers have changed: whoever asks for them next is told what they say now."""
        if "header" in self.__dict__:
            for name in ("header", "words", "set_anywhere", "set_everywhere"):
                self.__dict__.pop(name, None)

    def _word(self, word: Word) -> npt.NDArray[np.uint32]:
        """One of ``words``; where they have not been gathered, without the others."""
        if "words" in self.__dict__:
            return self.words[:, word]
        beginning_anywhere = np.ndarray((max(0, self.data.size - 3),), ">u4", self.buffer, 0, (1,))
        return beginning_anywhere[self.starts + 4 * word].astype(np.uint32)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size of every record."""
        return self._word(Word.SIZE).astype(np.int64)

    @cached_property
    def tag_hashes(self) -> npt.NDArray[np.uint32]:
        """The hash of every record's tags."""
        return self._word(Word.TAG_HASH)

    @property
    def producers(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The producer of every record, and its number there, without the rest of the headers; one of 2^63 and more is negative."""
        beginning_anywhere = np.ndarray((max(0, self.data.size - _PRODUCER.itemsize + 1),), _PRODUCER, self.buffer, 0, (1,))
        found = beginning_anywhere[self.starts + 4 * Word.PRODUCER_ID]
        return found["producer_id"].astype(np.uint64), found["sequence"].astype(np.int64)

    @cached_property
    def words(self) -> npt.NDArray[np.uint32]:
        """The headers as numbers of 32 bits, a row each."""
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
        """Where the parts begin, counted from the first, if that is the same in all records; the last number is where the bodies begin."""
        lengths = slice(Word.ID_AND_TOPIC, Word.BODY)
        same = self.set_everywhere[lengths]
        if not len(self) or self.set_anywhere[lengths] != same:
            return None
        halves = [half for pair in same[:3] for half in divmod(pair, 1 << 16)]
        return list(accumulate([*halves[:TAGS_AT], *same[3:]], initial=0))

    @cached_property
    def rows(self) -> npt.NDArray[np.uint8] | None:
        """All that stands between the headers and the bodies, a row a record, if the layout is the same in all and not too wide.

        Only where the lengths were found to add up.
        """
        if self.layout is None or self.layout[-1] > COMPARED_BYTES:
            return None
        return rows_at(self.data, self.starts + FIXED_BYTES, self.layout[-1])

    @cached_property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Where each part of all records begins, a row a part, and in the last row where the bodies end."""
        words = self.words
        bounds = np.empty((len(PARTS) + 1, len(self)), np.int64)
        if self.layout is not None:
            np.add(self.starts, np.array(self.layout)[:, None] + FIXED_BYTES, out=bounds[:-1])
            np.add(bounds[-2], words[:, Word.BODY], out=bounds[-1])
            return bounds
        np.add(self.starts, FIXED_BYTES, out=bounds[0])
        pairs = words[:, Word.ID_AND_TOPIC : Word.TAGS].T
        bounds[1:6:2] = pairs >> 16
        bounds[2:6:2] = pairs[:2] & 0xFFFF
        bounds[6:] = words[:, Word.TAGS :].T
        return np.cumsum(bounds, axis=0, out=bounds)

    def part(self, name: str) -> Strings:
        """One variable part of every record."""
        at = PARTS.index(name)
        begins = self.bounds[at]
        return Strings(begins, self.bounds[at + 1] - begins)

    def _list(self, name: str, *, most: int, may_be_shared: bool) -> ListColumn:
        at = PARTS.index(name)
        column = ListColumn(self.data, self.bounds[at], self.bounds[at + 1], most=most, may_be_shared=may_be_shared)
        if may_be_shared and self.of_one_template:
            column.is_shared = True
        return column

    @cached_property
    def tags(self) -> ListColumn:
        """The tags of every record."""
        return self._list("tags", most=MAX_TAGS, may_be_shared=True)

    @cached_property
    def keys(self) -> ListColumn:
        """The keys of every record: hardly ever the same, so it is not worth a look."""
        return self._list("keys", most=MAX_KEYS, may_be_shared=False)

    @cached_property
    def properties(self) -> ListColumn:
        """The names and values, in turn, of every record's properties."""
        return self._list("properties", most=MAX_PROPERTIES_BYTES, may_be_shared=True)
