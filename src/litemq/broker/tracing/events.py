"""Trace events as records. One record has many events, and is found by the message id of each.

The body is JSON, for people who tail the topic and for programs that read it as a table: a list of
objects with the fields of ``TraceEvent`` that are not empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from litemq.broker.limits import TraceMode
from litemq.format.crc import crc32c
from litemq.format.limits import MAX_KEYS, STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.types import Durability, Record

__all__ = ["TRACE_TOPIC", "TraceEvent", "TraceSampler", "decode_events", "encode_events", "in_order"]

TRACE_TOPIC: Final = "LITEMQ_SYS_TRACE"

_MAX_EVENTS: Final = 256  # of one record


class TraceEvent(NamedTuple):
    """One event of a message."""

    at: int  # ms
    event: str  # stored, redriven, scheduled, fired, retried, died, received, acked, released, failed, rejected, missed
    message_id: str = ""
    topic: str = ""
    queue_id: int = -1
    offset: int = -1
    group: str = ""
    client: str = ""
    tries: int = 0
    detail: str = ""


_EMPTY: Final = TraceEvent(-1, "")


class TraceSampler:
    """Chooses the messages to trace: all events of a message, or none."""

    def __init__(self, mode: TraceMode, one_in: int) -> None:
        self.is_on = mode != "off"
        self._one_in = 1 if mode == "all" else one_in

    def takes(self, message_id: str) -> bool:
        """Return whether a message is traced; the same on every broker."""
        return self.is_on and (self._one_in == 1 or crc32c(message_id.encode()) % self._one_in == 0)


_FIRST: Final = {"scheduled": 0, "stored": 1, "fired": 1, "redriven": 1, "retried": 1, "received": 2}


def in_order(events: Iterable[TraceEvent]) -> list[TraceEvent]:
    """Return ``events`` by time, and within a millisecond in the order of a message's life."""
    return sorted(events, key=lambda event: (event.at, _FIRST.get(event.event, 3)))


def encode_events(events: Iterable[TraceEvent], now: int) -> Iterator[bytes]:
    """Yield the records of ``events``. The keys of a record are the message ids of its events."""
    batch: list[TraceEvent] = []
    ids: dict[str, None] = {}
    for event in events:
        is_new = bool(event.message_id) and event.message_id not in ids
        if batch and (len(batch) == _MAX_EVENTS or (is_new and len(ids) == MAX_KEYS)):
            yield _record(batch, ids, now)
            batch, ids = [], {}
        batch.append(event)
        if event.message_id:
            ids[event.message_id] = None
    if batch:
        yield _record(batch, ids, now)


def _record(events: list[TraceEvent], ids: Iterable[str], now: int) -> bytes:
    body = json.dumps([_to_json(event) for event in events], ensure_ascii=False, separators=(",", ":")).encode()
    record = Record(
        TRACE_TOPIC,
        body,
        keys=tuple(ids),
        properties={"content-type": "application/json"},
        reliability=Durability.MEMORY,
        born_timestamp=now,
    )
    return encode_record(record, limits=STORED_LIMITS)


def _to_json(event: TraceEvent) -> dict[str, Any]:
    return {name: value for name, value in event._asdict().items() if value != getattr(_EMPTY, name)}


def decode_events(body: bytes) -> list[TraceEvent]:
    """Return the events of a record. Fields that later versions add are ignored."""
    known = TraceEvent._fields
    return [
        TraceEvent(**{name: value for name, value in fields.items() if name in known}) for fields in json.loads(body)
    ]
