"""The record of ``tests/golden/record-v2.bin``: as values, and as bytes written by hand."""

from litemq.format.crc import crc32c
from litemq.types import BodyCodec, Durability, MessageType, Record, RecordKind, Stamp

__all__ = ["RECORD", "STAMP", "golden_bytes"]

RECORD = Record(
    topic="orders",
    body=b'{"id": 1}',
    message_id="0190-0001",
    tags=("paid",),
    keys=("o-1", "c-7"),
    properties={"region": "eu"},
    type=MessageType.ORDER,
    priority=200,
    reliability=Durability.REPLICAS,
    born_timestamp=1_700_000_000_123,
    delay_time=1_700_000_060_000,
    expire_at=1_700_000_120_000,
    producer_id=0x1122334455667788,
    sequence=42,
    transaction_id="tx-9",
    sharding_key="o-1",
    born_host="10.0.0.1:5000",
    codec=BodyCodec.ZSTD,
    encrypted=True,
)
STAMP = Stamp(
    commitlog_offset=4096,
    queue_offset=17,
    store_timestamp=1_700_000_000_456,
    origin=2048,
    topic_id=3,
    queue_id=2,
    epoch=5,
    kind=RecordKind.RETRY,
    consume_count=2,
)


def golden_bytes() -> bytes:
    """The record above, written by hand, field by field."""
    producer = b"".join(
        [
            # at 64: times
            (1_700_000_000_123).to_bytes(8, "big"),  # born_timestamp
            (1_700_000_060_000).to_bytes(8, "big"),  # delay_time
            (1_700_000_120_000).to_bytes(8, "big"),  # expire_at
            # at 88: who sent it
            bytes.fromhex("1122334455667788"),  # producer_id
            (42).to_bytes(8, "big"),  # sequence
            # at 104: attributes
            crc32c(b"paid").to_bytes(4, "big"),  # tag_hash: one tag, so its crc32c
            (0b1010).to_bytes(4, "big"),  # flags: codec 2 (zstd), encrypted
            bytes([4]),  # type: order
            bytes([200]),  # priority
            bytes([3]),  # reliability: replicas
            bytes([0]),
            # at 116: lengths
            (9).to_bytes(2, "big"),  # message_id
            (6).to_bytes(2, "big"),  # topic
            (4).to_bytes(2, "big"),  # transaction_id
            (3).to_bytes(2, "big"),  # sharding_key
            (13).to_bytes(2, "big"),  # born_host
            bytes(2),
            (6).to_bytes(4, "big"),  # tags: 2 + 4
            (10).to_bytes(4, "big"),  # keys: 2 + 3 + 2 + 3
            (12).to_bytes(4, "big"),  # properties: 2 + 6 + 2 + 2
            (9).to_bytes(4, "big"),  # body
            # at 144: the parts
            b"0190-0001",
            b"orders",
            b"tx-9",
            b"o-1",
            b"10.0.0.1:5000",
            b"\x00\x04paid",
            b"\x00\x03o-1" + b"\x00\x03c-7",
            b"\x00\x06region" + b"\x00\x02eu",
            b'{"id": 1}',
            # 144 + 9 + 6 + 4 + 3 + 13 + 6 + 10 + 12 + 9 = 216, a multiple of 8: no padding
        ]
    )
    broker = b"".join(
        [
            (4096).to_bytes(8, "big"),  # commitlog_offset
            (17).to_bytes(8, "big"),  # queue_offset
            (1_700_000_000_456).to_bytes(8, "big"),  # store_timestamp
            (2048).to_bytes(8, "big"),  # origin
            (3).to_bytes(4, "big"),  # topic_id
            (2).to_bytes(4, "big"),  # queue_id
            (5).to_bytes(4, "big"),  # epoch
            bytes([5]),  # kind: retry
            bytes([0]),
            (2).to_bytes(2, "big"),  # consume_count
        ]
    )
    return b"".join(
        [
            (216).to_bytes(4, "big"),  # size
            b"LMQ\x02",  # magic
            crc32c(producer).to_bytes(4, "big"),
            crc32c(broker).to_bytes(4, "big"),
            broker,
            producer,
        ]
    )
