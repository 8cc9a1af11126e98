"""Rows have every field of their records, so that a record can be rebuilt bit for bit."""

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from litemq.errors import BodyTooLargeError, InvalidArgumentError, RecordFormatError
from litemq.format.arrow.batches import SCHEMA, decode_batches, to_record_batch
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.compression import compress
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate, encode_record, stamp_record
from litemq.format.v1.record import decode_record_v1, encode_record_v1
from litemq.types import (
    BodyCodec,
    ConsumerInfo,
    Durability,
    MessageStatus,
    MessageType,
    Record,
    RecordKind,
    Stamp,
    StoredRecord,
)
from support.records import FACTS, RECORDS, STAMPS

BATCHES = st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=6)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _ms(moment: dt.datetime | None) -> int:
    return 0 if moment is None else (moment - EPOCH) // dt.timedelta(milliseconds=1)


def _rebuild(row: dict[str, Any]) -> StoredRecord:
    """Rebuild the record of a row."""
    record = Record(
        row["topic"],
        row["body"],
        row["message_id"],
        tuple(row["tags"]),
        tuple(row["keys"]),
        dict(row["properties"]),
        MessageType(row["type"]),
        row["priority"],
        Durability(row["reliability"]),
        _ms(row["born_timestamp"]),
        _ms(row["delay_time"]),
        _ms(row["expire_at"]),
        row["producer_id"] % 2**64,
        row["sequence"] % 2**64,
        row["transaction_id"],
        row["sharding_key"],
        row["born_host"],
        BodyCodec(row["flags"] & 7),
        bool(row["flags"] & 8),
    )
    names = (
        "commitlog_offset",
        "queue_offset",
        "store_timestamp",
        "origin",
        "topic_id",
        "queue_id",
        "epoch",
        "kind",
        "consume_count",
    )
    values = {name: row[name] for name in names} | {
        "store_timestamp": _ms(row["store_timestamp"]),
        "kind": RecordKind(row["kind"]),
    }
    facts = None
    if row["record_version"] == 1:
        times = (_ms(row["consume_start_time"]), _ms(row["consume_end_time"]))
        facts = ConsumerInfo(MessageStatus(row["status"]), row["broadcast"], row["store_host"], row["size"], *times)
    return StoredRecord(record, Stamp(**values), row["size"], row["record_version"], facts)


def _one_template(count: int = 20) -> list[tuple[Record, Stamp]]:
    return [
        (
            Record("orders", bytes(5), f"{n:04d}", ("a",), (f"k{n:03d}",), {"p": "q", "r": ""}, sequence=n),
            Stamp(n, n, n),
        )
        for n in range(count)
    ]


@given(BATCHES)
@example(_one_template())
@example([(Record("t"), Stamp())] * 3)
@example([(Record("t", tags=("a", "b")), Stamp())] * 3)
def test_version_2_is_rebuilt_from_its_rows(batch: list[tuple[Record, Stamp]]) -> None:
    whole = b"".join(encode_record(record, stamp) for record, stamp in batch)
    (rows,) = decode_batches(whole)
    rows.validate(full=True)
    assert rows.schema == SCHEMA
    starts = scan(whole).starts.tolist()
    assert [_rebuild(row) for row in rows.to_pylist()] == [decode_record(whole, start) for start in starts]


@given(st.lists(st.tuples(RECORDS, STAMPS, FACTS), min_size=1, max_size=8))
def test_version_1_is_rebuilt_from_its_rows(batch: list[tuple[Record, Stamp, ConsumerInfo]]) -> None:
    whole = b"".join(encode_record_v1(r._replace(codec=BodyCodec.NONE, encrypted=False), s, f) for r, s, f in batch)
    (rows,) = decode_batches(whole, version=1)
    rows.validate(full=True)
    assert rows.schema == SCHEMA
    starts = scan(whole, version=1).starts.tolist()
    assert [_rebuild(row) for row in rows.to_pylist()] == [decode_record_v1(whole, start) for start in starts]


def test_the_schema_is_accepted_by_spark() -> None:
    allowed = {
        pa.string(),
        pa.binary(),
        pa.int32(),
        pa.int64(),
        pa.bool_(),
        pa.timestamp("us", tz="UTC"),
        pa.map_(pa.string(), pa.string()),
    }
    for field in SCHEMA:
        assert field.nullable, field
        assert field.type in allowed or field.type == pa.list_(pa.field("element", pa.string())), field


def test_only_named_columns_are_converted_in_that_order() -> None:
    whole = encode_record(Record("orders", b"body", keys=("k",)), Stamp(queue_offset=9))
    (rows,) = decode_batches(whole, ["queue_offset", "topic"])
    assert rows.to_pylist() == [{"queue_offset": 9, "topic": "orders"}]
    with pytest.raises(InvalidArgumentError, match="no column 'bodies'"):
        next(decode_batches(whole, ["bodies"]))
    wrong: list[Sequence[str]] = [[], "body"]
    for names in wrong:
        with pytest.raises(InvalidArgumentError, match="at least one column"):
            next(decode_batches(b"", names))


def test_many_batches() -> None:
    template = RecordTemplate("orders")
    log = bytearray()
    for number in range(20_000):
        at = len(log)
        log += template.encode(number.to_bytes(4, "big"), keys=(str(number),))
        stamp_record(log, at, Stamp(at, number))
    batches = list(decode_batches(bytes(log)))
    assert len(batches) > 1
    bodies = pa.Table.from_batches(batches)["body"].to_pylist()
    assert bodies == [number.to_bytes(4, "big") for number in range(20_000)]


def test_bodies_are_decompressed_on_request() -> None:
    plain = b"plain " * 50
    records = [Record("t", compress(plain, codec), codec=codec) for codec in BodyCodec] + [
        Record("t", b"secret", codec=BodyCodec.LZ4, encrypted=True)
    ]
    whole = b"".join(encode_record(record, Stamp()) for record in records)
    (stored,) = decode_batches(whole, ["body", "flags"])
    assert stored["body"].to_pylist() == [record.body for record in records]
    (rows,) = decode_batches(whole, ["body", "flags"], decompress_bodies=True)
    assert rows["body"].to_pylist() == [plain, plain, plain, b"secret"]
    assert rows["flags"].to_pylist() == stored["flags"].to_pylist()


def test_decompressing_plain_bodies_changes_nothing() -> None:
    whole = encode_record(Record("t", b"x"), Stamp())
    (rows,) = decode_batches(whole, ["body"], decompress_bodies=True)
    assert rows["body"].to_pylist() == [b"x"]


def test_the_error_has_the_position_of_the_damage() -> None:
    record = encode_record(Record("orders", b"x"), Stamp())
    damaged = bytearray(record * 3)
    damaged[2 * len(record) + 100] ^= 1
    with pytest.raises(RecordFormatError) as caught:
        list(decode_batches(bytes(damaged)))
    assert caught.value.position == 2 * len(record)
    assert len(list(decode_batches(bytes(damaged), verify_crc=False))) == 1
    with pytest.raises(RecordFormatError, match="truncated"):
        list(decode_batches(record + record[:-8]))
    with pytest.raises(RecordFormatError, match="magic"):
        list(decode_batches(record + b"x" * 200))
    old = encode_record_v1(Record("orders"), Stamp())
    with pytest.raises(RecordFormatError, match="field"):
        list(decode_batches(old[:34] + b"\xff" + old[35:], version=1))


@pytest.mark.parametrize("size", [40, 70])
def test_the_error_has_the_position_of_every_flipped_bit(size: int) -> None:
    """A size of zero or a blank magic is not taken for the end of the log."""
    record = encode_record(Record("orders", bytes(size), "id", ("t",), ("k",), {"p": "q"}), Stamp(8, 1, 2))
    for target in (1, 2):
        for bit in range(len(record) * 8):
            damaged = bytearray(record * 3)
            damaged[target * len(record) + bit // 8] ^= 1 << bit % 8
            with pytest.raises(RecordFormatError) as caught:
                list(decode_batches(damaged))
            assert caught.value.position == target * len(record)


def test_a_bomb_of_many_bodies_comes_in_many_batches() -> None:
    body = compress(bytes(8 << 20), BodyCodec.ZSTD)
    log = encode_record(Record("t", body, codec=BodyCodec.ZSTD), Stamp()) * 40
    sizes = [
        sum(map(len, batch["body"].to_pylist())) for batch in decode_batches(log, ["body"], decompress_bodies=True)
    ]
    assert sum(sizes) == 40 * (8 << 20)
    assert max(sizes) <= 72 << 20
    with pytest.raises(BodyTooLargeError):
        list(decode_batches(log, ["body"], decompress_bodies=True, max_body_bytes=1 << 20))


def test_the_end_of_the_log_is_not_damage() -> None:
    record = encode_record(Record("orders", b"x"), Stamp())
    assert [batch.num_rows for batch in decode_batches(record + bytes(4096))] == [1]


def test_no_records_no_batches() -> None:
    assert list(decode_batches(b"")) == []
    empty = to_record_batch(RecordColumns(b"", np.empty(0, np.int64)))
    assert (empty.num_rows, empty.schema) == (0, SCHEMA)


def test_without_pyarrow_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "try:\n import litemq.format.arrow.batches\nexcept Exception as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "reading records as Arrow needs an optional library: pip install 'litemq[arrow]'\n"
