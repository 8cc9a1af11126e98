"""Decoder and validator of one record, version 2: the reference for the other codecs."""

from __future__ import annotations

from typing import Final, NoReturn

from litemq.errors import InvalidArgumentError, RecordFormatError
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
    CODEC_MASK,
    ENCRYPTED_FLAG,
    FIXED_BYTES,
    FIXED_FIELDS,
    KNOWN_FLAGS,
    MAGIC,
    PADDING,
    PRODUCER_BYTES_AT,
    SEVERAL_TAGS,
    STAMP_AT,
    STAMPED_BYTES_AT,
    Buffer,
    Problem,
    Stage,
    check_buffer,
)
from litemq.types import LATEST_TIME_MS, BodyCodec, Durability, MessageType, Record, RecordKind, Stamp, StoredRecord

__all__ = ["decode_list", "decode_record"]

_Fields = tuple[int, ...]  # as FIXED_FIELDS unpacks them
# The start of each part from the topic on, and the end of the body.
_Bounds = tuple[int, int, int, int, int, int, int, int, int]

# Positions in _Fields.
_SIZE: Final = 0
_MAGIC: Final = 1
_PRODUCER_CRC: Final = 2
_BROKER_CRC: Final = 3
_STAMP: Final = slice(4, 14)
_PRODUCER: Final = slice(14, 25)
_LENGTHS: Final = slice(25, 35)
_LAST_ZERO: Final = 30

_COPIED_BYTES: Final = 4096  # a slice of fewer bytes costs less than a view
_UNSTAMPED: Final = bytes(PRODUCER_BYTES_AT - STAMP_AT)
_KINDS: Final = tuple(RecordKind)
_TYPES: Final = tuple(MessageType)
_LEVELS: Final = tuple(Durability)
_CODECS: Final = tuple(BodyCodec)
_new: Final = tuple.__new__  # a NamedTuple's own constructor takes twice as long


def decode_record(
    buffer: Buffer,
    position: int = 0,
    *,
    stage: Stage = Stage.STORED,
    verify_crc: bool = True,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> StoredRecord:
    """Decode the record at ``position``. Raise ``RecordFormatError`` for the first broken rule."""
    if type(buffer) is not bytes:
        check_buffer(buffer)
    raw, fields, bounds = _check_frame(buffer, position, limits.max_record_bytes)
    if verify_crc:
        produced = raw if fields[_SIZE] < _COPIED_BYTES else memoryview(raw)
        if crc32c(produced[PRODUCER_BYTES_AT:]) != fields[_PRODUCER_CRC]:
            _refuse(Problem.PRODUCER_CRC, position)
    stamp = _check_stamp(raw, position, fields, stage, verify_crc)
    record = _check_producer_part(raw, position, fields, bounds)
    return _new(StoredRecord, (record, stamp, fields[_SIZE], 2, None))


def _refuse(problem: Problem, position: int, detail: str = "") -> NoReturn:
    raise RecordFormatError(problem.value, position, detail)


def _check_frame(buffer: Buffer, position: int, max_record_bytes: int) -> tuple[bytes, _Fields, _Bounds]:
    """Check magic, size and lengths; return the record's bytes, fixed fields and part bounds."""
    end = len(buffer)
    if position < 0:
        raise InvalidArgumentError(f"position={position}: a record begins at 0 or later")
    if end - position < FIXED_BYTES:
        left = max(0, end - position)
        _refuse(Problem.TRUNCATED, position, f"{left} bytes are left, but a record has at least {FIXED_BYTES}")
    fields: _Fields = FIXED_FIELDS.unpack_from(buffer, position)
    size = fields[_SIZE]
    if fields[_MAGIC] != MAGIC:
        _refuse(Problem.MAGIC, position, f"0x{fields[_MAGIC]:08X}")
    if size < FIXED_BYTES or size & 7 or size > max_record_bytes:
        _refuse(Problem.SIZE, position, f"{size} bytes")
    stop = position + size
    if stop > end:
        _refuse(Problem.TRUNCATED, position, f"{size} bytes, of which the buffer has {end - position}")
    message_id, topic, transaction_id, sharding_key, born_host, _, tags, keys, properties, body = fields[_LENGTHS]
    topic_at = FIXED_BYTES + message_id
    transaction_at = topic_at + topic
    sharding_at = transaction_at + transaction_id
    host_at = sharding_at + sharding_key
    tags_at = host_at + born_host
    keys_at = tags_at + tags
    properties_at = keys_at + keys
    body_at = properties_at + properties
    body_end = body_at + body
    if (body_end + 7) & ~7 != size:
        _refuse(Problem.LENGTHS, position, f"the parts need {body_end} bytes, the record has {size}")
    raw = buffer[position:stop]
    if type(raw) is not bytes:
        raw = bytes(raw)  # slices of bytes cost a third of slices of a memoryview
    bounds = topic_at, transaction_at, sharding_at, host_at, tags_at, keys_at, properties_at, body_at, body_end
    return raw, fields, bounds


def _check_stamp(raw: bytes, position: int, fields: _Fields, stage: Stage, verify_crc: bool) -> Stamp | None:
    """Check the broker's fields and checksum. A record in ``Stage.SENT`` has no stamp."""
    if stage is Stage.STORED:
        if verify_crc and crc32c(raw[STAMPED_BYTES_AT:PRODUCER_BYTES_AT]) != fields[_BROKER_CRC]:
            _refuse(Problem.BROKER_CRC, position)
        offset, queue_offset, stored_at, origin, topic_id, queue_id, epoch, kind, zero, count = fields[_STAMP]
        if kind > 7 or zero or offset < 0 or queue_offset < 0 or origin < -1 or not 0 <= stored_at <= LATEST_TIME_MS:
            _refuse(Problem.STAMP, position, "a field of the broker is out of range")
        stamp = offset, queue_offset, stored_at, origin, topic_id, queue_id, epoch, _KINDS[kind], count
        return _new(Stamp, stamp)
    if stage is not Stage.SENT:
        raise InvalidArgumentError(f"stage={stage!r}: choose Stage.SENT or Stage.STORED")
    if raw[STAMP_AT:PRODUCER_BYTES_AT] != _UNSTAMPED:
        _refuse(Problem.STAMP, position, "a producer may not write the broker's fields")
    return None


def _check_producer_part(raw: bytes, position: int, fields: _Fields, bounds: _Bounds) -> Record:
    """Check the producer's fields, padding, strings and lists; return them as a ``Record``."""
    born, due, expires, producer_id, sequence, tag_hash, flags, message_type, priority, level, zero = fields[_PRODUCER]
    if (
        message_type > 4
        or level > 3
        or flags > KNOWN_FLAGS
        or flags & CODEC_MASK > 2
        or zero
        or fields[_LAST_ZERO]
        or not 0 <= born <= LATEST_TIME_MS
        or not 0 <= due <= LATEST_TIME_MS
        or not 0 <= expires <= LATEST_TIME_MS
    ):
        _refuse(Problem.FIELD, position, "a field of the producer is out of range")
    topic_at, transaction_at, sharding_at, host_at, tags_at, keys_at, properties_at, body_at, body_end = bounds
    if raw[body_end:] != PADDING[len(raw) - body_end]:
        _refuse(Problem.PADDING, position)
    if (
        topic_at - FIXED_BYTES > MAX_MESSAGE_ID_BYTES
        or not 1 <= transaction_at - topic_at <= MAX_TOPIC_BYTES
        or body_at - properties_at > MAX_PROPERTIES_BYTES
    ):
        _refuse(Problem.LIMIT, position, "message_id, topic or properties")
    try:
        message_id = raw[FIXED_BYTES:topic_at].decode()
        topic = raw[topic_at:transaction_at].decode()
        transaction_id = raw[transaction_at:sharding_at].decode() if sharding_at > transaction_at else ""
        sharding_key = raw[sharding_at:host_at].decode() if host_at > sharding_at else ""
        born_host = raw[host_at:tags_at].decode()
    except UnicodeDecodeError:
        _refuse(Problem.UTF8, position)
    tags = decode_list(raw, tags_at, keys_at, position, MAX_TAGS, MAX_TAG_BYTES) if keys_at > tags_at else ()
    keys: tuple[str, ...] = ()
    if properties_at > keys_at:
        keys = decode_list(raw, keys_at, properties_at, position, MAX_KEYS, MAX_KEY_BYTES)
    properties = _check_properties(raw, properties_at, body_at, position) if body_at > properties_at else {}
    if not tags:
        expected_hash = 0
    elif len(tags) > 1:
        expected_hash = SEVERAL_TAGS
    else:
        expected_hash = crc32c(raw[tags_at + 2 : keys_at])
        if expected_hash in (0, SEVERAL_TAGS):
            expected_hash = 1
    if tag_hash != expected_hash:
        _refuse(Problem.TAG_HASH, position)
    return _new(
        Record,
        (
            topic,
            raw[body_at:body_end],
            message_id,
            tags,
            keys,
            properties,
            _TYPES[message_type],
            priority,
            _LEVELS[level],
            born,
            due,
            expires,
            producer_id,
            sequence,
            transaction_id,
            sharding_key,
            born_host,
            _CODECS[flags & CODEC_MASK],
            flags & ENCRYPTED_FLAG != 0,
        ),
    )


def _check_properties(raw: bytes, at: int, end: int, position: int) -> dict[str, str]:
    """Check that ``raw[at:end]`` holds pairs with unique names; return the properties."""
    pairs = decode_list(raw, at, end, position, MAX_PROPERTIES_BYTES, MAX_PROPERTIES_BYTES)
    if len(pairs) & 1:
        _refuse(Problem.LIST, position, "a property without a value")
    properties = dict(zip(pairs[::2], pairs[1::2], strict=True))
    if len(properties) * 2 != len(pairs):
        _refuse(Problem.REPEATED_PROPERTY, position)
    return properties


def decode_list(raw: bytes, at: int, end: int, position: int, max_count: int, max_bytes: int) -> tuple[str, ...]:
    """Decode the strings that fill ``raw[at:end]``, a list of the record at ``position``."""
    values: list[str] = []
    while at < end:
        if end - at < 2:
            _refuse(Problem.LIST, position, "the length of a string is cut off")
        begin = at + 2
        length = raw[at] << 8 | raw[at + 1]
        at = begin + length
        if at > end:
            _refuse(Problem.LIST, position, "a string exceeds its list")
        if length > max_bytes:
            _refuse(Problem.LIMIT, position, f"a tag or key of {length} bytes")
        try:
            values.append(raw[begin:at].decode())
        except UnicodeDecodeError:
            _refuse(Problem.UTF8, position)
    if len(values) > max_count:
        _refuse(Problem.LIMIT, position, f"{len(values)} tags or keys")
    return tuple(values)
