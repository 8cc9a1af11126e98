"""Rows and tables of archived messages, built by hand."""

from __future__ import annotations

import pyarrow as pa

from litemq.format.arrow.batches import decode_batches
from litemq.format.record_encode import RecordTemplate, stamp_record
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import FILE_SCHEMA, TableFile
from litemq.spark.tables.writing import Codec, MessageWriter
from litemq.types import Stamp

HOUR_MS = 3_600_000
NOON_MS = 1_700_049_600_000  # 2023-11-15T12:00:00Z


def stored_records(
    topic: str, queue_id: int, offsets: range, *, at_ms: int = NOON_MS, step_ms: int = 1, body: bytes = b"body"
) -> bytes:
    """Return the records of a queue, as a broker stores them."""
    template = RecordTemplate(topic, tags=["paid"], properties={"region": "eu"})
    log = bytearray()
    for number, offset in enumerate(offsets):
        start = len(log)
        log += template.encode(
            b"%s %d" % (body, offset), message_id=f"{topic}-{queue_id}-{offset}", keys=(f"k-{offset}",)
        )
        stamp = Stamp(
            commitlog_offset=start,
            queue_offset=offset,
            queue_id=queue_id,
            topic_id=9,
            store_timestamp=at_ms + number * step_ms,
        )
        stamp_record(log, start, stamp)
    return bytes(log)


def rows(
    topic: str, queue_id: int, offsets: range, *, broker: str = "broker-a", at_ms: int = NOON_MS, step_ms: int = 1
) -> pa.Table:
    """Return the same records as rows with every column."""
    batches = decode_batches(stored_records(topic, queue_id, offsets, at_ms=at_ms, step_ms=step_ms))
    found = pa.Table.from_batches(batches)
    return found.append_column(MESSAGE_SCHEMA.field(BROKER), pa.array([broker] * found.num_rows))


def written(location: str, *parts: pa.Table) -> list[TableFile]:
    """Write files of rows that no table names yet; return them in order."""
    writer = MessageWriter(TableFolder(location), Codec())
    for part in parts:
        for batch in part.select(FILE_SCHEMA.names).to_batches():
            writer.write(part["topic"][0].as_py(), batch)
    return writer.finish()
