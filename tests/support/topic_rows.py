"""What stands in a topic, as rows."""

from __future__ import annotations

import time

import pyarrow as pa

from litemq.spark.fetch import BrokerLinks, QueueSpan, decode
from litemq.spark.schema import MESSAGE_SCHEMA
from support.waiting import HANG_S


def rows_of(url: str, topic: str, expected: int, *, within_s: float = HANG_S) -> pa.Table:
    """All rows of a topic, queue by queue, once there are as many as expected: decided halves become messages a moment later."""
    links = BrokerLinks(url)
    try:
        until = time.monotonic() + within_s
        while True:
            table = _read(links, topic)
            if table.num_rows >= expected or time.monotonic() > until:
                assert table.num_rows == expected
                return table
            time.sleep(0.05)  # polls a broker; nothing here hangs on how long
    finally:
        links.close()


def _read(links: BrokerLinks, topic: str) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for bounds in links.ranges(place for place in links.topics() if place.topic == topic):
        if bounds.next > bounds.least:
            span = QueueSpan(bounds.broker, topic, bounds.queue_id, bounds.least, bounds.next)
            for records in links.fetch(span):
                batches += decode(records, MESSAGE_SCHEMA.names, bounds.broker)
    return pa.Table.from_batches(batches, MESSAGE_SCHEMA)
