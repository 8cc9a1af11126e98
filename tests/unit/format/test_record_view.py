"""Record views agree with decoded records."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.format.limits import STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.format.record_view import RecordView, record_views
from litemq.types import Record, Stamp
from support.records import RECORDS, STAMPS


@given(st.lists(st.tuples(RECORDS, STAMPS), max_size=4), st.booleans())
def test_views_agree_with_decoded_records(pairs: list[tuple[Record, Stamp]], as_memoryview: bool) -> None:
    encoded = [encode_record(record, stamp, limits=STORED_LIMITS) for record, stamp in pairs]
    buffer = b"".join(encoded)
    seen = list(record_views(memoryview(buffer) if as_memoryview else buffer))
    assert [view.raw for view in seen] == encoded
    for view, (record, stamp) in zip(seen, pairs, strict=True):
        assert (view.message_id, view.ordering_key, view.tags, view.keys) == (
            record.message_id,
            record.sharding_key,
            record.tags,
            record.keys,
        )
        assert view.properties == record.properties
        assert (view.type, view.priority) == (record.type, record.priority)
        assert (view.born_timestamp, view.delay_time, view.expire_at) == (
            record.born_timestamp,
            record.delay_time,
            record.expire_at,
        )
        assert (view.queue_offset, view.store_timestamp, view.kind, view.consume_count) == (
            stamp.queue_offset,
            stamp.store_timestamp,
            stamp.kind,
            stamp.consume_count,
        )


def test_a_view_begins_at_its_start() -> None:
    record = encode_record(Record("orders", b"x", tags=("a",), properties={"n": "1"}))
    view = RecordView(b"12345678" + record, 8)
    assert (view.size, view.tags, view.properties) == (len(record), ("a",), {"n": "1"})
