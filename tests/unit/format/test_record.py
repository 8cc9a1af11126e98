"""One record of version 2: golden bytes and round trips."""

from pathlib import Path

from hypothesis import given

from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.types import Record, Stamp
from support.golden_record import RECORD, STAMP, golden_bytes
from support.records import RECORDS, STAMPS

GOLDEN = Path(__file__).parents[2] / "golden" / "record-v2.bin"


def test_golden_bytes() -> None:
    assert encode_record(RECORD, STAMP) == golden_bytes()
    assert GOLDEN.read_bytes() == golden_bytes()


def test_golden_bytes_are_read_back() -> None:
    stored = decode_record(GOLDEN.read_bytes())
    assert stored.record == RECORD
    assert stored.stamp == STAMP
    assert (stored.size, stored.version, stored.facts) == (216, 2, None)


@given(RECORDS, STAMPS)
def test_any_message_round_trips(record: Record, stamp: Stamp) -> None:
    encoded = encode_record(record, stamp)
    assert len(encoded) % 8 == 0
    stored = decode_record(b"before" + encoded + b"behind", 6)
    assert stored.record == record
    assert stored.stamp == stamp
    assert encode_record(stored.record, stored.stamp) == encoded
