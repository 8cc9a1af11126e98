"""Writer of one attempt of one task: encodes rows and sends them as halves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from litemq.client.engine.routes import BrokerAddress, Route
from litemq.errors import NoRouteError
from litemq.format.arrow.encode import SentColumns, encode_sent
from litemq.format.limits import LARGEST_RECORD, RecordLimits
from litemq.proto.wire_pb2 import Attempt, BrokerState
from litemq.spark.brokers import BlockingCluster
from litemq.spark.write.destinations import TopicQueues, portions
from litemq.spark.write.half_sender import HalfSender, attempt_transaction
from litemq.spark.write.message_ids import MessageIdColumn
from litemq.types import Durability, check_name

__all__ = ["topic_route", "write_rows"]

_REQUEST_BYTES: Final = 1 << 20
_ROW_OVERHEAD: Final = 320  # estimated bytes of a record besides its body
_LIMITS: Final = RecordLimits(LARGEST_RECORD)  # the broker checks its own, possibly lower limit


def topic_route(topic: str, states: Iterable[BrokerState]) -> Route:
    """Return the brokers that have ``topic``, even if they do not answer."""
    addresses = []
    for state in states:
        facts = state.facts
        addresses += [
            BrokerAddress(
                facts.name,
                facts.host,
                facts.port,
                entry.queues,
                Durability(facts.default_durability),
                alive=state.alive,
                has_priorities=entry.has_priorities,
            )
            for entry in facts.topics
            if entry.topic == topic
        ]
    if not addresses:
        raise NoRouteError(f"no broker has topic {topic!r}: create it with `litemq topic create {topic}`")
    return Route(topic, tuple(sorted(addresses)))


def write_rows(
    batches: Iterable[pa.RecordBatch], topic: str, attempt: Attempt, cluster: BlockingCluster
) -> dict[str, int]:
    """Write rows as halves of ``attempt``, and wait until they are stored.

    Return the count per broker.
    """
    sender = HalfSender(cluster, attempt)
    transaction = attempt_transaction(attempt)
    ids = MessageIdColumn()
    states: list[BrokerState] = []
    known: dict[str, TopicQueues] = {}

    def topic_queues(name: str) -> TopicQueues:
        if name not in known:
            if not states:
                states.extend(cluster.brokers())
            known[name] = TopicQueues(topic_route(check_name(name), states))
        return known[name]

    for batch in batches:
        for portion in portions(batch, topic, topic_queues):
            for rows in _request_slices(portion.rows):
                queue = portion.queue or portion.to.next(portion.priority_class)
                columns, now = _sent_columns(rows, ids)
                data, bounds = encode_sent(
                    columns,
                    portion.to.topic,
                    transaction_id=transaction,
                    born_timestamp=now,
                    reliability=queue.durability,
                    limits=_LIMITS,
                )
                for begin, end in byte_slices(bounds, _REQUEST_BYTES):
                    sender.send(portion.to.topic, queue, data[int(bounds[begin]) : int(bounds[end])], end - begin)
    return sender.finish()


def _request_slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split ``rows`` into slices of about one request each."""
    lengths = pc.fill_null(pc.binary_length(rows.column("body")), 0).to_numpy().astype(np.int64)
    bounds = np.zeros(rows.num_rows + 1, np.int64)
    np.cumsum(lengths + _ROW_OVERHEAD, out=bounds[1:])
    for begin, end in byte_slices(bounds, _REQUEST_BYTES):
        yield rows.slice(begin, end - begin)


def byte_slices(bounds: npt.NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Yield slices of items of up to ``limit`` bytes, with at least one item each."""
    begin, count = 0, bounds.size - 1
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(bounds, bounds[begin] + limit, side="right")) - 1)
        yield begin, end
        begin = end


def _sent_columns(rows: pa.RecordBatch, ids: MessageIdColumn) -> tuple[SentColumns, int]:
    def column(name: str) -> pa.Array | None:
        return rows.column(name) if name in rows.schema.names else None

    generated, now = ids.next(rows.num_rows)
    given = column("message_id")
    due, priorities = column("deliver_at"), column("priority")
    return (
        SentColumns(
            rows.column("body"),
            generated if given is None else pc.coalesce(given.cast(pa.string()), generated),
            column("keys"),
            column("tags"),
            column("properties"),
            column("ordering_key"),
            None if due is None else _milliseconds(due),
            None if priorities is None else pc.fill_null(priorities.cast(pa.int64()), 128).to_numpy(),
        ),
        now,
    )


def _milliseconds(times: pa.Array) -> npt.NDArray[np.int64]:
    """Convert to milliseconds, rounded up so that no message is early."""
    microseconds: npt.NDArray[np.int64] = pc.fill_null(
        times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 0
    ).to_numpy()
    return -(-microseconds // 1000)
