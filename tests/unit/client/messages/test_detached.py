"""Messages without a group: readable, but not settled."""

import asyncio

import pytest

from litemq.client.messages.detached import DetachedSource
from litemq.client.messages.serializers import Serializers
from litemq.errors import UnsupportedFeatureError
from litemq.format.record_encode import RecordTemplate, stamp_record
from litemq.types import Stamp


def _stored(body: bytes) -> bytes:
    record = bytearray(RecordTemplate("orders").encode(body, message_id="m-1"))
    stamp_record(record, 0, Stamp(commitlog_offset=0, queue_offset=7, queue_id=2, topic_id=9, store_timestamp=1))
    return bytes(record)


def test_a_message_is_read_and_settling_it_raises() -> None:
    (message,) = DetachedSource("broker-a", Serializers({}), 1 << 20).decode(_stored(b"body"))
    assert (message.body, message.broker, message.queue_id, message.queue_offset, message.attempt) == (
        b"body",
        "broker-a",
        2,
        7,
        1,
    )
    for settle in (message.ack, message.nack, message.reject):
        with pytest.raises(UnsupportedFeatureError, match="without a group"):
            asyncio.run(settle())
    with pytest.raises(UnsupportedFeatureError, match="no lease"):
        asyncio.run(message.extend(10))
    message.release()
    assert not message.is_settled
