"""One record of version 2: its golden bytes, what is refused, and every message round-trips."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.crc import crc32c
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import Problem, RecordTemplate, Stage, decode_record, encode_record, hash_tags, stamp_record
from litemq.types import BodyCodec, Durability, MessageType, Record, RecordKind, Stamp
from support.records import RECORDS, STAMPS, with_right_crcs

GOLDEN = Path(__file__).parents[2] / "golden" / "record-v2.bin"

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


def test_golden_bytes() -> None:
    assert encode_record(RECORD, STAMP) == golden_bytes()
    assert GOLDEN.read_bytes() == golden_bytes()


def test_golden_bytes_are_read_back() -> None:
    stored = decode_record(GOLDEN.read_bytes())
    assert stored.record == RECORD
    assert stored.stamp == STAMP
    assert (stored.size, stored.version, stored.facts) == (216, 2, None)


def test_what_a_producer_sends_has_no_stamp_and_keeps_its_bytes() -> None:
    sent = encode_record(RECORD)
    assert sent[12:64] == bytes(52)
    assert decode_record(sent, stage=Stage.SENT).stamp is None
    stored = bytearray(sent)
    stamp_record(stored, 0, STAMP)
    assert stored[:12] == sent[:12]
    assert stored[64:] == sent[64:]


@given(RECORDS, STAMPS)
def test_any_message_round_trips(record: Record, stamp: Stamp) -> None:
    encoded = encode_record(record, stamp)
    assert len(encoded) % 8 == 0
    stored = decode_record(b"before" + encoded + b"behind", 6)
    assert stored.record == record
    assert stored.stamp == stamp
    assert encode_record(stored.record, stored.stamp) == encoded


@settings(max_examples=20)
@given(RECORDS, STAMPS)
def test_a_template_writes_what_a_single_encoding_does(record: Record, stamp: Stamp) -> None:
    del stamp
    template = RecordTemplate(
        record.topic,
        tags=record.tags,
        properties=record.properties,
        priority=record.priority,
        reliability=record.reliability,
        producer_id=record.producer_id,
        born_host=record.born_host,
    )
    plain = Record(
        record.topic,
        record.body,
        tags=record.tags,
        properties=record.properties,
        priority=record.priority,
        reliability=record.reliability,
        producer_id=record.producer_id,
        born_host=record.born_host,
        sequence=9,
    )
    assert template.encode(record.body, sequence=9) == encode_record(plain)


def test_tag_hashes() -> None:
    assert hash_tags([]) == 0
    assert hash_tags([b"a"]) == crc32c(b"a")
    assert hash_tags([b"a", b"b"]) == 0xFFFFFFFF
    # An empty tag has the checksum 0, and this one 0xFFFFFFFF, which mean none and several.
    assert hash_tags([b""]) == 1
    assert crc32c(b"") == 0
    preimage = _bytes_with_crc(0xFFFFFFFF)
    assert crc32c(preimage) == 0xFFFFFFFF
    assert hash_tags([preimage]) == 1


def _bytes_with_crc(wanted: int) -> bytes:
    """Four bytes whose checksum is ``wanted``: CRCs are linear, so solve for them bit by bit."""
    zero = crc32c(bytes(4))
    basis: list[tuple[int, int]] = []
    for bit in range(32):
        value, source = crc32c((1 << bit).to_bytes(4, "big")) ^ zero, 1 << bit
        for other, origin in basis:
            if value ^ other < value:
                value, source = value ^ other, source ^ origin
        basis.append((value, source))
        basis.sort(reverse=True)
    left, found = wanted ^ zero, 0
    for value, source in basis:
        if left ^ value < left:
            left, found = left ^ value, found ^ source
    return found.to_bytes(4, "big")


# What is refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"topic": ""}, "needs a topic"),
        ({"topic": "t" * 135}, "at most 134"),
        ({"message_id": "m" * 65}, "at most 64"),
        ({"message_id": "订" * 22}, "at most 64"),
        ({"tags": ("t",) * 65}, "65 tags"),
        ({"tags": ("t" * 256,)}, "at most 255"),
        ({"tags": "paid"}, "one string"),
        ({"keys": ("k",) * 65}, "65 keys"),
        ({"keys": ("k" * 256,)}, "at most 255"),
        ({"keys": "k"}, "one string"),
        ({"properties": {"a": "x" * 32766}}, "at most 32768"),
        ({"priority": 256}, "0 … 255"),
        ({"priority": 1.5}, "whole number"),
        ({"born_timestamp": 1.5}, "whole numbers"),
        ({"message_id": b"x"}, "no string"),
        ({"keys": (b"k",)}, "no string"),
        ({"properties": {"a": 2}}, "no string"),
        ({"body": memoryview(b"abcd").cast("I")}, "a body is bytes"),
        ({"codec": 7}, "BodyCodec"),
        ({"type": 9}, "MessageType"),
        ({"sequence": 2**64}, "sequence"),
        ({"producer_id": -1}, "producer_id"),
        ({"born_timestamp": -1}, "born_timestamp"),
        ({"delay_time": 253_402_300_800_000}, "delay_time"),
        ({"body": bytes(4 * 1024 * 1024)}, "max_record_bytes"),
        ({"sharding_key": "\ud800"}, "UTF-8"),
        ({"born_host": "h" * 65536}, "at most 65535"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_rule(change: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        encode_record(RECORD._replace(**change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"commitlog_offset": -1},
        {"queue_offset": 2**63},
        {"store_timestamp": -1},
        {"origin": -2},
        {"topic_id": 2**32},
        {"consume_count": 2**16},
    ],
)
def test_a_stamp_out_of_range_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="choose"):
        encode_record(RECORD, STAMP._replace(**change))  # type: ignore[arg-type]


def _put(at: int, value: bytes) -> bytes:
    damaged = bytearray(golden_bytes())
    damaged[at : at + len(value)] = value
    return with_right_crcs(damaged, stamped=True)


BROKEN = [
    (golden_bytes()[:143], Problem.TRUNCATED),
    (golden_bytes()[:215], Problem.TRUNCATED),
    (b"", Problem.TRUNCATED),
    (_put(4, b"LMQ\x01"), Problem.MAGIC),
    (_put(0, struct.pack(">I", 220)) + bytes(8), Problem.SIZE),
    (_put(0, struct.pack(">I", 136)), Problem.SIZE),
    (_put(0, struct.pack(">I", 8 * 1024 * 1024)), Problem.SIZE),
    (_put(0, struct.pack(">I", 208)), Problem.LENGTHS),
    (_put(140, struct.pack(">I", 0xFFFFFFFF)), Problem.LENGTHS),
    (golden_bytes()[:-1] + b"!", Problem.PRODUCER_CRC),
    (golden_bytes()[:63] + b"\x09" + golden_bytes()[64:], Problem.BROKER_CRC),
    (_put(60, b"\x08"), Problem.STAMP),
    (_put(61, b"\x01"), Problem.STAMP),
    (_put(16, b"\xff"), Problem.STAMP),
    (_put(24, b"\x80"), Problem.STAMP),
    (_put(32, b"\x01"), Problem.STAMP),
    (_put(40, struct.pack(">q", -2)), Problem.STAMP),
    (_put(64, b"\xff"), Problem.FIELD),
    (_put(72, struct.pack(">q", 253_402_300_800_000)), Problem.FIELD),
    (_put(80, b"\x01"), Problem.FIELD),
    (_put(111, b"\x03"), Problem.FIELD),
    (_put(111, b"\x04"), Problem.FIELD),
    (_put(111, b"\x10"), Problem.FIELD),
    (_put(108, b"\x01"), Problem.FIELD),
    (_put(112, b"\x05"), Problem.FIELD),
    (_put(114, b"\x04"), Problem.FIELD),
    (_put(115, b"\x01"), Problem.FIELD),
    (_put(127, b"\x01"), Problem.FIELD),
    (_put(144, b"\xff"), Problem.UTF8),
    (_put(153, b"\xc3("), Problem.UTF8),
    (_put(181, b"\xff"), Problem.UTF8),
    (_put(179, b"\x00\x05"), Problem.LIST),
    (_put(104, b"\x00"), Problem.TAG_HASH),
]


@pytest.mark.parametrize(("damaged", "problem"), BROKEN)
def test_every_rule_has_its_own_word(damaged: bytes, problem: Problem) -> None:
    with pytest.raises(RecordFormatError) as caught:
        decode_record(damaged)
    assert caught.value.problem == problem.value
    assert caught.value.position == 0


def test_padding_must_be_zero() -> None:
    padded = bytearray(encode_record(Record("orders", b"x"), STAMP))
    padded[-1] = 1
    with pytest.raises(RecordFormatError) as caught:
        decode_record(with_right_crcs(padded, stamped=True))
    assert caught.value.problem == Problem.PADDING.value


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (b"\x00\x01a\x00\x01b\x00\x01a\x00\x01c", Problem.REPEATED_PROPERTY),
        (b"\x00\x01a\x00\x01b\x00\x01c", Problem.LIST),
        (b"\x00\x01a\x00\x08bcd", Problem.LIST),
        (b"\x00\x01a\x00\x01b\x00", Problem.LIST),
    ],
)
def test_properties_pair_up_and_have_one_name_once(properties: bytes, problem: Problem) -> None:
    plain = bytearray(encode_record(Record("orders", b""), STAMP)[:150])
    plain += properties
    plain[136:140] = len(properties).to_bytes(4, "big")
    plain += bytes(-len(plain) % 8)
    plain[0:4] = len(plain).to_bytes(4, "big")
    with pytest.raises(RecordFormatError) as caught:
        decode_record(with_right_crcs(plain, stamped=True))
    assert caught.value.problem == problem.value


def test_limits_bound_what_is_read() -> None:
    large = encode_record(Record("orders", bytes(2000)), STAMP)
    with pytest.raises(RecordFormatError, match="size"):
        decode_record(large, limits=RecordLimits(1024))
    assert decode_record(large, limits=RecordLimits(2400)).size == len(large)


def test_what_is_stored_may_exceed_any_limit_for_what_is_sent() -> None:
    assert STORED_LIMITS.max_record_bytes == 64 * 1024 * 1024 + 64 * 1024
    with pytest.raises(InvalidArgumentError, match="max_record_bytes"):
        RecordLimits(1 << 40)


@pytest.mark.parametrize(
    "call",
    [
        lambda: decode_record(golden_bytes(), -1),
        lambda: decode_record(memoryview(golden_bytes()).cast("I")),
        lambda: decode_record(memoryview(golden_bytes() * 2)[::2]),
        lambda: decode_record("text"),  # type: ignore[arg-type]
        lambda: decode_record(golden_bytes(), stage="stored"),  # type: ignore[arg-type]
        lambda: stamp_record(bytearray(golden_bytes()), 200, STAMP),
        lambda: stamp_record(bytearray(golden_bytes()), -1, STAMP),
        lambda: RecordTemplate("t").encode(b"", codec=7),  # type: ignore[arg-type]
        lambda: RecordTemplate("t").encode(b"", message_type=9),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_told_apart_from_wrong_bytes(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


def test_a_producer_may_not_write_the_brokers_fields() -> None:
    with pytest.raises(RecordFormatError, match="stamp"):
        decode_record(golden_bytes(), stage=Stage.SENT)


def test_a_template_with_more_properties_is_one_with_all_of_them() -> None:
    some, more = {"a": "b"}, {"c": "ü" * 10}
    derived = RecordTemplate("orders", tags=("t",), properties=some, priority=3, born_host="h").also(more)
    whole = RecordTemplate("orders", tags=("t",), properties={**some, **more}, priority=3, born_host="h")
    for fields in ({}, {"message_id": "m", "keys": ("k", "l"), "sharding_key": "s"}):
        assert derived.encode(b"body", **fields) == whole.encode(b"body", **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="properties of"):
        derived.also({"d": "x" * 32_760})
