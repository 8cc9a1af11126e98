"""Conversion between versions 1 and 2 agrees with the scalar codecs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from litemq.format.batches.check import find_faults
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.format.v1.columns import RecordColumnsV1
from litemq.format.v1.convert import downgrade, upgrade
from litemq.format.v1.record import decode_record_v1, encode_record_v1
from litemq.types import BodyCodec, ConsumerInfo, MessageStatus, MessageType, Record, RecordKind, Stamp
from support.records import FACTS, RECORDS, STAMPS, TEXT

PLAIN = RECORDS.map(lambda record: record._replace(codec=BodyCodec.NONE, encrypted=False))


@given(st.lists(st.tuples(PLAIN, STAMPS, FACTS), max_size=20), st.binary(max_size=9))
def test_upgrade_agrees_with_the_scalar_codec(many: list[tuple[Record, Stamp, ConsumerInfo]], before: bytes) -> None:
    data = before + b"".join(encode_record_v1(*one) for one in many)
    columns = RecordColumnsV1(data, scan(data, len(before), version=1).starts)
    upgraded = upgrade(columns)
    expected = b"".join(encode_record(decode_record_v1(data, start).record) for start in columns.starts.tolist())
    assert bytes(upgraded.buffer) == expected
    assert upgraded.starts.tolist() == scan(expected).starts.tolist()
    assert find_faults(upgraded, stage=Stage.SENT).size == 0


def test_upgrade_does_not_check_the_limits_of_version_2() -> None:
    records = [
        Record("t"),
        Record("t", message_id="x" * 65),
        Record("t", tags=("y" * 256,)),
        Record("t", properties={"z": "z" * 40_000}),
    ]
    data = b"".join(encode_record_v1(record, Stamp()) for record in records)
    upgraded = upgrade(RecordColumnsV1(data, scan(data, version=1).starts))
    assert np.array_equal(find_faults(upgraded, stage=Stage.SENT), [1, 2, 3])


@given(
    st.lists(st.tuples(RECORDS, STAMPS, TEXT, st.binary(max_size=50)), min_size=1, max_size=20), st.integers(0, 2**40)
)
def test_downgrade_agrees_with_the_scalar_codec(many: list[tuple[Record, Stamp, str, bytes]], position: int) -> None:
    stored = b"".join(encode_record(record, stamp) for record, stamp, _, _ in many)
    columns = RecordColumns(stored, scan(stored).starts)
    bodies = [body for *_, body in many]
    written = downgrade(columns, bodies, [host.encode() for _, _, host, _ in many], position)
    expected = b""
    for start, (_, stamp, host, body) in zip(columns.starts.tolist(), many, strict=True):
        record = decode_record(stored, start).record._replace(body=body, codec=BodyCodec.NONE, encrypted=False)
        status = MessageStatus.COMMITTED if stamp.kind is RecordKind.COMMITTED else MessageStatus.NORMAL
        facts = ConsumerInfo(status, broadcast=record.type is MessageType.BROADCAST, store_host=host)
        expected += encode_record_v1(record, stamp._replace(commitlog_offset=position + len(expected)), facts)
    assert written == expected
