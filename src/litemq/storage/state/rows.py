"""Which fact a row tells: two rows with one key are the same fact at different times."""

from __future__ import annotations

import struct
from typing import Final

from litemq.proto.control_pb2 import Row

__all__ = ["is_gone", "row_key"]

_TOPIC: Final = struct.Struct(">cI")
_QUEUE: Final = struct.Struct(">cII")
_OFFSET: Final = struct.Struct(">cII")
_RUNS: Final = struct.Struct(">cQIIQ")


def row_key(row: Row) -> bytes:
    """The key of a row."""
    match row.WhichOneof("row"):
        case "topic":
            return _TOPIC.pack(b"t", row.topic.topic_id)
        case "queue":
            return _QUEUE.pack(b"q", row.queue.topic_id, row.queue.queue_id)
        case "group_offset":
            offset = row.group_offset
            return _OFFSET.pack(b"g", offset.topic_id, offset.queue_id) + offset.group.encode()
        case "producer_runs":
            runs = row.producer_runs
            return _RUNS.pack(b"p", runs.producer_id, runs.topic_id, runs.queue_id, runs.first)
        case other:
            raise ValueError(f"a row of an unknown kind: {other}")


def is_gone(row: Row) -> bool:
    """Whether a row says that its fact is none any more."""
    return row.HasField("producer_runs") and not row.producer_runs.lengths
