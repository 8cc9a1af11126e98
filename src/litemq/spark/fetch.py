"""Reading queues straight from their brokers, as raw record bytes, and making Arrow of them.

This is what runs in a task's process: no event loop, one connection to each broker, and the next records on their way while the last are
decoded. A broker that goes away is waited for: what was read stays read, and reading goes on at the record behind it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from litemq.errors import DataLossError, LiteMQError, OffsetExpiredError, OffsetOutOfRangeError
from litemq.format.arrow.batches import decode_batches
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import Buffer
from litemq.proto.wire_pb2 import Opcode, PullAnswer, PullRequest
from litemq.spark.brokers import Links, Patience
from litemq.spark.schema import BROKER

__all__ = ["BrokerLinks", "Loss", "QueueSpan", "decode", "links_to"]

_MOST_MESSAGES: Final = 1 << 20  # in one answer; brokers have a bound of their own
_WAIT_MS: Final = 200  # for messages that were confirmed before, from a broker that has just come back


class QueueSpan(NamedTuple):
    """Messages ``begin … end - 1`` of a queue."""

    broker: str
    topic: str
    queue_id: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}"


class Loss(NamedTuple):
    """Messages that are not there any more."""

    span: QueueSpan
    why: str


class BrokerLinks(Links):
    """A cluster, as one thread reads from it."""

    def fetch(self, span: QueueSpan, *, chunk_bytes: int = 4 << 20, losses: list[Loss] | None = None) -> Iterator[memoryview]:
        """The stored records of a span, in order, some MiB at a time.

        What is gone raises ``DataLossError``; with ``losses``, it is noted there, and reading goes on behind it.
        """
        at = span.begin
        patience = Patience(self.patience_s)
        asked: tuple[int, int] | None = None  # at which offset, and the number of the request
        while at < span.end:
            try:
                peer = self.peer(span.broker)
                if asked is None:
                    asked = at, peer.ask(Opcode.PULL, _pull(span, at, chunk_bytes))
                answer, records = peer.answer(asked[1])
                asked = None
                following = at + (scan(records, limits=STORED_LIMITS).starts.size if records else 0)
                if at < following < span.end:
                    asked = following, peer.ask(Opcode.PULL, _pull(span, following, chunk_bytes))
            except LiteMQError as error:
                asked = None
                at = self._recover(span, at, error, patience, losses)
                continue
            if following > at:
                patience = Patience(self.patience_s)
                try:
                    yield records
                except GeneratorExit:
                    if asked is not None:
                        peer.forget(asked[1])
                    raise
                at = following
                continue
            told = PullAnswer.FromString(answer)
            if told.damaged:
                at = _lost(span, at, told.next_offset, f"it is damaged: {told.damaged}", losses)
            elif told.next_offset > at:
                at = min(told.next_offset, span.end)
            else:
                patience.spend(
                    DataLossError(f"{span}: offset {at} was there once, and the broker no longer has it; it ends at {told.range.next}")
                )

    def sample(self, span: QueueSpan, max_bytes: int) -> tuple[memoryview, int]:
        """The first records of a span, as many as fit, and their number."""
        records = self.peer(span.broker).request(Opcode.PULL, _pull(span, span.begin, max_bytes)).attachment
        return records, scan(records, limits=STORED_LIMITS).starts.size if records else 0

    def _recover(self, span: QueueSpan, at: int, error: LiteMQError, patience: Patience, losses: list[Loss] | None) -> int:
        """Where to go on after an error; raises where that makes no sense."""
        if isinstance(error, OffsetExpiredError | OffsetOutOfRangeError):
            bounds = self.bounds(span.topic, span.broker)[span.queue_id]
            if at < bounds.least:
                return _lost(span, at, min(bounds.least, span.end), "retention took it, or its topic was created anew", losses)
            if at > bounds.next:
                raise DataLossError(
                    f"{span}: offset {at} was asked for, and the broker ends at {bounds.next}: these are other queues"
                ) from error
        self.trouble(span.broker, error, patience)
        return at


def _pull(span: QueueSpan, at: int, chunk_bytes: int) -> bytes:
    return PullRequest(
        topic=span.topic,
        queue_id=span.queue_id,
        offset=at,
        max_messages=min(_MOST_MESSAGES, span.end - at),
        max_bytes=chunk_bytes,
        wait_ms=_WAIT_MS,
    ).SerializeToString()


def _lost(span: QueueSpan, at: int, following: int, why: str, losses: list[Loss] | None) -> int:
    gone = span._replace(begin=at, end=following)
    if losses is None:
        raise DataLossError(
            f"{gone}: offsets {at} … {following - 1} cannot be read any more, {why}. To go on without them, set failOnDataLoss to false"
        )
    losses.append(Loss(gone, why))
    return following


_of_thread = threading.local()


def links_to(url: str) -> BrokerLinks:
    """The links of this thread to a cluster, which last as long as it does."""
    known: dict[tuple[int, str], BrokerLinks] = _of_thread.__dict__.setdefault("links", {})
    place = os.getpid(), url  # a process that was forked has connections of its own
    links = known.get(place)
    if links is None:
        links = known[place] = BrokerLinks(url)
    return links


@lru_cache(maxsize=16)
def _repeated(value: str, count: int) -> pa.Array:
    raw = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(raw * count)])


def decode(records: Buffer, schema_names: Sequence[str], broker: str) -> Iterator[pa.RecordBatch]:
    """Stored records of a broker as rows with these columns: checked, checksums and all, and some thousand at a time."""
    of_records = [name for name in schema_names if name != BROKER]
    for batch in decode_batches(records, of_records or ["queue_offset"], limits=STORED_LIMITS):
        if len(of_records) == len(schema_names):
            yield batch
        else:
            columns = [_repeated(broker, batch.num_rows) if name == BROKER else batch.column(name) for name in schema_names]
            yield pa.RecordBatch.from_arrays(columns, names=list(schema_names))
