"""Records for tests: Hypothesis strategies, and damage to bytes by accidents and attackers."""

from __future__ import annotations

from hypothesis import strategies as st

from litemq.format.crc import crc32c
from litemq.format.record import PRODUCER_BYTES_AT, STAMP_AT, STAMPED_BYTES_AT
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
)

TIMES = st.one_of(st.just(0), st.integers(0, LATEST_TIME_MS), st.just(LATEST_TIME_MS))
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
# Surrogates cannot be encoded; everything else can, and non-ASCII must be common enough to be met.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["a", "订单", "é", "\0", ""])
TOPICS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.just("orders")

RECORDS = st.builds(
    Record,
    topic=TOPICS,
    body=st.binary(max_size=80),
    message_id=st.text(st.characters(exclude_categories=["Cs"]), max_size=16),
    tags=st.lists(TEXT, max_size=3).map(tuple),
    keys=st.lists(TEXT, max_size=3).map(tuple),
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
    type=st.sampled_from(MessageType),
    priority=st.integers(0, 255),
    reliability=st.sampled_from(Durability),
    born_timestamp=TIMES,
    delay_time=TIMES,
    expire_at=TIMES,
    producer_id=U64,
    sequence=U64,
    transaction_id=TEXT,
    sharding_key=TEXT,
    born_host=TEXT,
    codec=st.sampled_from(BodyCodec),
    encrypted=st.booleans(),
)
STAMPS = st.builds(
    Stamp,
    commitlog_offset=OFFSETS,
    queue_offset=OFFSETS,
    store_timestamp=TIMES,
    origin=st.one_of(st.just(-1), OFFSETS),
    topic_id=U32,
    queue_id=U32,
    epoch=U32,
    kind=st.sampled_from(RecordKind),
    consume_count=st.integers(0, 2**16 - 1),
)
FACTS = st.builds(
    ConsumerInfo,
    status=st.sampled_from(MessageStatus),
    broadcast=st.booleans(),
    store_host=TEXT,
    store_size=st.just(0),
    consume_start_time=TIMES,
    consume_end_time=TIMES,
)


def with_right_crcs(record: bytes | bytearray, *, stamped: bool) -> bytes:
    """Return the bytes with both checksums corrected, so that only other checks can fail."""
    fixed = bytearray(record)
    fixed[8:12] = crc32c(bytes(fixed[PRODUCER_BYTES_AT:])).to_bytes(4, "big")
    if stamped:
        fixed[STAMP_AT:STAMPED_BYTES_AT] = crc32c(bytes(fixed[STAMPED_BYTES_AT:PRODUCER_BYTES_AT])).to_bytes(4, "big")
    return bytes(fixed)
