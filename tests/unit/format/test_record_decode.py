"""Decoding one record: every rule has its own problem, and limits are enforced."""

import struct
from collections.abc import Callable

import pytest

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import Problem, Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.types import Record
from support.golden_record import STAMP, golden_bytes
from support.records import with_right_crcs


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
def test_every_rule_has_its_own_problem(damaged: bytes, problem: Problem) -> None:
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


def test_stored_records_may_exceed_the_limit_for_sends() -> None:
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
    ],
)
def test_invalid_arguments_are_not_format_errors(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


def test_a_producer_may_not_write_the_brokers_fields() -> None:
    with pytest.raises(RecordFormatError, match="stamp"):
        decode_record(golden_bytes(), stage=Stage.SENT)
