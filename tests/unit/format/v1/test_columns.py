"""Columns of version 1 agree with the scalar codec."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.errors import RecordFormatError
from litemq.format.batches.scan import scan
from litemq.format.v1.columns import RecordColumnsV1, find_faults_v1
from litemq.format.v1.record import decode_record_v1, encode_record_v1
from litemq.types import BodyCodec, ConsumerInfo, Record, Stamp
from support.records import FACTS, RECORDS, STAMPS

BATCHES = st.lists(st.tuples(RECORDS, STAMPS, FACTS), min_size=1, max_size=5)
VALUES = st.sampled_from([0, 1, 2, 3, 4, 5, 16, 0x7F, 0x80, 0xC3, 0xFF])
DAMAGES = st.lists(st.tuples(st.integers(0, 9), st.integers(8, 400), VALUES), max_size=6)


def _accepts(piece: bytes) -> bool:
    try:
        decode_record_v1(piece)
    except RecordFormatError:
        return False
    return True


@settings(max_examples=200)
@given(BATCHES, DAMAGES)
def test_both_codecs_refuse_the_same_records(
    batch: list[tuple[Record, Stamp, ConsumerInfo]], damages: list[tuple[int, int, int]]
) -> None:
    pieces = [bytearray(encode_record_v1(r._replace(codec=BodyCodec.NONE, encrypted=False), s, f)) for r, s, f in batch]
    for number, place, value in damages:
        piece = pieces[number % len(pieces)]
        piece[place % (len(piece) - 8) + 8] = value
    refused = [number for number, piece in enumerate(pieces) if not _accepts(bytes(piece))]
    whole = b"".join(pieces)
    columns = RecordColumnsV1(whole, np.cumsum([0, *map(len, pieces[:-1])]))
    assert find_faults_v1(columns).tolist() == refused


@given(BATCHES)
def test_columns_agree_with_the_records(batch: list[tuple[Record, Stamp, ConsumerInfo]]) -> None:
    whole = b"".join(encode_record_v1(r._replace(codec=BodyCodec.NONE, encrypted=False), s, f) for r, s, f in batch)
    columns = RecordColumnsV1(whole, scan(whole, version=1).starts)
    assert len(columns) == len(batch)
    for number, (record, stamp, facts) in enumerate(batch):
        stored = decode_record_v1(whole, int(columns.starts[number]))
        assert stored.stamp is not None
        begin, length = int(columns.body.positions[number]), int(columns.body.lengths[number])
        assert whole[begin : begin + length] == record.body
        assert int(columns.kinds[number]) == stored.stamp.kind
        assert int(columns.stored["queue_offset"][number]) == stamp.queue_offset
        assert int(columns.status[number]) == facts.status


@settings(max_examples=300)
@given(st.binary(max_size=600))
def test_random_bytes_raise_only_a_format_error(noise: bytes) -> None:
    data = (len(noise) + 4 + 109).to_bytes(4, "big") + b"LMQ\x01" + noise + bytes(109)
    found = scan(data, version=1)
    faults = find_faults_v1(RecordColumnsV1(data, found.starts))
    if found.starts.size:
        assert (faults.size == 0) == _accepts(data)
