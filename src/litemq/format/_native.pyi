"""The C extension. Arrays are contiguous and of the given type; output arrays come last.

``None``, ``False`` or ``NO_VERDICT`` is never a verdict on a producer's bytes: the equivalent
Python function then decides and explains.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

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
    """Continue the checksum ``before`` with ``data``."""

def crc32c_by_table(data: _Bytes, before: int = 0, /) -> int:
    """Compute ``crc32c`` without the CPU's instruction."""

def crc32c_of_strings(
    data: _Bytes, positions: _Longs, lengths: _Longs, before: int, crcs: npt.NDArray[np.uint32], /
) -> None:
    """Continue the checksum ``before`` with each of the strings."""

def crc32c_of_rows(rows: npt.NDArray[np.uint8], width: int, crcs: npt.NDArray[np.uint32], /) -> None:
    """Compute the checksums of the rows of a matrix."""

def scan(buffer: Buffer, begin: int, end: int, max_record_bytes: int, /) -> tuple[bytearray, int]:
    """Return the starts of the records, as bytes of int64, and the end of their chain."""

def sent_alike(buffer: Buffer, max_record_bytes: int, /) -> tuple[int, int, int, int, int] | None:
    """Return the fields of ``UniformSends``; ``None`` if the batch is not uniform."""

def examine(buffer: Buffer, starts: _Longs, stored: bool, max_record_bytes: int, verify_crc: bool, /) -> int:
    """Return ``SOUND`` if all records are valid, ``ALIKE`` if they share tags and properties."""

def count_intact(
    buffer: Buffer, starts: _Longs, log_offsets: _Longs, first: int, topic_id: int, queue_id: int, /
) -> int:
    """Count the leading intact records; ``first`` is the queue offset of the first record."""

def are_of_topic(buffer: Buffer, starts: _Longs, topic: bytes, /) -> bool:
    """Return whether all records, which must be valid, are of ``topic``."""

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
    """Write the broker's fields and checksum into all records; into none if a value is invalid."""

def queue_entries(
    buffer: Buffer,
    starts: _Longs,
    order: _Longs | None,
    commitlog_offsets: _Longs,
    store_timestamps: _Longs | int,
    entries: _Bytes,
    /,
) -> bool:
    """Write the queue entries of the records into ``entries``, in ``order`` if given."""

def stretches(
    buffer: Buffer,
    starts: _Longs,
    topic_id: int,
    queue_ids: _Longs | int,
    queue_offsets: _Longs | int,
    store_timestamp: int,
    /,
) -> tuple[list[tuple[tuple[int, int, int], int, int]], bytes | bytearray] | None:
    """Return the fields of ``ProducerRuns``, the table as bytes of int64; ``None``: no verdict."""

def hash_keys(buffer: Buffer, starts: _Longs, /) -> tuple[bytearray, bytearray] | None:
    """Return the hashes of ids and keys (bytes of uint32) and their records' indexes (of int64)."""

def link(
    slots: npt.NDArray[np.uint32],
    hashes: npt.NDArray[np.uint32],
    first_number: int,
    previous: npt.NDArray[np.uint32],
    /,
) -> None:
    """Put entries, numbered from ``first_number``, into slots; ``previous`` gets the old ones."""

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
    """Encode a record; ``shape`` is the common part of the template's records."""

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
    """Append the messages from ``begin`` on, up to the first record that may be invalid.

    Return the end of the last message. ``members`` are the enum members of kinds, codecs, levels
    and types.
    """

def split_frames(
    data: bytes, begin: int, limit: int, max_frame_bytes: int, frame_type: type[_Frame], /
) -> tuple[list[_Frame], int, int] | None:
    """Return up to ``limit`` whole frames, their end, and the bytes that the next frame needs.

    ``None`` if a frame is invalid. Consecutive equal headers are the same object.
    """

def pack_sent_answers(
    correlations: list[int], queue_offsets: list[int], opcode: int, store_timestamp: int, /
) -> bytes | None:
    """Pack the frames that answer SEND requests."""

def stamp_sends(
    buffer: bytearray,
    topic: bytes,
    topic_id: int,
    topic_queues: int,
    queue_ids: list[int],
    end_offsets: Mapping[Any, int],
    max_record_bytes: int,
    log_offset: int,
    store_timestamp: int,
    epoch: int,
    /,
) -> (
    tuple[list[int], list[tuple[int, int, int, bytes]], tuple[list[tuple[tuple[int, int, int], int, int]], bytes]]
    | None
):
    """Check and stamp sent records, which get the next offsets of their queues, all or none.

    Return the queue offset of each record, of each queue its id, first and next offset and entries,
    and the fields of ``ProducerRuns``.
    """

def read_entries(
    mapped: Buffer,
    base: int,
    least: int,
    confirmed: int,
    entries: Buffer,
    begin: int,
    limit: int,
    max_bytes: int,
    first: int,
    topic_id: int,
    queue_id: int,
    /,
) -> bytes | None:
    """Read the records of up to ``limit`` entries from number ``begin`` on, at least one.

    ``mapped`` begins at log offset ``base``. Only what ends by ``confirmed`` is read. ``None`` if
    an entry leads out of ``mapped`` or before ``least``, or if a record is damaged or is not of the
    queue.
    """

def extent(buffer: Buffer, max_record_bytes: int, /) -> tuple[int, int, int, int, int] | None:
    """Return the fields of ``Extent``; ``None`` unless records fill the buffer."""
