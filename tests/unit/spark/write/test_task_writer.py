"""Requests of a task: one queue each, of limited size, with every column in the record."""

from __future__ import annotations

import datetime as dt
from itertools import count
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client.engine.routes import queue_for_key
from litemq.errors import InvalidArgumentError, NoRouteError
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.net.blocking import BlockingAnswer
from litemq.proto.wire_pb2 import Attempt, BrokerFacts, BrokerState, SendHalvesAnswer, SendHalvesRequest, TopicQueues
from litemq.spark.brokers import BlockingCluster
from litemq.spark.write import task_writer as task_write
from litemq.spark.write.task_writer import byte_slices, topic_route, write_rows
from litemq.types import Durability, MessageType, Record

ATTEMPT = Attempt(query="q", batch=3, partition=1, attempt=77)


def _state(name: str, *, alive: bool = True, has_priorities: bool = False) -> BrokerState:
    topics = [
        TopicQueues(topic=topic, queues=16 if has_priorities else 2, has_priorities=has_priorities)
        for topic in ("orders", "bills")
    ]
    return BrokerState(
        facts=BrokerFacts(name=name, host="h", port=1, default_durability=Durability.DISK, topics=topics), alive=alive
    )


class FakeCluster:
    """A cluster that records every request and confirms it."""

    retry_timeout_s = 1.0

    def __init__(self, *states: BrokerState) -> None:
        self._states = list(states)
        self._numbers = count()
        self.requests: list[tuple[SendHalvesRequest, list[Record], int]] = []

    def brokers(self) -> list[BrokerState]:
        return self._states

    def peer(self, broker: str) -> FakeCluster:
        assert broker in [state.facts.name for state in self._states]
        return self

    def ask(self, opcode: int, header: bytes, records: memoryview) -> int:  # noqa: ARG002
        sent = bytes(records)
        starts = scan(sent, limits=STORED_LIMITS).starts.tolist()
        decoded = [decode_record(sent, start, stage=Stage.SENT, limits=STORED_LIMITS).record for start in starts]
        self.requests.append((SendHalvesRequest.FromString(header), decoded, len(sent)))
        return len(self.requests) - 1

    def answer(self, number: int) -> BlockingAnswer:
        request, records, _ = self.requests[number]
        return BlockingAnswer(SendHalvesAnswer(next=request.first + len(records)).SerializeToString(), memoryview(b""))

    def write(self, *batches: pa.RecordBatch, topic: str = "orders") -> dict[str, int]:
        return write_rows(batches, topic, ATTEMPT, cast("BlockingCluster", self))

    @property
    def records(self) -> list[Record]:
        return [record for _, records, _ in self.requests for record in records]


def test_every_column_has_its_field() -> None:
    cluster = FakeCluster(_state("a"))
    due = dt.datetime(2030, 1, 1, 0, 0, 0, 1, dt.UTC)
    rows = pa.record_batch(
        {
            "body": pa.array(["x", "y"]),
            "keys": pa.array([["k"], None], pa.list_(pa.string())),
            "tags": pa.array([["t", "u"], []], pa.list_(pa.string())),
            "properties": pa.array([[("p", "q")], None], pa.map_(pa.string(), pa.string())),
            "deliver_at": pa.array([due, None], pa.timestamp("us", tz="UTC")),
            "ordering_key": pa.array(["cart", None]),
            "message_id": pa.array(["mine", None]),
        }
    )
    assert cluster.write(rows) == {"a": 2}
    one, two = sorted(cluster.records, key=lambda record: record.body)
    assert (one.topic, one.body, one.keys, one.tags, one.properties) == ("orders", b"x", ("k",), ("t", "u"), {"p": "q"})
    assert (one.sharding_key, one.message_id, one.type, one.transaction_id) == (
        "cart",
        "mine",
        MessageType.DELAY,
        "q/3/1/77",
    )
    assert (
        one.delay_time == int(dt.datetime(2030, 1, 1, tzinfo=dt.UTC).timestamp()) * 1000 + 1
    )  # a part of a millisecond counts as one
    assert (two.keys, two.tags, two.properties, two.sharding_key, two.delay_time) == ((), (), {}, "", 0)
    assert (two.type, two.priority, two.reliability, len(two.message_id)) == (
        MessageType.NORMAL,
        128,
        Durability.DISK,
        31,
    )
    assert two.born_timestamp == int(two.message_id[:12], 16)
    request = next(request for request, records, _ in cluster.requests if records == [one])
    assert (request.topic, request.queue_id, request.attempt) == ("orders", queue_for_key("cart", 2), ATTEMPT)


def test_a_request_is_bounded_and_rows_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_write, "_REQUEST_BYTES", 10_000)
    cluster = FakeCluster(_state("a"), _state("b"))
    bodies = [bytes([number % 256]) * 1000 for number in range(100)]
    counts = cluster.write(pa.record_batch({"body": bodies[:60]}), pa.record_batch({"body": bodies[60:]}))
    assert sum(counts.values()) == 100
    assert max(size for _, _, size in cluster.requests) <= 10_000
    assert {request.queue_id for request, _, _ in cluster.requests} == {0, 1}
    assert min(counts.values()) > 30
    assert sorted(record.body for record in cluster.records) == sorted(bodies)
    assert len({record.message_id for record in cluster.records}) == 100


def test_one_row_that_is_larger_than_a_request_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_write, "_REQUEST_BYTES", 10_000)
    cluster = FakeCluster(_state("a"))
    properties = pa.array([[("p", "x" * 9_000)]] * 3, pa.map_(pa.string(), pa.string()))
    cluster.write(pa.record_batch({"body": pa.array([b"1", b"2" * 30_000, b"3"]), "properties": properties}))
    assert [len(records) for _, records, _ in cluster.requests] == [1, 1, 1]


def test_rows_of_several_topics() -> None:
    cluster = FakeCluster(_state("a"))
    rows = pa.record_batch({"body": pa.array(["1", "2", "3"]), "topic": pa.array(["bills", None, "bills"])})
    cluster.write(rows)
    sent = {
        request.topic: [(record.topic, record.body) for record in records] for request, records, _ in cluster.requests
    }
    assert sent == {"bills": [("bills", b"1"), ("bills", b"3")], "orders": [("orders", b"2")]}


def test_priorities_choose_their_class() -> None:
    cluster = FakeCluster(_state("a", has_priorities=True))
    cluster.write(
        pa.record_batch({"body": pa.array(["1", "2", "3"]), "priority": pa.array([0, 255, None], pa.int32())})
    )
    found = {records[0].body: (request.queue_id % 8, records[0].priority) for request, records, _ in cluster.requests}
    assert found == {b"1": (0, 0), b"2": (7, 255), b"3": (4, 128)}
    with pytest.raises(InvalidArgumentError, match="priority of 999"):
        cluster.write(pa.record_batch({"body": pa.array(["1"]), "priority": pa.array([999])}))


def test_topics_that_cannot_be_written() -> None:
    cluster = FakeCluster(_state("a"))
    with pytest.raises(NoRouteError, match="no broker has topic 'missing'"):
        cluster.write(pa.record_batch({"body": pa.array(["1"])}), topic="missing")
    with pytest.raises(InvalidArgumentError, match="are the broker's own"):
        cluster.write(pa.record_batch({"body": pa.array(["1"]), "topic": pa.array(["%DLQ%x"])}))


def test_a_route_has_the_silent_too() -> None:
    route = topic_route("orders", [_state("b", alive=False), _state("a")])
    assert [(place.name, place.alive) for place in route.brokers] == [("a", True), ("b", False)]


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(1, 40))
def test_cuts_cover_everything_within_the_bound(sizes: list[int], limit: int) -> None:
    bounds = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    pieces = list(byte_slices(bounds, limit))
    assert [number for begin, end in pieces for number in range(begin, end)] == list(range(len(sizes)))
    assert all(bounds[end] - bounds[begin] <= limit or end == begin + 1 for begin, end in pieces)
