"""One record, version 2: encode, decode, check.

All integers big-endian, strings UTF-8. Everything of fixed size stands first, so that thousands of records can be read by column
(``columns/record_columns.py``)::

     at  bytes  field                                                                    written by
      0      4  size of the whole record, padding included: a multiple of 8              producer
      4      4  magic 0x4C4D5102: "LMQ", 2                                               producer
      8      4  crc32c over bytes 64 … size                                              producer
     12      4  crc32c over bytes 16 … 64                                                broker
     16      8  commitlog_offset: where this record stands                               broker
     24      8  queue_offset                                                             broker
     32      8  store_timestamp (ms, never falls)                                        broker
     40      8  origin: log offset of the record's direct predecessor, or a job's
                number (8n + 4), -1 = none                                               broker
     48      4  topic_id: the topic it is placed in                                      broker
     52      4  queue_id                                                                 broker
     56      4  epoch of the writer                                                      broker
     60      1  kind: 0 message, 1 pending, 2 fired, 3 half, 4 committed, 5 retry,
                6 dead, 7 control                                                        broker
     61      1  0
     62      2  consume_count                                                            broker
     64      8  born_timestamp (ms)                                                      producer
     72      8  delay_time: due (ms), 0 = none                                           producer
     80      8  expire_at (ms), 0 = never                                                producer
     88      8  producer_id, 0 = none                                                    producer
     96      8  sequence                                                                 producer
    104      4  tag_hash                                                                 producer
    108      4  flags: bits 0-2 body codec (0 none, 1 lz4, 2 zstd), bit 3 encrypted      producer
    112      1  type: 0 normal, 1 delay, 2 transaction, 3 broadcast, 4 order             producer
    113      1  priority                                                                 producer
    114      1  reliability: 0 none, 1 memory, 2 disk, 3 replicas                        producer
    115      1  0
    116    2x6  lengths of message_id, topic, transaction_id, sharding_key, born_host; 0  producer
    128    4x4  lengths of tags, keys, properties, body                                  producer
    144         message_id, topic, transaction_id, sharding_key, born_host,
                tags, keys, properties, body; zeros to a multiple of 8                   producer

Tags and keys are strings one after another, each a u16 length and its bytes; properties are pairs of such strings, no name twice.
Before a broker has stamped a record, bytes 12 … 64 are zero. What the producer wrote never changes afterwards, on any copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Final, NoReturn

from litemq.errors import InvalidArgumentError, RecordFormatError
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
from litemq.types import (
    DEFAULT_PRIORITY,
    LATEST_TIME_MS,
    BodyCodec,
    Durability,
    MessageType,
    Record,
    RecordKind,
    Stamp,
    StoredRecord,
)

__all__ = [
    "BLANK_MAGIC",
    "DELAY_TIME_AT",
    "FIXED_BYTES",
    "MAGIC",
    "PRODUCER_BYTES_AT",
    "SEVERAL_TAGS",
    "STAMPED_BYTES_AT",
    "STAMP_AT",
    "Problem",
    "RecordTemplate",
    "Stage",
    "check_buffer",
    "decode_list",
    "decode_record",
    "encode_record",
    "hash_tags",
    "stamp_record",
]

Buffer = bytes | bytearray | memoryview

MAGIC: Final = 0x4C4D5102
BLANK_MAGIC: Final = 0x4C4D51FF
FIXED_BYTES: Final = 144
PRODUCER_BYTES_AT: Final = 64  # the producer's checksum covers everything from here on
STAMP_AT: Final = 12
DELAY_TIME_AT: Final = slice(72, 80)
STAMPED_BYTES_AT: Final = 16  # the broker's checksum covers from here to the producer's bytes

SEVERAL_TAGS: Final = 0xFFFFFFFF
_KNOWN_FLAGS: Final = 0b1111
_ENCRYPTED: Final = 0b1000
_CODEC_MASK: Final = 0b0111

_FIXED: Final = struct.Struct(
    ">"
    "I"  # size
    "I"  # magic
    "I"  # crc of the producer's bytes
    "I"  # crc of the broker's bytes
    "q"  # commitlog_offset
    "q"  # queue_offset
    "q"  # store_timestamp
    "q"  # origin
    "I"  # topic_id
    "I"  # queue_id
    "I"  # epoch
    "B"  # kind
    "B"  # 0
    "H"  # consume_count
    "q"  # born_timestamp
    "q"  # delay_time
    "q"  # expire_at
    "Q"  # producer_id
    "Q"  # sequence
    "I"  # tag_hash
    "I"  # flags
    "B"  # type
    "B"  # priority
    "B"  # reliability
    "B"  # 0
    "HHHHHH"  # lengths: message_id, topic, transaction_id, sharding_key, born_host; 0
    "IIII"  # lengths: tags, keys, properties, body
)
# The same fields in the pieces that are written together: bytes 0 … 64 as a producer leaves them, 16 … 64 as the broker stamps
# them, and 64 … 144, in which what a template's messages share comes as ready-made bytes.
_UNSTAMPED_HEAD: Final = struct.Struct(">III52x")
_STAMP: Final = struct.Struct(">qqqqIIIBBH")
_SENT: Final = struct.Struct(">qqqQQ12sH14sIII")
_ATTRIBUTES: Final = struct.Struct(">IIBBBB")  # tag_hash, flags, type, priority, reliability, 0
_MIDDLE_LENGTHS: Final = struct.Struct(">HHHHHI")  # topic, transaction_id, sharding_key, born_host, 0, tags
_CRC: Final = struct.Struct(">I")
_U16: Final = struct.Struct(">H")
_U64_MAX: Final = 0xFFFFFFFFFFFFFFFF
_UNSTAMPED: Final = bytes(PRODUCER_BYTES_AT - STAMP_AT)
_PREFIX: Final = tuple(_U16.pack(n) for n in range(256))  # in front of a tag or a key
_PADDING: Final = tuple(bytes(n) for n in range(8))

_KINDS: Final = tuple(RecordKind)
_TYPES: Final = tuple(MessageType)
_LEVELS: Final = tuple(Durability)
_CODECS: Final = tuple(BodyCodec)


def check_buffer(buffer: Buffer) -> None:
    """A view whose items are not single bytes in a row would be counted and cut in items, not bytes."""
    if isinstance(buffer, memoryview) and (buffer.itemsize != 1 or not buffer.c_contiguous or buffer.ndim != 1):
        raise InvalidArgumentError("a memoryview must be a plain run of bytes: cast it to 'B', and copy it where it has gaps")
    if not isinstance(buffer, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"{type(buffer).__name__} is no buffer: pass bytes, a bytearray or a memoryview")


class Stage(Enum):
    """Where in its life a record is read: before the broker has stamped it, or after."""

    SENT = "sent"
    STORED = "stored"


class Problem(StrEnum):
    """Why bytes are not a record: the constant word that ``RecordFormatError.problem`` carries."""

    TRUNCATED = "truncated"
    MAGIC = "magic"
    SIZE = "size"
    LENGTHS = "lengths"
    PRODUCER_CRC = "producer-crc"
    BROKER_CRC = "broker-crc"
    STAMP = "stamp"
    FIELD = "field"
    PADDING = "padding"
    LIMIT = "limit"
    LIST = "list"
    UTF8 = "utf8"
    TAG_HASH = "tag-hash"
    REPEATED_PROPERTY = "repeated-property"


def _refuse(problem: Problem, position: int, detail: str = "") -> NoReturn:
    raise RecordFormatError(problem.value, position, detail)


def hash_tags(tags: Iterable[bytes]) -> int:
    """0 for no tag, the tag's crc32c for one (0 and 0xFFFFFFFF become 1), 0xFFFFFFFF for several: then the record decides."""
    encoded = list(tags)
    if not encoded:
        return 0
    if len(encoded) > 1:
        return SEVERAL_TAGS
    crc = crc32c(encoded[0])
    return 1 if crc in (0, SEVERAL_TAGS) else crc


# Encoding ---------------------------------------------------------------------------------------------------------------------


def _utf8(value: str, what: str, most: int) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what}: {value!r} is no string")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what}: not encodable as UTF-8: {error.reason}") from None
    if len(encoded) > most:
        raise InvalidArgumentError(f"{what} of {len(encoded)} bytes: at most {most} are allowed")
    return encoded


def _in_range(value: int, what: str, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgumentError(f"{what}={value!r}: choose a whole number, {least} … {most}")
    return value


def _encode_list(values: Iterable[str], what: str, most: int, most_bytes: int) -> tuple[bytes, list[bytes]]:
    if isinstance(values, str):
        raise InvalidArgumentError(f"{what}s={values[:64]!r} is one string: pass a sequence of strings")
    encoded = [_utf8(value, what, most_bytes) for value in values]
    if len(encoded) > most:
        raise InvalidArgumentError(f"{len(encoded)} {what}s: at most {most} are allowed")
    return b"".join([_PREFIX[len(value)] + value for value in encoded]), encoded


def _encode_properties(properties: Mapping[str, str]) -> bytes:
    parts = []
    for name, value in properties.items():
        for text in (name, value):
            encoded = _utf8(text, f"property {name[:64]!r}", MAX_PROPERTIES_BYTES)
            parts.append(_U16.pack(len(encoded)) + encoded)
    whole = b"".join(parts)
    if len(whole) > MAX_PROPERTIES_BYTES:
        raise InvalidArgumentError(f"properties of {len(whole)} bytes: at most {MAX_PROPERTIES_BYTES} are allowed")
    return whole


class RecordTemplate:
    """Encodes the messages of one producer to one topic: what they share is checked and encoded once."""

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
        # What a plain message adds nothing to.
        self._attributes = self._pack_attributes(MessageType.NORMAL, BodyCodec.NONE, encrypted=False)
        self._lengths, self._middle = self._pack_middle("", "")
        self._shape = self._shaped()

    def also(self, properties: Mapping[str, str]) -> RecordTemplate:
        """The same with more properties, whose names are others: for messages that share all but a few words."""
        other = RecordTemplate.__new__(RecordTemplate)
        for name in RecordTemplate.__slots__:  # copy.copy takes nearly three times as long
            setattr(other, name, getattr(self, name))
        whole = self._properties + _encode_properties(properties)
        if len(whole) > MAX_PROPERTIES_BYTES:
            raise InvalidArgumentError(f"properties of {len(whole)} bytes: at most {MAX_PROPERTIES_BYTES} are allowed")
        other._properties = whole  # noqa: SLF001  another of its kind
        other._shape = other._shaped()  # noqa: SLF001
        return other

    def _shaped(self) -> bytes:
        fixed = _SENT.pack(0, 0, 0, self._producer_id, 0, self._attributes, 0, self._lengths, 0, len(self._properties), 0)
        return b"".join((_UNSTAMPED_HEAD.pack(0, MAGIC, 0), fixed, self._middle, self._properties))

    def _pack_attributes(self, message_type: MessageType, codec: BodyCodec, *, encrypted: bool) -> bytes:
        tag_hash, priority, reliability = self._shared
        try:
            message_type, codec = MessageType(message_type), BodyCodec(codec)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
        return _ATTRIBUTES.pack(tag_hash, codec | _ENCRYPTED if encrypted else codec, message_type, priority, reliability, 0)

    def _pack_middle(self, transaction_id: str, sharding_key: str) -> tuple[bytes, bytes]:
        """The lengths from the topic's to the tags', and those parts themselves."""
        transaction = _utf8(transaction_id, "transaction_id", 0xFFFF)
        sharding = _utf8(sharding_key, "sharding_key", 0xFFFF)
        parts = (self._topic, transaction, sharding, self._born_host, self._tags)
        lengths = _MIDDLE_LENGTHS.pack(*map(len, parts[:4]), 0, len(self._tags))
        return lengths, b"".join(parts)

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
        """The record's bytes as a producer sends them: the broker's fields are zero."""
        if native.enabled:
            quickly = native.loops.encode(
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
            if quickly is not None:
                return quickly
        if type(body) is not bytes:
            if not isinstance(body, (bytes, bytearray)):
                raise InvalidArgumentError(f"a body is bytes, not {type(body).__name__}")
            body = bytes(body)
        if not isinstance(message_id, str):
            raise InvalidArgumentError(f"message_id={message_id!r} is no string")
        encoded_id = message_id.encode() if message_id.isascii() else _utf8(message_id, "message_id", MAX_MESSAGE_ID_BYTES)
        if len(encoded_id) > MAX_MESSAGE_ID_BYTES:
            _utf8(message_id, "message_id", MAX_MESSAGE_ID_BYTES)
        if not keys:
            encoded_keys = b""
        elif len(keys) == 1 and type(keys[0]) is str and len(keys[0]) <= MAX_KEY_BYTES and keys[0].isascii() and not isinstance(keys, str):
            encoded_keys = _PREFIX[len(keys[0])] + keys[0].encode()
        else:
            encoded_keys = _encode_list(keys, "key", MAX_KEYS, MAX_KEY_BYTES)[0]
        if transaction_id or sharding_key:
            lengths, middle = self._pack_middle(transaction_id, sharding_key)
        else:
            lengths, middle = self._lengths, self._middle
        if message_type or codec or encrypted:
            attributes = self._pack_attributes(message_type, codec, encrypted=encrypted)
        else:
            attributes = self._attributes
        properties = self._properties
        length = FIXED_BYTES + len(encoded_id) + len(middle) + len(encoded_keys) + len(properties) + len(body)
        size = (length + 7) & ~7
        if size > self._max_record_bytes:
            raise InvalidArgumentError(f"record of {size} bytes: at most {self._max_record_bytes} are allowed (max_record_bytes)")
        if not (0 <= born_timestamp <= LATEST_TIME_MS and 0 <= delay_time <= LATEST_TIME_MS and 0 <= expire_at <= LATEST_TIME_MS):
            for what, value in (("born_timestamp", born_timestamp), ("delay_time", delay_time), ("expire_at", expire_at)):
                _in_range(value, what, 0, LATEST_TIME_MS)
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
            raise InvalidArgumentError("born_timestamp, delay_time, expire_at and sequence are whole numbers") from None
        tail = b"".join((fixed, encoded_id, middle, encoded_keys, properties, body, _PADDING[size - length]))
        return _UNSTAMPED_HEAD.pack(size, MAGIC, crc32c(tail)) + tail


def encode_record(record: Record, stamp: Stamp | None = None, *, limits: RecordLimits = DEFAULT_LIMITS) -> bytes:
    """One record's bytes: as a producer sends them, or with ``stamp`` as they stand in a log."""
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
    """Write the broker's fields into a record, in place."""
    _in_range(stamp.commitlog_offset, "commitlog_offset", 0, 0x7FFFFFFFFFFFFFFF)
    _in_range(stamp.queue_offset, "queue_offset", 0, 0x7FFFFFFFFFFFFFFF)
    _in_range(stamp.store_timestamp, "store_timestamp", 0, LATEST_TIME_MS)
    _in_range(stamp.origin, "origin", -1, 0x7FFFFFFFFFFFFFFF)
    for what, value in (("topic_id", stamp.topic_id), ("queue_id", stamp.queue_id), ("epoch", stamp.epoch)):
        _in_range(value, what, 0, 0xFFFFFFFF)
    _in_range(stamp.consume_count, "consume_count", 0, 0xFFFF)
    if not 0 <= position <= len(buffer) - FIXED_BYTES:
        raise InvalidArgumentError(f"no record begins at byte {position} of {len(buffer)}")
    fields = _STAMP.pack(*stamp[:7], RecordKind(stamp.kind), 0, stamp.consume_count)
    _CRC.pack_into(buffer, position + STAMP_AT, crc32c(fields))
    buffer[position + STAMPED_BYTES_AT : position + PRODUCER_BYTES_AT] = fields


# Decoding ---------------------------------------------------------------------------------------------------------------------


def decode_record(
    buffer: Buffer,
    position: int = 0,
    *,
    stage: Stage = Stage.STORED,
    verify_crc: bool = True,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> StoredRecord:
    """The record that begins at ``position``, checked whole; raises ``RecordFormatError`` for anything else."""
    if type(buffer) is not bytes:
        check_buffer(buffer)
    end = len(buffer)
    if position < 0:
        raise InvalidArgumentError(f"position={position}: a record begins at 0 or later")
    if end - position < FIXED_BYTES:
        _refuse(Problem.TRUNCATED, position, f"{max(0, end - position)} bytes are left, a record has at least {FIXED_BYTES}")
    (
        size,
        magic,
        producer_crc,
        broker_crc,
        commitlog_offset,
        queue_offset,
        store_timestamp,
        origin,
        topic_id,
        queue_id,
        epoch,
        kind,
        zero_1,
        consume_count,
        born_timestamp,
        delay_time,
        expire_at,
        producer_id,
        sequence,
        tag_hash,
        flags,
        message_type,
        priority,
        reliability,
        zero_2,
        id_length,
        topic_length,
        transaction_length,
        sharding_length,
        host_length,
        zero_3,
        tags_length,
        keys_length,
        properties_length,
        body_length,
    ) = _FIXED.unpack_from(buffer, position)

    if magic != MAGIC:
        _refuse(Problem.MAGIC, position, f"0x{magic:08X}")
    if size < FIXED_BYTES or size & 7 or size > limits.max_record_bytes:
        _refuse(Problem.SIZE, position, f"{size} bytes")
    stop = position + size
    if stop > end:
        _refuse(Problem.TRUNCATED, position, f"{size} bytes, of which {end - position} are here")
    topic_at = FIXED_BYTES + id_length
    transaction_at = topic_at + topic_length
    sharding_at = transaction_at + transaction_length
    host_at = sharding_at + sharding_length
    tags_at = host_at + host_length
    keys_at = tags_at + tags_length
    properties_at = keys_at + keys_length
    body_at = properties_at + properties_length
    body_end = body_at + body_length
    if (body_end + 7) & ~7 != size:
        _refuse(Problem.LENGTHS, position, f"the parts need {body_end} bytes, the record has {size}")

    raw = bytes(buffer[position:stop])  # slices of bytes cost a third of slices of a memoryview
    if verify_crc and crc32c(memoryview(raw)[PRODUCER_BYTES_AT:]) != producer_crc:
        _refuse(Problem.PRODUCER_CRC, position)
    stamp: Stamp | None
    if stage is Stage.STORED:
        if verify_crc and crc32c(raw[STAMPED_BYTES_AT:PRODUCER_BYTES_AT]) != broker_crc:
            _refuse(Problem.BROKER_CRC, position)
        if kind > 7 or zero_1 or commitlog_offset < 0 or queue_offset < 0 or origin < -1 or not 0 <= store_timestamp <= LATEST_TIME_MS:
            _refuse(Problem.STAMP, position, "a field of the broker's is out of range")
        stamp = Stamp(commitlog_offset, queue_offset, store_timestamp, origin, topic_id, queue_id, epoch, _KINDS[kind], consume_count)
    elif stage is Stage.SENT:
        if raw[STAMP_AT:PRODUCER_BYTES_AT] != _UNSTAMPED:
            _refuse(Problem.STAMP, position, "a producer may not write the broker's fields")
        stamp = None
    else:
        raise InvalidArgumentError(f"stage={stage!r}: choose Stage.SENT or Stage.STORED")

    if (
        message_type > 4
        or reliability > 3
        or flags > _KNOWN_FLAGS
        or flags & _CODEC_MASK > 2
        or zero_2
        or zero_3
        or not 0 <= born_timestamp <= LATEST_TIME_MS
        or not 0 <= delay_time <= LATEST_TIME_MS
        or not 0 <= expire_at <= LATEST_TIME_MS
    ):
        _refuse(Problem.FIELD, position, "a field of the producer's is out of range")
    if raw[body_end:] != _PADDING[size - body_end]:
        _refuse(Problem.PADDING, position)
    if id_length > MAX_MESSAGE_ID_BYTES or not 1 <= topic_length <= MAX_TOPIC_BYTES or properties_length > MAX_PROPERTIES_BYTES:
        _refuse(Problem.LIMIT, position, "message_id, topic or properties")

    try:
        message_id = raw[FIXED_BYTES:topic_at].decode()
        topic = raw[topic_at:transaction_at].decode()
        transaction_id = raw[transaction_at:sharding_at].decode() if transaction_length else ""
        sharding_key = raw[sharding_at:host_at].decode() if sharding_length else ""
        born_host = raw[host_at:tags_at].decode()
    except UnicodeDecodeError:
        _refuse(Problem.UTF8, position)
    tags = decode_list(raw, tags_at, keys_at, position, MAX_TAGS, MAX_TAG_BYTES) if tags_length else ()
    keys = decode_list(raw, keys_at, properties_at, position, MAX_KEYS, MAX_KEY_BYTES) if keys_length else ()
    properties: dict[str, str] = {}
    if properties_length:
        pairs = decode_list(raw, properties_at, body_at, position, MAX_PROPERTIES_BYTES, MAX_PROPERTIES_BYTES)
        if len(pairs) & 1:
            _refuse(Problem.LIST, position, "a property without a value")
        properties = dict(zip(pairs[::2], pairs[1::2], strict=True))
        if len(properties) * 2 != len(pairs):
            _refuse(Problem.REPEATED_PROPERTY, position)
    if not tags_length:
        expected_hash = 0
    elif len(tags) > 1:
        expected_hash = SEVERAL_TAGS
    else:
        expected_hash = crc32c(raw[tags_at + 2 : keys_at])
        if expected_hash in (0, SEVERAL_TAGS):
            expected_hash = 1
    if tag_hash != expected_hash:
        _refuse(Problem.TAG_HASH, position)

    record = Record(
        topic,
        raw[body_at:body_end],
        message_id,
        tags,
        keys,
        properties,
        _TYPES[message_type],
        priority,
        _LEVELS[reliability],
        born_timestamp,
        delay_time,
        expire_at,
        producer_id,
        sequence,
        transaction_id,
        sharding_key,
        born_host,
        _CODECS[flags & _CODEC_MASK],
        flags & _ENCRYPTED != 0,
    )
    return StoredRecord(record, stamp, size)


def decode_list(raw: bytes, at: int, end: int, position: int, most: int, most_bytes: int) -> tuple[str, ...]:
    """The strings that fill ``raw[at:end]``: tags, keys, or the names and values of properties, of the record at ``position``."""
    values: list[str] = []
    while at < end:
        if end - at < 2:
            _refuse(Problem.LIST, position, "a string's length is cut")
        begin = at + 2
        length = raw[at] << 8 | raw[at + 1]
        at = begin + length
        if at > end:
            _refuse(Problem.LIST, position, "a string reaches beyond its list")
        if length > most_bytes:
            _refuse(Problem.LIMIT, position, f"a tag or key of {length} bytes")
        try:
            values.append(raw[begin:at].decode())
        except UnicodeDecodeError:
            _refuse(Problem.UTF8, position)
    if len(values) > most:
        _refuse(Problem.LIMIT, position, f"{len(values)} tags or keys")
    return tuple(values)
