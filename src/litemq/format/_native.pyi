"""The loops in C. Arrays are contiguous, of the width that is said; what is to be filled is the last argument, and as long as the others.

A "no" is never a verdict on what a producer sent: it means that the twin in Python is to look, and to explain.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from litemq.format.messages import MessageFields
from litemq.format.record import Buffer

_Bytes: TypeAlias = Buffer | npt.NDArray[np.uint8]
_Longs: TypeAlias = npt.NDArray[np.int64]
_Frame = TypeVar("_Frame", bound=tuple[int, int, int, bytes, bytes])

NO_VERDICT: int
SOUND: int
ALIKE: int

def crc32c(data: _Bytes, before: int = 0, /) -> int:
    """The checksum of what has the checksum ``before``, and then these bytes."""

def crc32c_by_table(data: _Bytes, before: int = 0, /) -> int:
    """The same, as a processor without an instruction for it computes it."""

def crc32c_of_strings(data: _Bytes, positions: _Longs, lengths: _Longs, before: int, crcs: npt.NDArray[np.uint32], /) -> None:
    """The checksums of what has the checksum ``before`` and then one of the strings."""

def crc32c_of_rows(rows: npt.NDArray[np.uint8], width: int, crcs: npt.NDArray[np.uint32], /) -> None:
    """The checksums of the rows of a matrix."""

def scan(buffer: Buffer, begin: int, end: int, max_record_bytes: int, /) -> tuple[bytearray, int]:
    """The starts of the records of version 2, as the bytes of int64, and where their chain ends."""

def sent_alike(buffer: Buffer, max_record_bytes: int, /) -> tuple[int, int, int, int, int] | None:
    """How many records fill a buffer, of which producer, from which sequence on, their type, priority and level as they stand in the header,
    and the latest due time; ``None`` where that is not the same for all."""

def examine(buffer: Buffer, starts: _Longs, stored: bool, max_record_bytes: int, verify_crc: bool, /) -> int:
    """``SOUND`` if every record surely follows every rule, ``ALIKE`` if all have the same tags and properties besides."""

def count_intact(buffer: Buffer, starts: _Longs, log_offsets: _Longs, first: int, topic_id: int, queue_id: int, /) -> int:
    """How many of the records that fill a buffer, from the first on, are what was stored in those places of a queue."""

def are_of_topic(buffer: Buffer, starts: _Longs, topic: bytes, /) -> bool:
    """Whether all of some valid records were written for one topic."""

def stamp(
    buffer: Buffer,
    starts: _Longs,
    commitlog_offsets: _Longs | int,
    queue_offsets: _Longs | int,
    topic_ids: _Longs | int,
    queue_ids: _Longs | int,
    store_timestamp: _Longs | int,
    epoch: _Longs | int,
    kinds: _Longs | int,
    origins: _Longs | int,
    consume_counts: _Longs | int,
    /,
) -> bool:
    """Write the broker's fields and their checksum into all records; into none, where a value is not as it should be."""

def queue_entries(
    buffer: Buffer, starts: _Longs, order: _Longs | None, commitlog_offsets: _Longs, store_timestamps: _Longs | int, entries: _Bytes, /
) -> bool:
    """The records' queue entries, in their own order or in the one that is given."""

def stretches(
    buffer: Buffer, starts: _Longs, topic_id: int, queue_ids: _Longs | int, queue_offsets: _Longs | int, store_timestamp: int, /
) -> tuple[list[tuple[tuple[int, int, int], int, int]], bytes | bytearray] | None:
    """The stretches of the records that have a producer, and the table of their runs, as the bytes of int64; ``None`` for no verdict."""

def hash_keys(buffer: Buffer, starts: _Longs, /) -> tuple[bytearray, bytearray] | None:
    """The hashes of ids and keys, as the bytes of uint32, and the numbers of their records, as those of int64."""

def link(slots: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint32], first_number: int, previous: npt.NDArray[np.uint32], /) -> None:
    """Put entries, counted from ``first_number``, into their slots; ``previous`` are the entries that were there before."""

def encode(
    shape: bytes,
    max_record_bytes: int,
    body: bytes | bytearray,
    message_id: str,
    keys: Sequence[str],
    born_timestamp: int,
    sequence: int,
    delay_time: int,
    expire_at: int,
    transaction_id: str,
    sharding_key: str,
    message_type: int,
    codec: int,
    encrypted: bool,
    /,
) -> bytes | None:
    """A record as a producer sends it. ``shape`` is the fixed part of a record that has only a topic, a host, tags and properties, and those."""

def decode_messages(
    buffer: Buffer,
    begin: int,
    max_record_bytes: int,
    message_type: type[MessageFields],
    members: tuple[tuple[int, ...], ...],
    no_properties: Mapping[str, str],
    messages: list[MessageFields],
    /,
) -> int:
    """Append the messages from ``begin`` on; the end of the last whose record surely follows every rule. ``members`` are those of the kinds,
    codecs, levels and types."""

def split_frames(
    data: bytes, begin: int, most: int, max_frame_bytes: int, frame_type: type[_Frame], /
) -> tuple[list[_Frame], int, int] | None:
    """The whole frames from ``begin`` on, ``most`` at most, where they end, and how many bytes must be there before it is worth looking again;
    ``None`` if one cannot be a frame. Equal headers, one behind another, are the same object."""

def pack_sent_answers(correlations: list[int], queue_offsets: list[int], opcode: int, store_timestamp: int, /) -> bytes | None:
    """The frames that answer what was sent, one behind another."""
