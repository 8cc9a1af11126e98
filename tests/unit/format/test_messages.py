"""Decoding of pull answers: every field, and refusal of invalid bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.limits import RecordLimits
from litemq.format.messages import MessageFields, decode_messages
from litemq.format.record_encode import encode_record
from litemq.types import BodyCodec, Durability, MessageType, Record, RecordKind, Stamp
from support.records import RECORDS, STAMPS, with_right_crcs

FULL = Record(
    topic="orders",
    body=b"body",
    message_id="id-1",
    tags=("paid", "订单"),
    keys=("k1", "k2"),
    properties={"p": "q", "é": ""},
    type=MessageType.ORDER,
    priority=200,
    reliability=Durability.REPLICAS,
    born_timestamp=1,
    delay_time=2,
    expire_at=3,
    producer_id=2**64 - 1,
    sequence=2**63,
    transaction_id="t",
    sharding_key="s",
    born_host="h",
    codec=BodyCodec.ZSTD,
    encrypted=True,
)
STAMP = Stamp(10, 11, 12, 13, 14, 15, 16, RecordKind.RETRY, 17)


def test_every_field() -> None:
    (message,) = decode_messages(encode_record(FULL, STAMP))
    assert type(message) is MessageFields
    assert message == MessageFields(
        message_id="id-1",
        topic="orders",
        body=b"body",
        tags=("paid", "订单"),
        keys=("k1", "k2"),
        properties={"p": "q", "é": ""},
        sharding_key="s",
        born_timestamp=1,
        store_timestamp=12,
        queue_id=15,
        queue_offset=11,
        commitlog_offset=10,
        kind=RecordKind.RETRY,
        consume_count=17,
        codec=BodyCodec.ZSTD,
        encrypted=True,
        priority=200,
        reliability=Durability.REPLICAS,
        producer_id=2**64 - 1,
        sequence=2**63,
        delay_time=2,
        expire_at=3,
        transaction_id="t",
        born_host="h",
        type=MessageType.ORDER,
    )
    assert [type(value) for value in (message.kind, message.codec, message.reliability, message.type)] == [
        RecordKind,
        BodyCodec,
        Durability,
        MessageType,
    ]
    assert message.encrypted is True
    assert hash(message[:5]) == hash(tuple(message)[:5])


@given(st.lists(st.tuples(RECORDS, STAMPS), max_size=6))
def test_messages_equal_the_stored_records(batch: list[tuple[Record, Stamp]]) -> None:
    whole = b"".join(encode_record(record, stamp) for record, stamp in batch)
    messages = decode_messages(whole)
    assert len(messages) == len(batch)
    for message, (record, stamp) in zip(messages, batch, strict=True):
        for name, value in message._asdict().items():
            assert value == getattr(stamp if name in Stamp._fields else record, name), name


def test_messages_without_properties_share_an_immutable_empty_mapping() -> None:
    one, other = decode_messages(encode_record(Record("orders"), STAMP) * 2)
    assert one.properties is other.properties
    assert not isinstance(one.properties, dict)
    assert one.properties == {}


def test_more_properties_than_are_compared_quickly() -> None:
    properties = {f"{number:03d}": str(number) for number in range(40)}
    record = encode_record(Record("orders", properties=properties), STAMP)
    plain = encode_record(Record("orders"), STAMP)
    assert [dict(message.properties) for message in decode_messages(plain + record + plain)] == [{}, properties, {}]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind: type[bytes | bytearray | memoryview]) -> None:
    record = encode_record(FULL, STAMP)
    messages = decode_messages(kind(record * 2))
    assert messages == decode_messages(record) * 2
    assert type(messages[0].body) is bytes
    assert decode_messages(kind(b"")) == []


def test_a_buffer_that_is_not_contiguous_bytes_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        decode_messages(memoryview(encode_record(FULL, STAMP))[::2])


@pytest.mark.parametrize("at", [0, 4, 8, 12, 16, 61, 100, 104, 150, -1])
def test_a_damaged_record_is_named(at: int) -> None:
    record = encode_record(FULL, STAMP)
    damaged = bytearray(record)
    damaged[at] ^= 1
    with pytest.raises(RecordFormatError) as caught:
        decode_messages(record + bytes(damaged) + record)
    assert caught.value.position == len(record)


def test_rules_are_checked_after_valid_checksums() -> None:
    record = bytearray(encode_record(FULL, STAMP))
    record[115] = 1
    with pytest.raises(RecordFormatError, match="field"):
        decode_messages(with_right_crcs(record, stamped=True))


@pytest.mark.parametrize("cut", [1, 8, 143, 144, 150])
def test_a_truncated_record_is_refused(cut: int) -> None:
    record = encode_record(FULL, STAMP)
    with pytest.raises(RecordFormatError, match="truncated"):
        decode_messages(record + record[:cut])


def test_a_limit_for_the_size() -> None:
    record = encode_record(Record("orders", bytes(1024)), STAMP)
    assert decode_messages(record)
    with pytest.raises(RecordFormatError, match="size"):
        decode_messages(record, limits=RecordLimits(1024))
