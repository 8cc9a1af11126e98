"""Change of the producer id and sequence of a record that has not been stored yet."""

from __future__ import annotations

import struct
from typing import Final

from litemq.format.crc import crc32c
from litemq.format.record import PRODUCER_BYTES_AT, PRODUCER_CRC_AT

__all__ = ["renumber"]

_NUMBER_AT: Final = 88
_CRC: Final = struct.Struct(">I")
_NUMBER: Final = struct.Struct(">QQ")  # producer_id, sequence


def renumber(record: bytes, producer_id: int, sequence: int) -> bytes:
    """Return a copy of ``record`` with another producer id and sequence, and the new checksum."""
    changed = bytearray(record)
    _NUMBER.pack_into(changed, _NUMBER_AT, producer_id, sequence)
    _CRC.pack_into(changed, PRODUCER_CRC_AT, crc32c(memoryview(changed)[PRODUCER_BYTES_AT:]))
    return bytes(changed)
