"""One record of version 1: the original layout, byte for byte."""

from pathlib import Path

import pytest
from hypothesis import given

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.limits import RecordLimits
from litemq.format.v1.record import decode_record_v1, encode_record_v1
from litemq.types import BodyCodec, ConsumerInfo, Durability, MessageStatus, MessageType, Record, RecordKind, Stamp
from support.records import FACTS, RECORDS, STAMPS

GOLDEN = Path(__file__).parents[3] / "golden" / "record-v1.bin"

RECORD = Record(
    topic="test_topic",
    body=b"Hello LiteMQ! Message #1",
    message_id="1766547877259022000-0",
    tags=("a", "bc"),
    keys=("k1",),
    properties={"region": "eu"},
    type=MessageType.TRANSACTION,
    priority=7,
    reliability=Durability.MEMORY,
    born_timestamp=1_766_547_877_259,
    delay_time=1_766_547_900_000,
    transaction_id="tx-1",
    sharding_key="shard",
    born_host="10.0.0.1",
)
STAMP = Stamp(
    commitlog_offset=8192,
    queue_offset=11,
    store_timestamp=1_766_547_877_300,
    queue_id=3,
    kind=RecordKind.HALF,
    consume_count=70_000,
)
FACTS_V1 = ConsumerInfo(
    MessageStatus.PREPARED, broadcast=True, store_host="10.0.0.2:10911", consume_start_time=5, consume_end_time=6
)


def golden_bytes() -> bytes:
    """Return the record above, encoded by hand."""
    data = b"".join(
        [
            b"LMQ\x01",  # magic
            b"\x00\x15" + b"1766547877259022000-0",  # message_id
            b"\x00\x0a" + b"test_topic",  # topic
            b"\x00\x00\x00\x02" + b"\x00\x01a" + b"\x00\x02bc",  # tags
            b"\x00\x00\x00\x01" + b"\x00\x02k1",  # keys
            b"\x00\x00\x00\x01" + b"\x00\x06region" + b"\x00\x02eu",  # properties
            b"\x00\x00\x00\x18" + b"Hello LiteMQ! Message #1",  # body
            b"\x02",  # type: transaction
            b"\x07",  # priority
            b"\x01",  # reliability
            (1_766_547_900_000).to_bytes(8, "big"),  # delay_time
            b"\x00\x04" + b"tx-1",  # transaction_id
            b"\x01",  # status: prepared
            b"\x00\x05" + b"shard",  # sharding_key
            b"\x01",  # broadcast
            (1_766_547_877_259).to_bytes(8, "big"),  # born_timestamp
            b"\x00\x08" + b"10.0.0.1",  # born_host
            b"\x00\x0e" + b"10.0.0.2:10911",  # store_host
            (3).to_bytes(4, "big"),  # queue_id
            (11).to_bytes(8, "big"),  # queue_offset
            (8192).to_bytes(8, "big"),  # commitlog_offset
            (218).to_bytes(4, "big"),  # store_size, the leading length included
            (1_766_547_877_300).to_bytes(8, "big"),  # store_timestamp
            (5).to_bytes(8, "big"),  # consume_start_time
            (6).to_bytes(8, "big"),  # consume_end_time
            (70_000).to_bytes(4, "big"),  # consume_count
        ]
    )
    return len(data).to_bytes(4, "big") + data


def test_golden_bytes() -> None:
    assert encode_record_v1(RECORD, STAMP, FACTS_V1) == golden_bytes()
    assert GOLDEN.read_bytes() == golden_bytes()


def test_golden_bytes_are_read_back() -> None:
    stored = decode_record_v1(GOLDEN.read_bytes())
    assert stored.record == RECORD
    assert stored.stamp == STAMP
    assert stored.facts == FACTS_V1._replace(store_size=218)
    assert (stored.size, stored.version) == (218, 1)


@given(RECORDS, STAMPS, FACTS)
def test_every_field_that_the_layout_has_round_trips(record: Record, stamp: Stamp, facts: ConsumerInfo) -> None:
    plain = record._replace(codec=BodyCodec.NONE, encrypted=False)
    encoded = encode_record_v1(plain, stamp, facts)
    stored = decode_record_v1(b"before" + encoded + b"behind", 6)
    assert stored.record == plain._replace(expire_at=0, producer_id=0, sequence=0)
    assert stored.stamp is not None
    assert stored.facts == facts._replace(store_size=len(encoded))
    assert stored.stamp == stamp._replace(origin=-1, topic_id=0, epoch=0, kind=stored.stamp.kind)
    assert encode_record_v1(stored.record, stored.stamp, stored.facts) == encoded


@pytest.mark.parametrize(
    ("status", "message_type", "kind"),
    [
        (MessageStatus.NORMAL, MessageType.NORMAL, RecordKind.MESSAGE),
        (MessageStatus.NORMAL, MessageType.DELAY, RecordKind.PENDING),
        (MessageStatus.PREPARED, MessageType.TRANSACTION, RecordKind.HALF),
        (MessageStatus.COMMITTED, MessageType.TRANSACTION, RecordKind.COMMITTED),
        (MessageStatus.ROLLBACK, MessageType.TRANSACTION, RecordKind.HALF),
    ],
)
def test_the_kind_follows_from_status_and_type(
    status: MessageStatus, message_type: MessageType, kind: RecordKind
) -> None:
    stored = decode_record_v1(encode_record_v1(Record("t", type=message_type), Stamp(), ConsumerInfo(status)))
    assert stored.stamp is not None
    assert stored.stamp.kind is kind


def test_a_broadcast_message_has_the_flag_by_default() -> None:
    stored = decode_record_v1(encode_record_v1(Record("t", type=MessageType.BROADCAST), Stamp()))
    assert stored.facts is not None
    assert stored.facts.broadcast


@pytest.mark.parametrize(
    "record",
    [
        Record("t", codec=BodyCodec.ZSTD),
        Record("t", encrypted=True),
        Record("t" * 70_000),
        Record("\ud800"),
        Record("t", priority=300),
        Record("t", bytes(5 << 20)),
    ],
)
def test_records_that_do_not_fit_the_layout_are_refused(record: Record) -> None:
    with pytest.raises(InvalidArgumentError, match="version 1"):
        encode_record_v1(record, Stamp())


@pytest.mark.parametrize(
    ("record", "stamp", "facts"),
    [
        (Record("t", type=9), Stamp(), ConsumerInfo()),  # type: ignore[arg-type]
        (Record("t", tags="abc"), Stamp(), ConsumerInfo()),  # type: ignore[arg-type]
        (Record("t", born_timestamp=-1), Stamp(), ConsumerInfo()),
        (Record("t"), Stamp(queue_offset=-1), ConsumerInfo()),
        (Record("t"), Stamp(), ConsumerInfo(status=9)),  # type: ignore[arg-type]
    ],
)
def test_every_encoded_record_can_be_decoded(record: Record, stamp: Stamp, facts: ConsumerInfo) -> None:
    with pytest.raises(InvalidArgumentError):
        encode_record_v1(record, stamp, facts)


def _put(at: int, value: bytes) -> bytes:
    damaged = bytearray(golden_bytes())
    damaged[at : at + len(value)] = value
    return bytes(damaged)


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (golden_bytes()[:100], "truncated"),
        (golden_bytes()[:-1], "truncated"),
        (_put(4, b"LMQ\x02"), "magic"),
        (_put(0, b"\x00\x00\x00\x10"), "size"),
        (_put(0, b"\x7f\xff\xff\xff"), "size"),
        (_put(3, b"\xd5"), "lengths"),
        (golden_bytes()[:3] + b"\xd7" + golden_bytes()[4:] + b"x", "lengths"),
        (_put(8, b"\xff\xff"), "lengths"),
        (_put(43, b"\xff\xff\xff\xff"), "lengths"),
        (_put(54, b"\x00\x00\x00\xff"), "lengths"),
        (_put(62, b"\xff\xff\xff\xff"), "lengths"),
        (_put(10, b"\xff"), "utf8"),
        (_put(106, b"\x05"), "field"),
        (_put(108, b"\x04"), "field"),
        (_put(109, b"\xff"), "field"),
        (_put(123, b"\x04"), "field"),
        (_put(131, b"\x02"), "field"),
        (_put(170, b"\xff"), "field"),
    ],
)
def test_invalid_bytes_are_refused(damaged: bytes, problem: str) -> None:
    with pytest.raises(RecordFormatError) as caught:
        decode_record_v1(damaged)
    assert caught.value.problem == problem


def test_a_property_name_must_be_unique() -> None:
    two = encode_record_v1(Record("t", properties={"a": "1", "b": "2"}), Stamp())
    with pytest.raises(RecordFormatError, match="repeated-property"):
        decode_record_v1(two.replace(b"\x00\x01b", b"\x00\x01a"))


def test_limits_bound_what_is_read() -> None:
    large = encode_record_v1(Record("t", bytes(2000)), Stamp())
    with pytest.raises(RecordFormatError, match="size"):
        decode_record_v1(large, limits=RecordLimits(1024))
