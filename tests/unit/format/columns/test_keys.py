"""Key hashes by column agree with those of single keys."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.format.batches.check import check_batch
from litemq.format.columns.keys import hash_key, hash_keys
from litemq.format.crc import crc32c
from litemq.format.record_encode import encode_record
from litemq.types import Record
from support.records import RECORDS


@given(st.lists(RECORDS, max_size=12), st.booleans())
def test_hashes(records: list[Record], one_topic: bool) -> None:
    if one_topic:
        records = [record._replace(topic="orders") for record in records]
    hashes, owners = hash_keys(check_batch(b"".join(map(encode_record, records))))
    expected = [
        (hash_key(record.topic, name), number)
        for number, record in enumerate(records)
        for name in (record.message_id, *record.keys)
        if name
    ]
    assert list(zip(hashes.tolist(), owners.tolist(), strict=True)) == expected


def test_the_hash_is_crc32c_of_topic_and_key() -> None:
    assert hash_key("orders", "o-1") == crc32c(b"orders#o-1") == 0x3B899107
