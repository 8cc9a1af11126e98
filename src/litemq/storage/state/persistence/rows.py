"""Keys of rows: two rows with the same key describe the same thing at different times."""

from __future__ import annotations

import struct
from typing import Final

from litemq.proto.control_pb2 import Row

__all__ = ["is_gone", "row_key"]

_TOPIC: Final = struct.Struct(">cI")
_QUEUE: Final = struct.Struct(">cII")
_OFFSET: Final = struct.Struct(">cII")
_RUNS: Final = struct.Struct(">cQIIQ")
_PAGE: Final = struct.Struct(">cIIQ")
_PENDING: Final = struct.Struct(">cq")


def row_key(row: Row) -> bytes:
    """Return the primary key of ``row`` in ``state.db``."""
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
        case "leases":
            return (
                _PAGE.pack(b"l", row.leases.topic_id, row.leases.queue_id, row.leases.page) + row.leases.group.encode()
            )
        case "waiting_try":
            return _PENDING.pack(b"r", row.waiting_try.predecessor) + row.waiting_try.group.encode()
        case "dead_letters":
            return _PAGE.pack(b"d", row.dead_letters.topic_id, row.dead_letters.queue_id, row.dead_letters.page)
        case "timers":
            return b"w"
        case "group":
            return b"n" + row.group.group.encode()
        case "offsets_reset":
            return b"o" + row.offsets_reset.group.encode() + b"\0" + row.offsets_reset.reset_id.encode()
        case "archived_through":
            return _TOPIC.pack(b"a", row.archived_through.topic_id) + row.archived_through.page.to_bytes(4, "big")
        case "halves":
            return b"h" + row.halves.transaction.encode() + b"\0" + row.halves.page.to_bytes(4, "big")
        case "sink":
            return b"s" + row.sink.query.encode()
        case "job":
            return _PENDING.pack(b"j", row.job.number)
        case "moved_timer":
            return _PENDING.pack(b"m", row.moved_timer.pending)
        case "cancelled_batch":
            return b"b" + row.cancelled_batch.topic.encode() + b"\0" + row.cancelled_batch.batch_id.encode()
        case "outcomes":
            return b"e" + row.outcomes.page.to_bytes(8, "big")
        case "group_lost":
            return _OFFSET.pack(b"x", row.group_lost.topic_id, row.group_lost.queue_id) + row.group_lost.group.encode()
        case other:
            raise ValueError(f"unknown kind of row: {other}")


def is_gone(row: Row) -> bool:
    """Return whether ``row`` marks its key as deleted."""
    match row.WhichOneof("row"):
        case "group_offset":
            return row.group_offset.offset < 0
        case "producer_runs":
            return not row.producer_runs.lengths
        case "leases":
            return not (row.leases.done or row.leases.grants)
        case "waiting_try":
            return row.waiting_try.gone
        case "dead_letters":
            return not row.dead_letters.log_offset_steps
        case "timers":
            return not row.timers.count
        case "group":
            return row.group.gone
        case "offsets_reset":
            return not row.offsets_reset.after
        case "archived_through":
            return not (row.archived_through.location or row.archived_through.queues)
        case "halves":
            return row.halves.gone
        case "job":
            return row.job.gone
        case "moved_timer":
            return row.moved_timer.gone
        case "cancelled_batch":
            return not row.cancelled_batch.before
        case "outcomes":
            return not row.outcomes.transactions
        case "group_lost":
            return not row.group_lost.messages
        case _:
            return False
