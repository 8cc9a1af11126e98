"""Columns to records: the same bytes as by the scalar codec, and rebuilt stored records."""

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format.arrow import parts as arrow_parts
from litemq.format.arrow.batches import SCHEMA, decode_batches
from litemq.format.arrow.encode import SentColumns, encode_sent, encode_stored
from litemq.format.batches.check import check_batch
from litemq.format.limits import RecordLimits
from litemq.format.record import Stage
from litemq.format.record_encode import RecordTemplate, encode_record
from litemq.types import Durability, MessageType, Record, Stamp
from support.records import RECORDS, STAMPS, TEXT

STRINGS = pa.list_(pa.string())
MAP = pa.map_(pa.string(), pa.string())


# Stored -------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=6))
@example(
    [
        (Record("orders", bytes(5), f"{n:04d}", ("a",), (f"k{n}",), {"p": "q", "r": ""}, sequence=n), Stamp(n, n))
        for n in range(20)
    ]
)
@example([(Record("t"), Stamp())])
def test_records_are_rebuilt_bit_for_bit(batch: list[tuple[Record, Stamp]]) -> None:
    whole = b"".join(encode_record(record, stamp) for record, stamp in batch)
    (rows,) = decode_batches(whole)
    assert bytes(encode_stored(rows).data) == whole


def _rows(count: int = 9) -> tuple[bytes, pa.RecordBatch]:
    records = [
        Record(
            "orders",
            bytes(n),
            f"{n}",
            ("a", "b")[: n % 3],
            (f"k{n}",) * (n % 2),
            {"n": str(n)} if n % 4 else {},
            delay_time=n % 2,
        )
        for n in range(count)
    ]
    whole = b"".join(encode_record(record, Stamp(n, n, 5)) for n, record in enumerate(records))
    (rows,) = decode_batches(whole)
    return whole, rows


def test_rows_are_rebuilt_from_any_part_of_a_table() -> None:
    whole, rows = _rows()
    bounds = encode_stored(rows).bounds.tolist()
    for begin, end in ((0, 3), (2, 9), (5, 6), (4, 4)):
        assert bytes(encode_stored(rows.slice(begin, end - begin)).data) == whole[bounds[begin] : bounds[end]]


def test_other_types_of_the_same_values_are_accepted() -> None:
    whole, rows = _rows()
    large = {
        "message_id": pa.large_string(),
        "body": pa.large_binary(),
        "tags": pa.large_list(pa.large_string()),
        "kind": pa.int64(),
    }
    arrays = [rows.column(name).cast(large.get(name, SCHEMA.field(name).type)) for name in SCHEMA.names]
    arrays[SCHEMA.names.index("topic")] = rows.column("topic").dictionary_encode()
    arrays[SCHEMA.names.index("store_timestamp")] = rows.column("store_timestamp").cast(pa.timestamp("ms", tz="UTC"))
    table = pa.RecordBatch.from_arrays([*arrays, pa.array(["broker-a"] * len(rows))], [*SCHEMA.names, "broker"])
    assert bytes(encode_stored(table).data) == whole


def _replaced(rows: pa.RecordBatch, name: str, value: Any) -> pa.RecordBatch:
    at = SCHEMA.names.index(name)
    return rows.set_column(at, SCHEMA.field(at), pa.array([value] * len(rows), SCHEMA.field(at).type))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("size", 4711, "was a record of 4711 bytes"),
        ("record_version", 1, "version 1"),
        ("body", None, "body is null in 9 of 9 rows"),
        ("tags", None, "tags is null"),
        ("priority", 300, "priority of 300"),
        ("queue_id", -1, "queue_id of -1"),
        ("kind", 8, "does not come from a record"),
        ("tag_hash", 4711, "does not come from a record"),
        ("store_timestamp", 1, "fraction of a millisecond"),
        ("flags", 99, "does not come from a record"),
    ],
)
def test_invalid_rows_are_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        encode_stored(_replaced(_rows()[1], name, value))


def test_every_column_is_needed() -> None:
    with pytest.raises(InvalidArgumentError, match="missing columns origin"):
        encode_stored(_rows()[1].drop_columns(["origin"]))
    assert encode_stored(_rows()[1].drop_columns(["store_host", "status"])).data  # null for version 2


# Sent ---------------------------------------------------------------------------------------------

MESSAGES = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=80),
        "message_id": TEXT,
        "keys": st.lists(TEXT, max_size=3),
        "tags": st.lists(TEXT, max_size=3),
        "properties": st.dictionaries(TEXT, TEXT, max_size=3),
        "sharding_key": TEXT,
        "delay_time": st.integers(0, 2**40),
        "priority": st.integers(0, 255),
    }
)


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.tuples(TEXT, TEXT), st.booleans())
def test_encode_sent_agrees_with_a_template(
    messages: list[dict[str, Any]], shared: tuple[str, str], null_where_empty: bool
) -> None:
    def column(name: str, of: pa.DataType) -> pa.Array:
        values = [message[name] for message in messages]
        if of == MAP:
            return pa.array([list(value.items()) or (None if null_where_empty else []) for value in values], of)
        return pa.array([value if value or not null_where_empty else None for value in values], of)

    columns = SentColumns(
        pa.array([message["body"] for message in messages], pa.binary()),
        column("message_id", pa.string()),
        column("keys", STRINGS),
        column("tags", STRINGS),
        column("properties", MAP),
        column("sharding_key", pa.string()),
        np.array([message["delay_time"] for message in messages]),
        np.array([message["priority"] for message in messages]),
    )
    encoded = encode_sent(
        columns,
        "orders",
        transaction_id=shared[0],
        born_host=shared[1],
        born_timestamp=77,
        reliability=Durability.REPLICAS,
    )
    for number, message in enumerate(messages):
        template = RecordTemplate(
            "orders",
            tags=message["tags"],
            properties=message["properties"],
            priority=message["priority"],
            reliability=Durability.REPLICAS,
            born_host=shared[1],
        )
        alone = template.encode(
            message["body"],
            message_id=message["message_id"],
            keys=message["keys"],
            born_timestamp=77,
            delay_time=message["delay_time"],
            transaction_id=shared[0],
            sharding_key=message["sharding_key"],
            message_type=MessageType.DELAY if message["delay_time"] else MessageType.NORMAL,
        )
        assert bytes(encoded.data[encoded.bounds[number] : encoded.bounds[number + 1]]) == alone
    check_batch(bytes(encoded.data), stage=Stage.SENT)


def test_bodies_alone_are_enough() -> None:
    bodies = [os.urandom(length) for length in range(20)]
    encoded = encode_sent(SentColumns(pa.array(bodies)), "orders")
    template = RecordTemplate("orders")
    assert bytes(encoded.data) == b"".join(template.encode(body) for body in bodies)
    assert bytes(encode_sent(SentColumns(pa.array(["é"])), "orders").data) == template.encode("é".encode())
    nothing = encode_sent(SentColumns(pa.array([], pa.binary()), keys=pa.array([], STRINGS)), "orders")
    assert bytes(nothing.data) == b""
    assert nothing.bounds.tolist() == [0]


def test_a_part_of_a_larger_batch_is_sent() -> None:
    rows = pa.record_batch(
        {
            "body": pa.array([b"a", b"bb", b"ccc", b"dddd"]),
            "keys": pa.array([["1"], None, ["3", "33"], []], STRINGS),
            "tags": pa.array([["x", "y"], ["z"], [], ["w"]], STRINGS),
            "properties": pa.array([[("a", "b")], [], None, [("c", "d"), ("e", "f")]], MAP),
        }
    )
    whole = encode_sent(SentColumns(rows["body"], None, rows["keys"], rows["tags"], rows["properties"]), "orders")
    part = rows.slice(1, 3)
    tail = encode_sent(SentColumns(part["body"], None, part["keys"], part["tags"], part["properties"]), "orders")
    assert bytes(tail.data) == bytes(whole.data[whole.bounds[1] :])
    check_batch(bytes(whole.data), stage=Stage.SENT)


ONE = pa.array([b"x"])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (SentColumns(pa.array([None], pa.binary())), "body is null in 1 of 1 rows"),
        (SentColumns(ONE, priorities=np.array([256])), "priority of 256"),
        (SentColumns(ONE, delay_times=np.array([-1])), "delay_time of -1"),
        (SentColumns(ONE, message_ids=pa.array(["x" * 65])), "row 0 is no valid record"),
        (SentColumns(ONE, message_ids=pa.array(["x" * 65_537])), "message_id of 65537 bytes"),
        (SentColumns(ONE, keys=pa.array([["x" * 65_537]], STRINGS)), "key of 65537 bytes"),
        (SentColumns(ONE, keys=pa.array([["k"] * 65], STRINGS)), "row 0 is no valid record"),
        (SentColumns(ONE, keys=pa.array([[None]], STRINGS)), "a key is null"),
        (SentColumns(ONE, properties=pa.array([[("a", "b"), ("a", "c")]], MAP)), "repeated-property"),
        (SentColumns(ONE, sharding_keys=pa.array([b"\xff"])), "utf8"),
        (SentColumns(pa.array([bytes(3000)])), "is no valid record"),
    ],
)
def test_invalid_columns_are_refused(columns: SentColumns, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        encode_sent(columns, "orders", limits=RecordLimits(2048))


def test_more_than_arrow_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_parts, "_MAX_BYTES", 1000)
    assert encode_sent(SentColumns(pa.array([bytes(100)] * 3)), "orders").bounds.size == 4
    with pytest.raises(InvalidArgumentError, match="4 rows need 1024 bytes: pass fewer rows"):
        encode_sent(SentColumns(pa.array([bytes(100)] * 4)), "orders")
