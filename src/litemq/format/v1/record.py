"""Codec of one record, version 1, the original layout: read from old logs, written for export.

All integers are big-endian, strings UTF-8. There is no checksum: truncation and impossible values
are detected, a flipped bit in a body is not::

    bytes  field
        4  length of the rest of the record
        4  magic 0x4C4D5101: "LMQ", 1
      2+n  message_id
      2+n  topic
        4  number of tags, then each 2+n
        4  number of keys, then each 2+n
        4  number of properties, then each name 2+n, value 2+n
      4+n  body
        1  type: 0 normal, 1 delay, 2 transaction, 3 broadcast, 4 order
        1  priority
        1  reliability
        8  delay_time (ms)
      2+n  transaction_id
        1  status: 0 normal, 1 prepared, 2 committed, 3 rollback
      2+n  sharding_key
        1  broadcast: 0 or 1
        8  born_timestamp (ms)
      2+n  born_host
      2+n  store_host
        4  queue_id
        8  queue_offset
        8  commitlog_offset
        4  store_size: the whole record, the leading length included
        8  store_timestamp (ms)
        8  consume_start_time (ms)
        8  consume_end_time (ms)
        4  consume_count

Fields that this layout lacks (expire_at, producer_id, sequence, topic_id, epoch, origin, the body's
codec) are dropped when it is written and have neutral values when it is read. The record's kind
follows from the status and the type.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.limits import DEFAULT_LIMITS, RecordLimits
from litemq.format.record import Buffer, Problem
from litemq.types import (
    LATEST_TIME_MS,
    BodyCodec,
    ConsumerInfo,
    Durability,
    MessageStatus,
    MessageType,
    Record,
    RecordKind,
    Stamp,
    StoredRecord,
)

__all__ = ["MAGIC_V1", "MIN_BYTES_V1", "decode_record_v1", "encode_record_v1"]

MAGIC_V1: Final = 0x4C4D5101

_LENGTH_AND_MAGIC: Final = struct.Struct(">II")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(
    ">"
    "B"  # type
    "B"  # priority
    "B"  # reliability
    "Q"  # delay_time
)
_STORED: Final = struct.Struct(
    ">"
    "I"  # queue_id
    "q"  # queue_offset
    "q"  # commitlog_offset
    "I"  # store_size
    "Q"  # store_timestamp
    "Q"  # consume_start_time
    "Q"  # consume_end_time
    "I"  # consume_count
)

# The size of a record whose strings, lists and body are empty, with the leading length.
MIN_BYTES_V1: Final = 8 + 2 + 2 + 4 + 4 + 4 + 4 + _ATTRIBUTES.size + 2 + 1 + 2 + 1 + 8 + 2 + 2 + _STORED.size

_KIND_OF_STATUS: Final = {
    MessageStatus.NORMAL: RecordKind.MESSAGE,
    MessageStatus.PREPARED: RecordKind.HALF,
    MessageStatus.COMMITTED: RecordKind.COMMITTED,
    MessageStatus.ROLLBACK: RecordKind.HALF,
}


def encode_record_v1(
    record: Record, stamp: Stamp, facts: ConsumerInfo | None = None, *, limits: RecordLimits = DEFAULT_LIMITS
) -> bytes:
    """Encode a record in version 1; raise if its body is compressed or encrypted.

    ``facts.store_size`` is ignored: the size is computed.
    """
    if facts is None:
        facts = ConsumerInfo(broadcast=record.type is MessageType.BROADCAST)
    if record.codec != BodyCodec.NONE or record.encrypted:
        raise InvalidArgumentError("version 1 cannot store a codec: decompress and decrypt the body first")
    if any(isinstance(strings, str) for strings in (record.tags, record.keys)):
        raise InvalidArgumentError("tags and keys must be sequences of strings, not one string")
    if stamp.queue_offset < 0 or stamp.commitlog_offset < 0:
        raise InvalidArgumentError("offsets must not be negative")
    times = (
        record.delay_time,
        record.born_timestamp,
        stamp.store_timestamp,
        facts.consume_start_time,
        facts.consume_end_time,
    )
    if min(times) < 0 or max(times) > LATEST_TIME_MS:
        raise InvalidArgumentError(f"times must be 0 … {LATEST_TIME_MS}")
    try:
        data = b"".join(
            (
                _U32.pack(MAGIC_V1),
                _string(record.message_id),
                _string(record.topic),
                _strings(record.tags),
                _strings(record.keys),
                _U32.pack(len(record.properties)),
                *(_string(text) for pair in record.properties.items() for text in pair),
                _U32.pack(len(record.body)),
                record.body,
                _ATTRIBUTES.pack(
                    MessageType(record.type), record.priority, Durability(record.reliability), record.delay_time
                ),
                _string(record.transaction_id),
                bytes([MessageStatus(facts.status)]),
                _string(record.sharding_key),
                bytes([bool(facts.broadcast)]),
                struct.pack(">Q", record.born_timestamp),
                _string(record.born_host),
                _string(facts.store_host),
            )
        )
        size = 4 + len(data) + _STORED.size
        if size > limits.max_record_bytes:
            raise InvalidArgumentError(f"record of {size} bytes (version 1): use at most {limits.max_record_bytes}")
        stored = _STORED.pack(
            stamp.queue_id,
            stamp.queue_offset,
            stamp.commitlog_offset,
            size,
            stamp.store_timestamp,
            facts.consume_start_time,
            facts.consume_end_time,
            stamp.consume_count,
        )
        return _U32.pack(size - 4) + data + stored
    except (struct.error, UnicodeEncodeError, OverflowError, ValueError) as error:
        raise InvalidArgumentError(f"a field does not fit version 1: {error}") from None


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _U16.pack(len(encoded)) + encoded


def _strings(values: tuple[str, ...]) -> bytes:
    return _U32.pack(len(values)) + b"".join(_string(value) for value in values)


class _Cursor:
    """A cursor that reads the parts of a record in order, never beyond its end."""

    __slots__ = ("at", "position", "raw")

    def __init__(self, raw: bytes, at: int, position: int) -> None:
        self.raw = raw
        self.at = at
        self.position = position

    def refuse(self, problem: Problem, detail: str = "") -> NoReturn:
        raise RecordFormatError(problem.value, self.position, detail)

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.raw):
            self.refuse(Problem.LENGTHS, "a part exceeds the record")
        part = self.raw[self.at : end]
        self.at = end
        return part

    def count(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def string(self) -> str:
        try:
            return self.take(int.from_bytes(self.take(2), "big")).decode()
        except UnicodeDecodeError:
            self.refuse(Problem.UTF8)

    def strings(self) -> tuple[str, ...]:
        # Reject counts that cannot fit: each string needs at least two bytes.
        count = self.count()
        if count * 2 > len(self.raw) - self.at:
            self.refuse(Problem.LENGTHS, f"{count} strings do not fit")
        return tuple([self.string() for _ in range(count)])

    def properties(self) -> dict[str, str]:
        count = self.count()
        if count * 4 > len(self.raw) - self.at:
            self.refuse(Problem.LENGTHS, f"{count} properties do not fit")
        properties = {self.string(): self.string() for _ in range(count)}
        if len(properties) != count:
            self.refuse(Problem.REPEATED_PROPERTY)
        return properties


def decode_record_v1(buffer: Buffer, position: int = 0, *, limits: RecordLimits = DEFAULT_LIMITS) -> StoredRecord:
    """Decode the version 1 record at ``position``. Raise ``RecordFormatError`` if it is invalid."""
    left = len(buffer) - position
    if position < 0 or left < MIN_BYTES_V1:
        detail = f"{max(0, left)} bytes are left, but a record has at least {MIN_BYTES_V1}"
        raise RecordFormatError(Problem.TRUNCATED.value, position, detail)
    length, magic = _LENGTH_AND_MAGIC.unpack_from(buffer, position)
    size = length + 4
    if magic != MAGIC_V1:
        raise RecordFormatError(Problem.MAGIC.value, position, f"0x{magic:08X}")
    if size < MIN_BYTES_V1 or size > limits.max_record_bytes:
        raise RecordFormatError(Problem.SIZE.value, position, f"{size} bytes")
    if size > left:
        raise RecordFormatError(Problem.TRUNCATED.value, position, f"{size} bytes, of which the buffer has {left}")
    cursor = _Cursor(bytes(buffer[position : position + size]), 8, position)

    message_id = cursor.string()
    topic = cursor.string()
    tags = cursor.strings()
    keys = cursor.strings()
    properties = cursor.properties()
    body = cursor.take(cursor.count())
    message_type, priority, reliability, delay_time = _ATTRIBUTES.unpack(cursor.take(_ATTRIBUTES.size))
    transaction_id = cursor.string()
    (status,) = cursor.take(1)
    sharding_key = cursor.string()
    (broadcast,) = cursor.take(1)
    born_timestamp = int.from_bytes(cursor.take(8), "big")
    born_host = cursor.string()
    store_host = cursor.string()
    stored = _STORED.unpack(cursor.take(_STORED.size))
    queue_id, queue_offset, commitlog_offset, store_size, store_timestamp, consume_start, consume_end, count = stored
    if cursor.at != size:
        cursor.refuse(Problem.LENGTHS, f"the parts need {cursor.at} bytes, the record has {size}")
    if message_type > 4 or reliability > 3 or status > 3 or broadcast > 1 or queue_offset < 0 or commitlog_offset < 0:
        cursor.refuse(Problem.FIELD, "a field is out of range")
    if max(delay_time, born_timestamp, store_timestamp, consume_start, consume_end) > LATEST_TIME_MS:
        cursor.refuse(Problem.FIELD, "a time is out of range")

    known_status = MessageStatus(status)
    known_type = MessageType(message_type)
    kind = _KIND_OF_STATUS[known_status]
    if kind is RecordKind.MESSAGE and known_type is MessageType.DELAY:
        kind = RecordKind.PENDING
    record = Record(
        topic=topic,
        body=body,
        message_id=message_id,
        tags=tags,
        keys=keys,
        properties=properties,
        type=known_type,
        priority=priority,
        reliability=Durability(reliability),
        born_timestamp=born_timestamp,
        delay_time=delay_time,
        transaction_id=transaction_id,
        sharding_key=sharding_key,
        born_host=born_host,
    )
    stamp = Stamp(
        commitlog_offset=commitlog_offset,
        queue_offset=queue_offset,
        store_timestamp=store_timestamp,
        queue_id=queue_id,
        kind=kind,
        consume_count=count,
    )
    facts = ConsumerInfo(known_status, bool(broadcast), store_host, store_size, consume_start, consume_end)
    return StoredRecord(record, stamp, size, 1, facts)
