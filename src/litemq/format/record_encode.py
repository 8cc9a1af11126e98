"""Encoder of one record, version 2: as a producer sends it, and stamped as a log stores it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.format.crc import crc32c
from litemq.format.limits import (
    DEFAULT_LIMITS,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_MESSAGE_ID_BYTES,
    MAX_PROPERTIES_BYTES,
    MAX_TAG_BYTES,
    MAX_TAGS,
    MAX_TOPIC_BYTES,
    RecordLimits,
)
from litemq.format.record import (
    ENCRYPTED_FLAG,
    FIXED_BYTES,
    MAGIC,
    PADDING,
    PRODUCER_BYTES_AT,
    PRODUCER_CRC_AT,
    SEVERAL_TAGS,
    STAMP_AT,
    STAMPED_BYTES_AT,
)
from litemq.types import DEFAULT_PRIORITY, LATEST_TIME_MS, BodyCodec, Durability, MessageType, Record, RecordKind, Stamp

__all__ = ["RecordTemplate", "complete_record", "encode_record", "hash_tags", "stamp_record"]

# The fixed part in the pieces that are written together: bytes 0 … 64 as a producer leaves them,
# 16 … 64 as the broker stamps them, and 64 … 144, where ready-made bytes hold the fields that a
# template's messages share.
_UNSTAMPED_HEAD: Final = struct.Struct(">III52x")
_STAMP: Final = struct.Struct(">qqqqIIIBBH")
_SENT: Final = struct.Struct(">qqqQQ12sH14sIII")
_ATTRIBUTES: Final = struct.Struct(">IIBBBB")  # tag_hash, flags, type, priority, reliability, 0
_MIDDLE_LENGTHS: Final = struct.Struct(">HHHHHI")  # topic … born_host, 0, tags
_U32: Final = struct.Struct(">I")
_U16: Final = struct.Struct(">H")
_U64: Final = struct.Struct(">Q")
_BORN_TIMESTAMP_AT: Final = 64
_SEQUENCE_AT: Final = 96
_BODY_LENGTH_AT: Final = 140
_U64_MAX: Final = 0xFFFFFFFFFFFFFFFF
_LATEST: Final = LATEST_TIME_MS
_PREFIX: Final = tuple(_U16.pack(n) for n in range(256))  # in front of a tag or a key


def hash_tags(tags: Iterable[bytes]) -> int:
    """Hash ``tags``: 0 for none, 0xFFFFFFFF for several, else crc32c (1 if it is either)."""
    encoded = list(tags)
    if not encoded:
        return 0
    if len(encoded) > 1:
        return SEVERAL_TAGS
    crc = crc32c(encoded[0])
    return 1 if crc in (0, SEVERAL_TAGS) else crc


def _utf8(value: str, what: str, max_bytes: int) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} must be a string, got {type(value).__name__}: {value!r}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} is not encodable as UTF-8: {error.reason}") from None
    if len(encoded) > max_bytes:
        raise InvalidArgumentError(f"{what} of {len(encoded)} bytes: use at most {max_bytes}")
    return encoded


def _in_range(value: int, what: str, minimum: int, maximum: int) -> int:
    if not isinstance(value, int) or not minimum <= value <= maximum:
        raise InvalidArgumentError(f"{what}={value!r}: choose an integer, {minimum} … {maximum}")
    return value


def _check_times(**times: int) -> None:
    for what, value in times.items():
        _in_range(value, what, 0, _LATEST)


def _body_bytes(body: bytes | bytearray) -> bytes:
    if not isinstance(body, (bytes, bytearray)):
        raise InvalidArgumentError(f"body must be bytes, got {type(body).__name__}")
    return bytes(body)


def _encode_id(message_id: str) -> bytes:
    if not isinstance(message_id, str):
        raise InvalidArgumentError(f"message_id must be a string, got {type(message_id).__name__}: {message_id!r}")
    return _utf8(message_id, "message_id", MAX_MESSAGE_ID_BYTES)


def _encode_list(values: Iterable[str], what: str, max_count: int, max_bytes: int) -> tuple[bytes, list[bytes]]:
    if isinstance(values, str):
        raise InvalidArgumentError(f"{what}s={values[:64]!r} is one string: pass a sequence of strings")
    encoded = [_utf8(value, what, max_bytes) for value in values]
    if len(encoded) > max_count:
        raise InvalidArgumentError(f"{len(encoded)} {what}s: use at most {max_count}")
    return b"".join([_PREFIX[len(value)] + value for value in encoded]), encoded


def _encode_keys(keys: Sequence[str]) -> bytes:
    if len(keys) == 1 and not isinstance(keys, str):  # most messages have one key
        key = keys[0]
        if type(key) is str and len(key) <= MAX_KEY_BYTES and key.isascii():
            return _PREFIX[len(key)] + key.encode()
    return _encode_list(keys, "key", MAX_KEYS, MAX_KEY_BYTES)[0]


def _encode_properties(properties: Mapping[str, str]) -> bytes:
    parts = []
    for name, value in properties.items():
        for text in (name, value):
            encoded = _utf8(text, f"property {name[:64]!r}", MAX_PROPERTIES_BYTES)
            parts.append(_U16.pack(len(encoded)) + encoded)
    whole = b"".join(parts)
    if len(whole) > MAX_PROPERTIES_BYTES:
        raise InvalidArgumentError(f"properties of {len(whole)} bytes: use at most {MAX_PROPERTIES_BYTES}")
    return whole


class RecordTemplate:
    """An encoder of one producer's messages to one topic; it encodes their common fields once."""

    __slots__ = (
        "_attributes",
        "_born_host",
        "_lengths",
        "_max_record_bytes",
        "_middle",
        "_producer_id",
        "_properties",
        "_shape",
        "_shared",
        "_tags",
        "_topic",
    )

    def __init__(
        self,
        topic: str,
        *,
        tags: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        priority: int = DEFAULT_PRIORITY,
        reliability: Durability = Durability.DISK,
        producer_id: int = 0,
        born_host: str = "",
        limits: RecordLimits = DEFAULT_LIMITS,
    ) -> None:
        self._topic = _utf8(topic, "topic", MAX_TOPIC_BYTES)
        if not self._topic:
            raise InvalidArgumentError("a record needs a topic")
        self._tags, encoded_tags = _encode_list(tags, "tag", MAX_TAGS, MAX_TAG_BYTES)
        self._properties = _encode_properties(properties or {})
        self._born_host = _utf8(born_host, "born_host", 0xFFFF)
        self._producer_id = _in_range(producer_id, "producer_id", 0, _U64_MAX)
        self._shared = (
            hash_tags(encoded_tags),
            _in_range(priority, "priority", 0, 255),
            _in_range(reliability, "reliability", 0, max(Durability)),
        )
        self._max_record_bytes = limits.max_record_bytes
        # Encoded parts of a message without a type, codec, transaction or sharding key.
        self._attributes = self._pack_attributes(MessageType.NORMAL, BodyCodec.NONE, encrypted=False)
        self._lengths, self._middle = self._pack_middle("", "")
        self._shape = self._pack_shape()

    def with_properties(self, properties: Mapping[str, str]) -> RecordTemplate:
        """Return a copy with further ``properties``, whose names must be new."""
        other = RecordTemplate.__new__(RecordTemplate)
        for name in RecordTemplate.__slots__:  # copy.copy takes nearly three times as long
            setattr(other, name, getattr(self, name))
        whole = self._properties + _encode_properties(properties)
        if len(whole) > MAX_PROPERTIES_BYTES:
            raise InvalidArgumentError(f"properties of {len(whole)} bytes: use at most {MAX_PROPERTIES_BYTES}")
        other._properties = whole  # noqa: SLF001  same class
        other._shape = other._pack_shape()  # noqa: SLF001
        return other

    def _pack_shape(self) -> bytes:
        """Return a record without id, keys and body, which the C encoder completes."""
        length = len(self._properties)
        fixed = _SENT.pack(0, 0, 0, self._producer_id, 0, self._attributes, 0, self._lengths, 0, length, 0)
        return b"".join((_UNSTAMPED_HEAD.pack(0, MAGIC, 0), fixed, self._middle, self._properties))

    def _pack_attributes(self, message_type: MessageType, codec: BodyCodec, *, encrypted: bool) -> bytes:
        tag_hash, priority, reliability = self._shared
        try:
            message_type, codec = MessageType(message_type), BodyCodec(codec)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
        flags = codec | ENCRYPTED_FLAG if encrypted else codec
        return _ATTRIBUTES.pack(tag_hash, flags, message_type, priority, reliability, 0)

    def _pack_middle(self, transaction_id: str, sharding_key: str) -> tuple[bytes, bytes]:
        """Return the lengths of topic … tags, and these parts."""
        transaction = _utf8(transaction_id, "transaction_id", 0xFFFF)
        sharding = _utf8(sharding_key, "sharding_key", 0xFFFF)
        parts = (self._topic, transaction, sharding, self._born_host, self._tags)
        lengths = _MIDDLE_LENGTHS.pack(*map(len, parts[:4]), 0, len(self._tags))
        return lengths, b"".join(parts)

    def head(self, id_bytes: int) -> bytes:
        """Return a plain record up to its body, for ``complete_record``.

        Its id has ``id_bytes`` bytes, and it has no keys.
        """
        return self.encode(b"", message_id="0" * id_bytes)[: len(self._shape) + id_bytes]

    def encode(
        self,
        body: bytes,
        *,
        message_id: str = "",
        keys: Sequence[str] = (),
        born_timestamp: int = 0,
        sequence: int = 0,
        delay_time: int = 0,
        expire_at: int = 0,
        transaction_id: str = "",
        sharding_key: str = "",
        message_type: MessageType = MessageType.NORMAL,
        codec: BodyCodec = BodyCodec.NONE,
        encrypted: bool = False,
    ) -> bytes:
        """Encode a record as a producer sends it, with the broker's fields zero."""
        if native.enabled:
            encoded = native.loops.encode(
                self._shape,
                self._max_record_bytes,
                body,
                message_id,
                keys,
                born_timestamp,
                sequence,
                delay_time,
                expire_at,
                transaction_id,
                sharding_key,
                message_type,
                codec,
                encrypted,
            )
            if encoded is not None:
                return encoded
        if type(body) is not bytes:
            body = _body_bytes(body)
        if type(message_id) is str and len(message_id) <= MAX_MESSAGE_ID_BYTES and message_id.isascii():
            encoded_id = message_id.encode()
        else:
            encoded_id = _encode_id(message_id)
        encoded_keys = _encode_keys(keys) if keys else b""
        lengths, middle = self._lengths, self._middle
        attributes, properties = self._attributes, self._properties
        if transaction_id or sharding_key:
            lengths, middle = self._pack_middle(transaction_id, sharding_key)
        if message_type or codec or encrypted:
            attributes = self._pack_attributes(message_type, codec, encrypted=encrypted)
        length = FIXED_BYTES + len(encoded_id) + len(middle) + len(encoded_keys) + len(properties) + len(body)
        size = (length + 7) & ~7
        if size > self._max_record_bytes:
            raise InvalidArgumentError(
                f"the message has {size} bytes with all its fields, and the limit is {self._max_record_bytes} bytes: "
                "send a smaller one, or raise max_record_bytes (send.max_record_size in a client's TOML file) and "
                "storage.max_record_size of the brokers"
            )
        if not (0 <= born_timestamp <= _LATEST and 0 <= delay_time <= _LATEST and 0 <= expire_at <= _LATEST):
            _check_times(born_timestamp=born_timestamp, delay_time=delay_time, expire_at=expire_at)
        if not 0 <= sequence <= _U64_MAX:
            _in_range(sequence, "sequence", 0, _U64_MAX)
        try:
            fixed = _SENT.pack(
                born_timestamp,
                delay_time,
                expire_at,
                self._producer_id,
                sequence,
                attributes,
                len(encoded_id),
                lengths,
                len(encoded_keys),
                len(properties),
                len(body),
            )
        except struct.error:
            raise InvalidArgumentError("born_timestamp, delay_time, expire_at and sequence must be integers") from None
        tail = b"".join((fixed, encoded_id, middle, encoded_keys, properties, body, PADDING[size - length]))
        return _UNSTAMPED_HEAD.pack(size, MAGIC, crc32c(tail)) + tail


def complete_record(head: bytes, body: bytes, message_id: str, born_timestamp: int, sequence: int) -> bytes:
    """Encode the record that begins as ``head``. The values are valid, and the id has its size."""
    length = len(head) + len(body)
    size = (length + 7) & ~7
    record = bytearray(b"".join((head, body, PADDING[size - length])))
    record[FIXED_BYTES : FIXED_BYTES + len(message_id)] = message_id.encode()
    _U32.pack_into(record, 0, size)
    _U64.pack_into(record, _BORN_TIMESTAMP_AT, born_timestamp)
    _U64.pack_into(record, _SEQUENCE_AT, sequence)
    _U32.pack_into(record, _BODY_LENGTH_AT, len(body))
    _U32.pack_into(record, PRODUCER_CRC_AT, crc32c(memoryview(record)[PRODUCER_BYTES_AT:]))
    return bytes(record)


def encode_record(record: Record, stamp: Stamp | None = None, *, limits: RecordLimits = DEFAULT_LIMITS) -> bytes:
    """Encode one record as a producer sends it, or with ``stamp`` as a log stores it."""
    template = RecordTemplate(
        record.topic,
        tags=record.tags,
        properties=record.properties,
        priority=record.priority,
        reliability=record.reliability,
        producer_id=record.producer_id,
        born_host=record.born_host,
        limits=limits,
    )
    sent = template.encode(
        record.body,
        message_id=record.message_id,
        keys=record.keys,
        born_timestamp=record.born_timestamp,
        sequence=record.sequence,
        delay_time=record.delay_time,
        expire_at=record.expire_at,
        transaction_id=record.transaction_id,
        sharding_key=record.sharding_key,
        message_type=record.type,
        codec=record.codec,
        encrypted=record.encrypted,
    )
    if stamp is None:
        return sent
    stored = bytearray(sent)
    stamp_record(stored, 0, stamp)
    return bytes(stored)


def stamp_record(buffer: bytearray | memoryview, position: int, stamp: Stamp) -> None:
    """Write ``stamp`` into the record at ``position``, in place."""
    _in_range(stamp.commitlog_offset, "commitlog_offset", 0, 0x7FFFFFFFFFFFFFFF)
    _in_range(stamp.queue_offset, "queue_offset", 0, 0x7FFFFFFFFFFFFFFF)
    _in_range(stamp.store_timestamp, "store_timestamp", 0, _LATEST)
    _in_range(stamp.origin, "origin", -1, 0x7FFFFFFFFFFFFFFF)
    for what, value in (("topic_id", stamp.topic_id), ("queue_id", stamp.queue_id), ("epoch", stamp.epoch)):
        _in_range(value, what, 0, 0xFFFFFFFF)
    _in_range(stamp.consume_count, "consume_count", 0, 0xFFFF)
    if not 0 <= position <= len(buffer) - FIXED_BYTES:
        raise InvalidArgumentError(f"no record begins at byte {position} of {len(buffer)}")
    fields = _STAMP.pack(*stamp[:7], RecordKind(stamp.kind), 0, stamp.consume_count)
    _U32.pack_into(buffer, position + STAMP_AT, crc32c(fields))
    buffer[position + STAMPED_BYTES_AT : position + PRODUCER_BYTES_AT] = fields
