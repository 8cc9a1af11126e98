"""The claims of sent records: producer, sequence, durability level, due time.

Unsupported features are refused.

A request of one record is read by itself. The requests of a busy tick are read together, by column.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, RecordFormatError, UnsupportedFeatureError
from litemq.format.batches.producer_runs import stretches_of_batch
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.batches.uniform_sends import sent_alike
from litemq.format.columns.record_columns import RecordColumns, Word
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, Durability, MessageType

__all__ = [
    "ONLY_DEFAULT",
    "Claims",
    "HalfClaims",
    "UniformClaims",
    "check_halves",
    "claims_of",
    "claims_of_halves",
    "priorities_of",
    "uniform_claims",
]

# The fields of a record that are read before it is appended: delay_time; after expire_at,
# producer_id and sequence; after tag hash and flags, type, priority and reliability.
_CLAIMS: Final = struct.Struct(">Q8xQQ8xBBB")
_CLAIMS_AT: Final = 72
_PLAIN_TYPES: Final = (int(MessageType.NORMAL), int(MessageType.DELAY), int(MessageType.ORDER))
_REPLICAS: Final = int(Durability.REPLICAS)
ONLY_DEFAULT: Final = range(DEFAULT_PRIORITY, DEFAULT_PRIORITY + 1)
_OF_CLASSES: Final = tuple(range(first, first + 256 // PRIORITY_CLASSES) for first in range(0, 256, 256 // PRIORITY_CLASSES))


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
    """The start of each half of a request, and their latest due time (ms)."""

    starts: npt.NDArray[np.int64]
    due: int


def priorities_of(queue_id: int, *, has_priorities: bool) -> range:
    """Return the priorities that messages of a queue may have."""
    return _OF_CLASSES[queue_id % PRIORITY_CLASSES] if has_priorities else ONLY_DEFAULT


def claims_of(batch: bytes, priorities: range = ONLY_DEFAULT) -> tuple[int, int, int, int, int]:
    """Return the ``Claims`` of one request as a plain tuple.

    Raise if its records do not fit together or to the queue.
    """
    if len(batch) < FIXED_BYTES or int.from_bytes(batch[:4], "big") != len(batch):
        return _claims_of_many(batch, priorities)
    due, producer_id, sequence, kind, priority, level = _CLAIMS.unpack_from(batch, _CLAIMS_AT)
    if priority not in priorities or kind not in _PLAIN_TYPES or level == _REPLICAS:
        _check_features(kind, level)
        _check_priority(priority, priorities)
    return producer_id, sequence, 1, level, due


def uniform_claims(
    joined: bytearray, sizes: list[int], topic_id: int, queue_ids: Sequence[int], *, has_priorities: bool = False
) -> UniformClaims | None:
    """Return the claims of many requests, whose batches of ``sizes`` bytes are ``joined``; ``None``
    if they are not uniform.
    """
    found = scan(joined, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or found.starts.tolist() != list(accumulate(sizes[:-1], initial=0)):
        return None  # some have several records, or are none
    columns = RecordColumns(joined, found.starts)
    anywhere, everywhere = columns.set_anywhere, columns.set_everywhere
    meaning = anywhere[Word.MEANING]
    if any(anywhere[Word.DUE : Word.EXPIRE]) or meaning != everywhere[Word.MEANING]:
        return None
    kind, priority, level = meaning >> 24, meaning >> 16 & 0xFF, meaning >> 8 & 0xFF
    if kind not in _PLAIN_TYPES or level == _REPLICAS:
        return None
    if not all(priority in priorities_of(queue_id, has_priorities=has_priorities) for queue_id in set(queue_ids)):
        return None
    stretches, table = stretches_of_batch(columns, topic_id, np.array(queue_ids), np.arange(len(sizes)), 0)
    begins = (0, *(end for _, _, end in stretches[:-1]))
    return UniformClaims(level, [(pair, table[begin]) for (pair, _, _), begin in zip(stretches, begins, strict=False)])


def _check_priority(priority: int, priorities: range) -> None:
    """Raise unless ``priority`` belongs to the queue: consumers find a message by its class."""
    if priority in priorities:
        return
    if priorities is ONLY_DEFAULT:
        raise InvalidArgumentError(
            f"priority={priority}: the topic has no priorities, so send with {DEFAULT_PRIORITY}, which is the default"
        )
    raise InvalidArgumentError(
        f"priority={priority} in a queue of the priorities {priorities[0]} … {priorities[-1]}: it belongs to queue × 8 + priority // 32"
    )


def claims_of_halves(batch: bytes | memoryview, priorities: range) -> HalfClaims:
    """Return the claims of the halves of one request.

    Raise if they do not fit to the queue, or need an unsupported feature.
    """
    found = scan(batch, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or not found.starts.size:
        raise RecordFormatError("truncated" if found.stop is ScanStop.INCOMPLETE else "size", found.end, "a request holds whole records")
    header = RecordColumns(batch, found.starts).header
    types = set(header["type"].tolist()) - {int(MessageType.TRANSACTION)}
    _check_features(_rarest_type(types), int(header["reliability"].max()))
    for priority in (int(header["priority"].min()), int(header["priority"].max())):
        _check_priority(priority, priorities)
    return HalfClaims(found.starts, int(header["delay_time"].max()))


def check_halves(columns: RecordColumns, queue_ids: npt.NDArray[np.int64], priorities_of_queue: Callable[[int], range]) -> None:
    """Raise if halves of producers do not fit to their queues, or have invalid fields."""
    header = columns.header
    if (header["type"] != MessageType.TRANSACTION).any() or header["producer_id"].any():
        raise InvalidArgumentError(
            "a half has the type of transactions, and no producer id: its transaction and its number there tell it apart"
        )
    levels = header["reliability"]
    if (levels == Durability.NONE).any():
        raise InvalidArgumentError("durability 'none' in a transaction: nobody would know whether it is whole. Choose 'memory' or 'disk'")
    _check_features(MessageType.NORMAL, int(levels.max()))
    for queue_id in set(queue_ids.tolist()):
        priorities = header["priority"][queue_ids == queue_id]
        for priority in (int(priorities.min()), int(priorities.max())):
            _check_priority(priority, priorities_of_queue(queue_id))


def _check_features(kind: int, level: int) -> None:
    """Raise if a record needs a feature that this version does not support."""
    if level == Durability.REPLICAS:
        raise UnsupportedFeatureError("durability 'replicas' needs replicas, and this broker has none: choose 'disk'")
    if kind not in _PLAIN_TYPES:
        raise UnsupportedFeatureError(
            "a plain send of the type of transactions or broadcasts: begin a transaction with mq.transaction(…), and send all else as normal messages"
        )


def _claims_of_many(batch: bytes, priorities: range) -> Claims:
    """Return the claims of a request with several records. Raise if they do not fit together."""
    alike = sent_alike(batch)
    if alike is not None:
        _check_features(alike.type, alike.level)
        _check_priority(alike.priority, priorities)
        return Claims(alike.producer_id, alike.sequence, alike.records, alike.level, alike.latest_due)
    found = scan(batch, limits=STORED_LIMITS)
    count = found.starts.size
    if found.stop is not ScanStop.END or not count:
        raise RecordFormatError("truncated" if found.stop is ScanStop.INCOMPLETE else "size", found.end, "a request holds whole records")
    header = RecordColumns(batch, found.starts).header
    sequences = header["sequence"].astype(np.uint64)
    producer_id, first = int(header["producer_id"][0]), int(sequences[0])
    if (header["producer_id"] != header["producer_id"][0]).any():
        raise InvalidArgumentError("the records of one request are of one producer")
    if producer_id and (sequences - sequences[0] != np.arange(count, dtype=np.uint64)).any():
        raise InvalidArgumentError("the sequences of one request follow each other")
    _check_features(_rarest_type(set(header["type"].tolist())), int(header["reliability"].max()))
    for priority in (int(header["priority"].min()), int(header["priority"].max())):
        _check_priority(priority, priorities)
    return Claims(producer_id, first, count, int(header["reliability"].max()), int(header["delay_time"].max()))


def _rarest_type(types: set[int]) -> int:
    return next((kind for kind in types if kind not in _PLAIN_TYPES), MessageType.NORMAL)
