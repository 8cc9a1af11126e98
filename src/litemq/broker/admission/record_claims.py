"""The claims of sent records: producer, sequence, durability level, due time.

A request of one record is read by itself. The requests of a busy tick are read together, by column.
Types that a send cannot have are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, RecordFormatError, UnsupportedFeatureError
from litemq.format import native
from litemq.format.batches.producer_runs import find_batch_producer_runs
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.batches.uniform_sends import uniform_sends
from litemq.format.columns.record_columns import HeaderWord, RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, Durability, MessageType

__all__ = [
    "ONLY_DEFAULT",
    "Claims",
    "HalfClaims",
    "UniformClaims",
    "check_halves",
    "queue_priorities",
    "read_claims",
    "read_half_claims",
    "read_plain_claims",
    "read_uniform_claims",
]

# The fields of a record that are read before it is appended: delay_time; after expire_at,
# producer_id and sequence; after tag hash and flags, type, priority and reliability.
_CLAIMS: Final = struct.Struct(">Q8xQQ8xBBB")
_CLAIMS_AT: Final = 72
_PLAIN_TYPES: Final = (int(MessageType.NORMAL), int(MessageType.DELAY), int(MessageType.ORDER))
_REPLICAS: Final = int(Durability.REPLICAS)
ONLY_DEFAULT: Final = range(DEFAULT_PRIORITY, DEFAULT_PRIORITY + 1)
_CLASS_PRIORITIES: Final = tuple(
    range(first, first + 256 // PRIORITY_CLASSES) for first in range(0, 256, 256 // PRIORITY_CLASSES)
)


class Claims(NamedTuple):
    """The claims of a request.

    ``due`` is the latest due time (ms) of its records, 0 if none has one.
    """

    producer_id: int
    sequence: int
    records: int
    level: int
    due: int


class UniformClaims(NamedTuple):
    """The claims of plain requests with one record each: their level, and the first sequence of
    each producer and queue.

    If a pair of producer and queue is there twice, its sequences have a gap or repeat.
    """

    level: int
    sequences: list[tuple[tuple[int, int, int], int]]


class HalfClaims(NamedTuple):
    """The start of each half of a request, their highest level, and their latest due time (ms)."""

    starts: npt.NDArray[np.int64]
    level: int
    due: int


def queue_priorities(queue_id: int, *, has_priorities: bool) -> range:
    """Return the priorities that messages of a queue may have."""
    return _CLASS_PRIORITIES[queue_id % PRIORITY_CLASSES] if has_priorities else ONLY_DEFAULT


def read_plain_claims(batch: bytes, priorities: range = ONLY_DEFAULT) -> tuple[int, int, int, int, int] | None:
    """Return the ``Claims`` of a request if they are certainly right, without explaining others."""
    alike = native.loops.sent_alike(batch, STORED_LIMITS.max_record_bytes) if native.enabled else None
    if alike is None:
        return None
    count, producer_id, sequence, attributes, due = alike
    level = attributes >> 8 & 0xFF
    if (attributes >> 24) not in _PLAIN_TYPES or (attributes >> 16 & 0xFF) not in priorities:
        return None
    return (producer_id, sequence, count, level, due) if level <= _REPLICAS and due >= 0 else None


def read_claims(batch: bytes, priorities: range = ONLY_DEFAULT) -> tuple[int, int, int, int, int]:
    """Return the ``Claims`` of one request as a plain tuple.

    Raise if its records do not belong together or to the queue.
    """
    plain = read_plain_claims(batch, priorities)
    if plain is not None:
        return plain
    if len(batch) < FIXED_BYTES or int.from_bytes(batch[:4], "big") != len(batch):
        return _read_batch_claims(batch, priorities)
    due, producer_id, sequence, kind, priority, level = _CLAIMS.unpack_from(batch, _CLAIMS_AT)
    if priority not in priorities or kind not in _PLAIN_TYPES:
        _check_type(kind)
        _check_priority(priority, priorities)
    return producer_id, sequence, 1, level, due


def read_uniform_claims(
    joined: bytearray, sizes: list[int], topic_id: int, queue_ids: Sequence[int], *, has_priorities: bool = False
) -> UniformClaims | None:
    """Return the claims of many requests, whose batches of ``sizes`` bytes are ``joined``; ``None``
    if they are not uniform.
    """
    found = scan(joined, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or found.starts.tolist() != list(accumulate(sizes[:-1], initial=0)):
        return None  # a request has several records, or is invalid
    columns = RecordColumns(joined, found.starts)
    anywhere, everywhere = columns.set_anywhere, columns.set_everywhere
    attributes = anywhere[HeaderWord.ATTRIBUTES]
    if any(anywhere[HeaderWord.DUE : HeaderWord.EXPIRE]) or attributes != everywhere[HeaderWord.ATTRIBUTES]:
        return None
    kind, priority, level = attributes >> 24, attributes >> 16 & 0xFF, attributes >> 8 & 0xFF
    if kind not in _PLAIN_TYPES:
        return None
    if not all(priority in queue_priorities(queue_id, has_priorities=has_priorities) for queue_id in set(queue_ids)):
        return None
    runs, table = find_batch_producer_runs(columns, topic_id, np.array(queue_ids), np.arange(len(sizes)), 0)
    begins = (0, *(end for _, _, end in runs[:-1]))
    return UniformClaims(level, [(pair, table[begin]) for (pair, _, _), begin in zip(runs, begins, strict=False)])


def _check_priority(priority: int, priorities: range) -> None:
    """Raise unless ``priority`` belongs to the queue: consumers find a message by its class."""
    if priority in priorities:
        return
    if priorities is ONLY_DEFAULT:
        raise InvalidArgumentError(
            f"priority={priority}: the topic has no priorities. Send without a priority (the default is "
            f"{DEFAULT_PRIORITY}), or create a topic with priorities"
        )
    raise InvalidArgumentError(
        f"priority={priority} does not fit the queue, which has the priorities {priorities[0]} … {priorities[-1]}: "
        "send to queue × 8 + priority // 32"
    )


def read_half_claims(batch: bytes | memoryview, priorities: range) -> HalfClaims:
    """Return the claims of the halves of one request.

    Raise if they do not belong to the queue, or have another type.
    """
    found = scan(batch, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or not found.starts.size:
        raise RecordFormatError(
            "truncated" if found.stop is ScanStop.INCOMPLETE else "size",
            found.end,
            "a request must contain complete records",
        )
    header = RecordColumns(batch, found.starts).header
    types = set(header["type"].tolist()) - {int(MessageType.TRANSACTION)}
    _check_type(_rarest_type(types))
    for priority in (int(header["priority"].min()), int(header["priority"].max())):
        _check_priority(priority, priorities)
    return HalfClaims(found.starts, int(header["reliability"].max()), int(header["delay_time"].max()))


def check_halves(
    columns: RecordColumns, queue_ids: npt.NDArray[np.int64], priorities_of_queue: Callable[[int], range]
) -> None:
    """Raise if halves of producers do not belong to their queues, or have invalid fields."""
    header = columns.header
    if (header["type"] != MessageType.TRANSACTION).any() or header["producer_id"].any():
        raise InvalidArgumentError(
            "a half must have the type TRANSACTION and no producer id: its transaction and its number identify it"
        )
    if (header["reliability"] == Durability.NONE).any():
        raise InvalidArgumentError("durability 'none' is not allowed in a transaction: choose 'memory' or 'disk'")
    for queue_id in set(queue_ids.tolist()):
        priorities = header["priority"][queue_ids == queue_id]
        for priority in (int(priorities.min()), int(priorities.max())):
            _check_priority(priority, priorities_of_queue(queue_id))


def _check_type(kind: int) -> None:
    """Raise if plain sends cannot have the type ``kind``."""
    if kind not in _PLAIN_TYPES:
        raise UnsupportedFeatureError(
            "a plain send cannot have the type TRANSACTION or BROADCAST: begin a transaction with `mq.transaction(…)`, "
            "or send a normal message"
        )


def _read_batch_claims(batch: bytes, priorities: range) -> Claims:
    """Return the claims of a request with several records. Raise if they do not belong together."""
    uniform = uniform_sends(batch)
    if uniform is not None:
        _check_type(uniform.type)
        _check_priority(uniform.priority, priorities)
        return Claims(uniform.producer_id, uniform.sequence, uniform.records, uniform.level, uniform.latest_due)
    found = scan(batch, limits=STORED_LIMITS)
    count = found.starts.size
    if found.stop is not ScanStop.END or not count:
        raise RecordFormatError(
            "truncated" if found.stop is ScanStop.INCOMPLETE else "size",
            found.end,
            "a request must contain complete records",
        )
    header = RecordColumns(batch, found.starts).header
    sequences = header["sequence"].astype(np.uint64)
    producer_id, first = int(header["producer_id"][0]), int(sequences[0])
    if (header["producer_id"] != header["producer_id"][0]).any():
        raise InvalidArgumentError("the records of a request must all be from one producer")
    if producer_id and (sequences - sequences[0] != np.arange(count, dtype=np.uint64)).any():
        raise InvalidArgumentError("the sequences of a request must be consecutive")
    _check_type(_rarest_type(set(header["type"].tolist())))
    for priority in (int(header["priority"].min()), int(header["priority"].max())):
        _check_priority(priority, priorities)
    return Claims(producer_id, first, count, int(header["reliability"].max()), int(header["delay_time"].max()))


def _rarest_type(types: set[int]) -> int:
    return next((kind for kind in types if kind not in _PLAIN_TYPES), MessageType.NORMAL)
