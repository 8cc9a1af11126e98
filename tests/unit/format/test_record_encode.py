"""Encoding one record: templates, tag hashes, stamps and refused values."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from litemq.errors import InvalidArgumentError
from litemq.format.crc import crc32c
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate, encode_record, hash_tags, stamp_record
from litemq.types import Record, Stamp
from support.golden_record import RECORD, STAMP, golden_bytes
from support.records import RECORDS, STAMPS


def test_a_stamp_does_not_change_the_producers_bytes() -> None:
    sent = encode_record(RECORD)
    assert sent[12:64] == bytes(52)
    assert decode_record(sent, stage=Stage.SENT).stamp is None
    stored = bytearray(sent)
    stamp_record(stored, 0, STAMP)
    assert stored[:12] == sent[:12]
    assert stored[64:] == sent[64:]


@settings(max_examples=20)
@given(RECORDS, STAMPS)
def test_a_template_encodes_the_same_bytes_as_encode_record(record: Record, stamp: Stamp) -> None:
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
    """Return four bytes whose checksum is ``wanted``, by solving the linear CRC bit by bit."""
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


def test_a_template_with_more_properties_is_one_with_all_of_them() -> None:
    some, more = {"a": "b"}, {"c": "ü" * 10}
    derived = RecordTemplate("orders", tags=("t",), properties=some, priority=3, born_host="h").with_properties(more)
    whole = RecordTemplate("orders", tags=("t",), properties={**some, **more}, priority=3, born_host="h")
    for fields in ({}, {"message_id": "m", "keys": ("k", "l"), "sharding_key": "s"}):
        assert derived.encode(b"body", **fields) == whole.encode(b"body", **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="properties of"):
        derived.with_properties({"d": "x" * 32_760})


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
        ({"priority": 1.5}, "integer"),
        ({"born_timestamp": 1.5}, "integers"),
        ({"message_id": b"x"}, "must be a string"),
        ({"keys": (b"k",)}, "must be a string"),
        ({"properties": {"a": 2}}, "must be a string"),
        ({"body": memoryview(b"abcd").cast("I")}, "body must be bytes"),
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
def test_invalid_values_are_refused_with_the_rule(change: dict[str, object], says: str) -> None:
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


@pytest.mark.parametrize(
    "call",
    [
        lambda: stamp_record(bytearray(golden_bytes()), 200, STAMP),
        lambda: stamp_record(bytearray(golden_bytes()), -1, STAMP),
        lambda: RecordTemplate("t").encode(b"", codec=7),  # type: ignore[arg-type]
        lambda: RecordTemplate("t").encode(b"", message_type=9),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_are_not_format_errors(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
