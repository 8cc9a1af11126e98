"""The byte layout of a record, version 2, for ``record_encode.py`` and ``record_decode.py``.

All integers are big-endian, all strings UTF-8. The fields of fixed size come first, so that
``columns/record_columns.py`` can read thousands of records by column::

     at  bytes  field                                                                    written by
      0      4  size of the whole record, padding included: a multiple of 8              producer
      4      4  magic 0x4C4D5102: "LMQ", 2                                               producer
      8      4  crc32c over bytes 64 … size                                              producer
     12      4  crc32c over bytes 16 … 64                                                broker
     16      8  commitlog_offset: the record's position in the log                       broker
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

Tags and keys are strings one after another, each a u16 length and its bytes. Properties are pairs
of such strings; names are unique. Bytes 12 … 64 are zero until a broker stamps the record. The
producer's bytes never change afterwards, on any copy.
"""

from __future__ import annotations

import struct
from enum import Enum, StrEnum
from typing import Final

from litemq.errors import InvalidArgumentError

__all__ = [
    "BLANK_MAGIC",
    "CODEC_MASK",
    "DELAY_TIME_AT",
    "ENCRYPTED_FLAG",
    "FIXED_BYTES",
    "FIXED_FIELDS",
    "KNOWN_FLAGS",
    "MAGIC",
    "PADDING",
    "PRODUCER_BYTES_AT",
    "PRODUCER_CRC_AT",
    "SEVERAL_TAGS",
    "STAMPED_BYTES_AT",
    "STAMP_AT",
    "Buffer",
    "Problem",
    "Stage",
    "check_buffer",
]

Buffer = bytes | bytearray | memoryview

MAGIC: Final = 0x4C4D5102
BLANK_MAGIC: Final = 0x4C4D51FF
FIXED_BYTES: Final = 144
PRODUCER_BYTES_AT: Final = 64  # the producer's checksum covers everything from here on
PRODUCER_CRC_AT: Final = 8
STAMP_AT: Final = 12
DELAY_TIME_AT: Final = slice(72, 80)
STAMPED_BYTES_AT: Final = 16  # the broker's checksum covers from here to the producer's bytes

SEVERAL_TAGS: Final = 0xFFFFFFFF
KNOWN_FLAGS: Final = 0b1111
ENCRYPTED_FLAG: Final = 0b1000
CODEC_MASK: Final = 0b0111
PADDING: Final = tuple(bytes(n) for n in range(8))

FIXED_FIELDS: Final = struct.Struct(
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


def check_buffer(buffer: Buffer) -> None:
    """Raise unless ``buffer`` is contiguous bytes; other views would be sliced by items."""
    if isinstance(buffer, memoryview) and (buffer.itemsize != 1 or not buffer.c_contiguous or buffer.ndim != 1):
        raise InvalidArgumentError(
            "a memoryview must be contiguous bytes: cast it to 'B', and copy it if it has gaps",
        )
    if not isinstance(buffer, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"{type(buffer).__name__} is not a buffer: pass bytes, a bytearray or a memoryview")


class Stage(Enum):
    """The stage of a record: as the producer sent it, or as the broker stamped and stored it."""

    SENT = "sent"
    STORED = "stored"


class Problem(StrEnum):
    """The rule that bytes break, in ``RecordFormatError.problem``."""

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
