"""The messages of a topic, as rows."""

from __future__ import annotations

import time

import pyarrow as pa

from litemq.spark.fetch import ClusterReader, QueueSpan, decode
from litemq.spark.schema import MESSAGE_SCHEMA
from support.waiting import HANG_S


def read_rows(url: str, topic: str, expected: int, *, within_s: float = HANG_S) -> pa.Table:
    """Return all rows of a topic by queue, once there are ``expected``.

    The broker publishes halves some time after the decision.
    """
    reader = ClusterReader(url)
    try:
        until = time.monotonic() + within_s
        while True:
            table = _read(reader, topic)
            if table.num_rows >= expected or time.monotonic() > until:
                assert table.num_rows == expected
                return table
            time.sleep(0.05)  # polls a broker; nothing here hangs on how long
    finally:
        reader.close()


def _read(reader: ClusterReader, topic: str) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for bounds in reader.queue_bounds(each for each in reader.topics() if each.topic == topic):
        if bounds.end_offset > bounds.start_offset:
            span = QueueSpan(bounds.broker, topic, bounds.queue_id, bounds.start_offset, bounds.end_offset)
            for records in reader.fetch(span):
                batches += decode(records, MESSAGE_SCHEMA.names, bounds.broker)
    return pa.Table.from_batches(batches, MESSAGE_SCHEMA)
