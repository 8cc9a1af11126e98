"""Decoding of pull answers: consecutive stored records to plain values for a consumer.

Every record is fully validated, as in ``decode_record``. Messages share equal values, such as the
topic, as one object.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import Buffer, check_buffer
from litemq.format.record_decode import decode_record
from litemq.types import BodyCodec, Durability, MessageType, RecordKind, StoredRecord

__all__ = ["MessageFields", "decode_messages", "message_fields"]


class MessageFields(NamedTuple):
    """A stored record as a consumer sees it. Times are milliseconds since 1970; 0 means none."""

    message_id: str
    topic: str
    body: bytes
    tags: tuple[str, ...]
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    sharding_key: str
    born_timestamp: int
    store_timestamp: int
    queue_id: int
    queue_offset: int
    commitlog_offset: int
    kind: RecordKind
    consume_count: int
    codec: BodyCodec
    encrypted: bool
    priority: int
    reliability: Durability
    producer_id: int
    sequence: int
    delay_time: int
    expire_at: int
    transaction_id: str
    born_host: str
    type: MessageType


_NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})
# The enum members that the C loop puts into messages.
_MEMBERS: Final = (tuple(RecordKind), tuple(BodyCodec), tuple(Durability), tuple(MessageType))


def decode_messages(buffer: Buffer, *, limits: RecordLimits = STORED_LIMITS) -> list[MessageFields]:
    """Decode all records of ``buffer``. Raise ``RecordFormatError`` for the first invalid one."""
    if type(buffer) is not bytes:
        check_buffer(buffer)
    messages: list[MessageFields] = []
    at, end = 0, len(buffer)
    while at < end:
        if native.enabled:
            at = native.loops.decode_messages(
                buffer, at, limits.max_record_bytes, MessageFields, _MEMBERS, _NO_PROPERTIES, messages
            )
            if at == end:
                break
        stored = decode_record(buffer, at, limits=limits)
        messages.append(message_fields(stored))
        at += stored.size
    return messages


def message_fields(stored: StoredRecord) -> MessageFields:
    """Convert a decoded record."""
    record, stamp = stored.record, stored.stamp
    if stamp is None:
        raise InvalidArgumentError("the record has no stamp: only a stored record is a message")
    return MessageFields(
        record.message_id,
        record.topic,
        record.body,
        record.tags,
        record.keys,
        record.properties or _NO_PROPERTIES,
        record.sharding_key,
        record.born_timestamp,
        stamp.store_timestamp,
        stamp.queue_id,
        stamp.queue_offset,
        stamp.commitlog_offset,
        stamp.kind,
        stamp.consume_count,
        record.codec,
        record.encrypted,
        record.priority,
        record.reliability,
        record.producer_id,
        record.sequence,
        record.delay_time,
        record.expire_at,
        record.transaction_id,
        record.born_host,
        record.type,
    )
