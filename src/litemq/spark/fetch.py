"""Fetching of queues from their brokers as raw records, and decoding into Arrow batches.

Runs in a task's process: no event loop, one connection per broker, and the next request in flight
while the previous answer is decoded. If a broker goes down, the reader retries and continues after
the last record that it received.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from litemq.client.config import ReadFrom
from litemq.errors import ConnectionLostError, DataLossError, LiteMQError, OffsetExpiredError, OffsetOutOfRangeError
from litemq.format.arrow.batches import decode_batches
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import Buffer
from litemq.proto.wire_pb2 import Opcode, PullAnswer, PullRequest
from litemq.spark.brokers import BlockingCluster, RetryDeadline
from litemq.spark.schema import BROKER

__all__ = ["ClusterReader", "Loss", "QueueSpan", "decode", "thread_cluster"]

_MAX_MESSAGES: Final = 1 << 20  # in one answer; brokers have their own limit
_WAIT_MS: Final = 200  # for confirmed messages, from a broker that has just restarted
_FOLLOWER_TRIES: Final = 2  # the first connection may have been idle for too long


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
    """Messages that can no longer be read."""

    span: QueueSpan
    why: str


class ClusterReader(BlockingCluster):
    """A cluster client that fetches records. Not thread-safe: see ``thread_cluster``."""

    def fetch(
        self,
        span: QueueSpan,
        *,
        chunk_bytes: int = 4 << 20,
        losses: list[Loss] | None = None,
        read_from: ReadFrom = "master",
    ) -> Iterator[memoryview]:
        """Yield the stored records of ``span``, in order, ``chunk_bytes`` at a time.

        Raise ``DataLossError`` for lost messages. With ``losses``, append them there and continue.
        With ``read_from="replica"``, a follower serves the span until it fails or lacks a message.
        """
        at = span.begin
        tries = _FOLLOWER_TRIES if read_from == "replica" else 0
        deadline = RetryDeadline(self.retry_timeout_s)
        pending: tuple[int, int] | None = None  # offset and number of the request in flight
        while at < span.end:
            follower = self.followers.peer(span.broker) if tries else None
            try:
                peer = follower or self.peer(span.broker)
                if pending is None:
                    pending = at, peer.ask(Opcode.PULL, _pull_request(span, at, chunk_bytes))
                answer, records = peer.answer(pending[1])
                pending = None
                next_offset = at + (scan(records, limits=STORED_LIMITS).starts.size if records else 0)
                if at < next_offset < span.end:
                    pending = next_offset, peer.ask(Opcode.PULL, _pull_request(span, next_offset, chunk_bytes))
            except LiteMQError as error:
                pending = None
                if follower is None:
                    at = self._recover(span, at, error, deadline, losses)
                else:
                    self.followers.drop(span.broker, str(error))
                    tries = tries - 1 if isinstance(error, ConnectionLostError) else 0
                continue
            if next_offset > at:
                deadline = RetryDeadline(self.retry_timeout_s)
                try:
                    yield records
                except GeneratorExit:
                    if pending is not None:
                        peer.forget(pending[1])
                    raise
                at = next_offset
                continue
            details = PullAnswer.FromString(answer)
            if follower is not None:
                tries = 0  # the master has what a follower lacks
            elif details.damaged:
                at = _record_loss(span, at, details.next_offset, f"damaged: {details.damaged}", losses)
            elif details.next_offset > at:
                at = min(details.next_offset, span.end)
            else:
                deadline.wait_or_raise(
                    DataLossError(
                        f"{span}: offset {at} was confirmed, "
                        f"but the broker's queue ends at {details.range.next}: restore its data"
                    )
                )

    def sample(self, span: QueueSpan, max_bytes: int) -> tuple[memoryview, int]:
        """Return the first records of ``span`` that fit ``max_bytes``, and their number."""
        records = self.peer(span.broker).request(Opcode.PULL, _pull_request(span, span.begin, max_bytes)).attachment
        return records, scan(records, limits=STORED_LIMITS).starts.size if records else 0

    def _recover(
        self, span: QueueSpan, at: int, error: LiteMQError, deadline: RetryDeadline, losses: list[Loss] | None
    ) -> int:
        """Return the offset to continue at after ``error``, or raise it."""
        if isinstance(error, OffsetExpiredError | OffsetOutOfRangeError):
            bounds = self.topic_bounds(span.topic, span.broker)[span.queue_id]
            if at < bounds.start_offset:
                return _record_loss(
                    span,
                    at,
                    min(bounds.start_offset, span.end),
                    "deleted by retention, or with a topic that was recreated",
                    losses,
                )
            if at > bounds.end_offset:
                raise DataLossError(
                    f"{span}: offset {at} was requested, "
                    f"but the queue ends at {bounds.end_offset}: it is not the same queue"
                ) from error
        self.handle_failure(span.broker, error, deadline)
        return at


def _pull_request(span: QueueSpan, at: int, chunk_bytes: int) -> bytes:
    return PullRequest(
        topic=span.topic,
        queue_id=span.queue_id,
        offset=at,
        max_messages=min(_MAX_MESSAGES, span.end - at),
        max_bytes=chunk_bytes,
        wait_ms=_WAIT_MS,
    ).SerializeToString()


def _record_loss(span: QueueSpan, at: int, next_offset: int, why: str, losses: list[Loss] | None) -> int:
    lost = span._replace(begin=at, end=next_offset)
    if losses is None:
        raise DataLossError(
            f"{lost}: offsets {at} … {next_offset - 1} can no longer be read ({why}). "
            "To continue without them, set failOnDataLoss to false"
        )
    losses.append(Loss(lost, why))
    return next_offset


_thread_local = threading.local()


def thread_cluster(url: str) -> ClusterReader:
    """Return this thread's client of the cluster at ``url``.

    Its connections live as long as the thread.
    """
    known: dict[tuple[int, str], ClusterReader] = _thread_local.__dict__.setdefault("clusters", {})
    key = os.getpid(), url  # a forked process needs its own connections
    cluster = known.get(key)
    if cluster is None:
        cluster = known[key] = ClusterReader(url)
    return cluster


@lru_cache(maxsize=16)
def _repeated(value: str, count: int) -> pa.Array:
    raw = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(raw * count)])


def decode(records: Buffer, schema_names: Sequence[str], broker: str) -> Iterator[pa.RecordBatch]:
    """Verify and decode stored records of ``broker`` into batches with ``schema_names``."""
    record_columns = [name for name in schema_names if name != BROKER]
    for batch in decode_batches(records, record_columns or ["queue_offset"], limits=STORED_LIMITS):
        if len(record_columns) == len(schema_names):
            yield batch
        else:
            columns = [
                _repeated(broker, batch.num_rows) if name == BROKER else batch.column(name) for name in schema_names
            ]
            yield pa.RecordBatch.from_arrays(columns, names=list(schema_names))
