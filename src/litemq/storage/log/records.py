"""Reads one record of the confirmed log by its log offset, and verifies it."""

from __future__ import annotations

import struct
from typing import Final

from litemq.errors import CorruptStoreError, OffsetOutOfRangeError, RecordFormatError
from litemq.format.crc import crc32c
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES, PRODUCER_BYTES_AT, STAMP_AT, STAMPED_BYTES_AT
from litemq.format.record_decode import decode_record
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.reader import SegmentedLog
from litemq.types import RecordKind, Stamp, StoredRecord

__all__ = ["corrupt_at", "read_checked", "read_stamp"]

_STAMP: Final = struct.Struct(">qqqqIIIBxH")
_KINDS: Final = frozenset(map(int, RecordKind))


def corrupt_at(log: CommitLog, log_offset: int, reason: str) -> CorruptStoreError:
    """Return the error for damage at ``log_offset``, with the segment and the position in it."""
    segment = log.segment_of(log_offset)
    return CorruptStoreError(str(segment.file.path), log_offset - segment.start, reason)


def read_stamp(log: SegmentedLog, log_offset: int) -> Stamp | None:
    """Return the broker's part of a record, or ``None`` if that part is damaged."""
    segment = log.segment_of(log_offset)
    raw = segment.read(log_offset, min(log_offset + FIXED_BYTES, segment.end))
    if len(raw) < FIXED_BYTES:
        return None
    checksum = int.from_bytes(raw[STAMP_AT:STAMPED_BYTES_AT], "big")
    stamped = raw[STAMPED_BYTES_AT:PRODUCER_BYTES_AT]
    offset, queue_offset, time, origin, topic_id, queue_id, epoch, kind, count = _STAMP.unpack(stamped)
    if checksum != crc32c(stamped) or offset != log_offset or kind not in _KINDS:
        return None
    return Stamp(offset, queue_offset, time, origin, topic_id, queue_id, epoch, RecordKind(kind), count)


def read_checked(log: CommitLog, log_offset: int, confirmed: int) -> tuple[bytes, StoredRecord]:
    """Read the record at ``log_offset``, as bytes and decoded.

    Raise ``OffsetOutOfRangeError`` if no record below ``confirmed`` begins there, and
    ``CorruptStoreError`` if the record is damaged.
    """
    if not log.start <= log_offset <= confirmed - FIXED_BYTES or log_offset % 8:
        readable = f"the readable log is {log.start} … {confirmed}"
        raise OffsetOutOfRangeError(f"no record begins at log offset {log_offset}: {readable}")
    size = int.from_bytes(log.read(log_offset, log_offset + 4), "big")
    if log_offset + size > confirmed:
        raise corrupt_at(log, log_offset, f"a record of {size} bytes ends after the confirmed offset")
    raw = bytes(log.read(log_offset, log_offset + size))
    try:
        stored = decode_record(raw, limits=STORED_LIMITS)
    except RecordFormatError as error:
        raise corrupt_at(log, log_offset, str(error)) from error
    if stored.stamp is None or stored.stamp.commitlog_offset != log_offset:
        raise corrupt_at(log, log_offset, "the record belongs elsewhere")
    return raw, stored
