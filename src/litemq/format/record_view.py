"""Lazy views of stored records: each property decodes one field of a valid record."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from litemq.format.limits import MAX_KEY_BYTES, MAX_KEYS, MAX_PROPERTIES_BYTES, MAX_TAG_BYTES, MAX_TAGS
from litemq.format.record import FIXED_BYTES, Buffer
from litemq.format.record_decode import decode_list
from litemq.types import MessageType, RecordKind

__all__ = ["RecordView", "record_views"]

_SIZE: Final = struct.Struct(">I")
_LENGTHS: Final = struct.Struct(">HHHHHHIIII")  # as in record.py, from byte 116 on
_LENGTHS_AT: Final = 116
_I64: Final = struct.Struct(">q")
_U16: Final = struct.Struct(">H")
_TYPES: Final = tuple(MessageType)
_KINDS: Final = tuple(RecordKind)


class RecordView:
    """The record at ``start`` of a buffer."""

    __slots__ = ("_bounds", "_properties", "buffer", "start")

    def __init__(self, buffer: Buffer, start: int = 0) -> None:
        self.buffer = buffer
        self.start = start
        self._bounds: tuple[int, ...] | None = None
        self._properties: Mapping[str, str] | None = None

    @property
    def size(self) -> int:
        size: int = _SIZE.unpack_from(self.buffer, self.start)[0]
        return size

    @property
    def raw(self) -> bytes:
        """The bytes of the record."""
        return bytes(self.buffer[self.start : self.start + self.size])

    def _time(self, at: int) -> int:
        time: int = _I64.unpack_from(self.buffer, self.start + at)[0]
        return time

    @property
    def queue_offset(self) -> int:
        return self._time(24)

    @property
    def store_timestamp(self) -> int:
        return self._time(32)

    @property
    def queue_id(self) -> int:
        queue_id: int = _SIZE.unpack_from(self.buffer, self.start + 52)[0]
        return queue_id

    @property
    def kind(self) -> RecordKind:
        return _KINDS[self.buffer[self.start + 60]]

    @property
    def consume_count(self) -> int:
        count: int = _U16.unpack_from(self.buffer, self.start + 62)[0]
        return count

    @property
    def born_timestamp(self) -> int:
        return self._time(64)

    @property
    def delay_time(self) -> int:
        return self._time(72)

    @property
    def expire_at(self) -> int:
        return self._time(80)

    @property
    def type(self) -> MessageType:
        return _TYPES[self.buffer[self.start + 112]]

    @property
    def priority(self) -> int:
        return self.buffer[self.start + 113]

    def _part(self, number: int) -> bytes:
        """Return a variable part, numbered as in the layout: 0 message id … 7 properties."""
        bounds = self._bounds
        if bounds is None:
            message_id, topic, transaction, sharding, host, _, tags, keys, properties, _ = _LENGTHS.unpack_from(
                self.buffer, self.start + _LENGTHS_AT
            )
            at = self.start + FIXED_BYTES
            found = [at]
            for length in (message_id, topic, transaction, sharding, host, tags, keys, properties):
                at += length
                found.append(at)
            bounds = self._bounds = tuple(found)
        return bytes(self.buffer[bounds[number] : bounds[number + 1]])

    @property
    def message_id(self) -> str:
        return self._part(0).decode()

    @property
    def topic(self) -> str:
        return self._part(1).decode()

    @property
    def ordering_key(self) -> str:
        return self._part(3).decode()

    @property
    def tags(self) -> tuple[str, ...]:
        raw = self._part(5)
        return decode_list(raw, 0, len(raw), self.start, MAX_TAGS, MAX_TAG_BYTES) if raw else ()

    @property
    def keys(self) -> tuple[str, ...]:
        raw = self._part(6)
        return decode_list(raw, 0, len(raw), self.start, MAX_KEYS, MAX_KEY_BYTES) if raw else ()

    @property
    def properties(self) -> Mapping[str, str]:
        if self._properties is None:
            raw = self._part(7)
            pairs = decode_list(raw, 0, len(raw), self.start, MAX_PROPERTIES_BYTES, MAX_PROPERTIES_BYTES) if raw else ()
            self._properties = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return self._properties


def record_views(records: Buffer) -> Iterator[RecordView]:
    """Iterate over the consecutive records of a buffer."""
    at = 0
    while at < len(records):
        view = RecordView(records, at)
        yield view
        at += view.size
