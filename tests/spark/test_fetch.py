"""Fetching from a broker: every record once and in order, despite lost connections."""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest

import litemq
from litemq.errors import DataLossError, NoRouteError
from litemq.spark.brokers import QueueBounds
from litemq.spark.fetch import ClusterReader, QueueSpan, decode, thread_cluster
from litemq.spark.schema import MESSAGE_SCHEMA
from support.servers import Servers


@pytest.fixture(scope="module")
def filled(servers: Servers) -> str:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("fetched", queues=2)
        mq.admin.create_topic("empty", queues=1)
        for start in range(0, 4000, 500):
            messages = [
                litemq.OutgoingMessage(b"%05d" % i + b"x" * (i % 700), keys=[f"k{i}"])
                for i in range(start, start + 500)
            ]
            mq.send_batch("fetched", messages)
    return servers.url


@pytest.fixture
def reader(filled: str) -> Iterator[ClusterReader]:
    reader = ClusterReader(filled, retry_timeout_s=10)
    yield reader
    reader.close()


def bounds_of(reader: ClusterReader, topic: str) -> list[QueueBounds]:
    return reader.queue_bounds([each for each in reader.topics() if each.topic == topic])


def span_of(bounds: QueueBounds) -> QueueSpan:
    return QueueSpan(bounds.broker, bounds.topic, bounds.queue_id, bounds.start_offset, bounds.end_offset)


def read(reader: ClusterReader, span: QueueSpan, names: list[str], chunk_bytes: int = 4 << 20) -> pa.Table:
    batches = [
        batch
        for records in reader.fetch(span, chunk_bytes=chunk_bytes)
        for batch in decode(records, names, span.broker)
    ]
    return pa.Table.from_batches(batches, pa.schema([MESSAGE_SCHEMA.field(name) for name in names]))


@pytest.mark.parametrize("chunk_bytes", [1, 20_000, 4 << 20])
def test_every_record_once_and_in_order(reader: ClusterReader, chunk_bytes: int) -> None:
    bodies = set()
    for bounds in bounds_of(reader, "fetched"):
        rows = read(reader, span_of(bounds), MESSAGE_SCHEMA.names, chunk_bytes)
        assert rows.schema == MESSAGE_SCHEMA
        assert rows["queue_offset"].to_pylist() == list(range(bounds.start_offset, bounds.end_offset))
        assert set(rows["broker"].to_pylist()) == {"broker-a"}
        bodies |= {body[:5] for body in rows["body"].to_pylist()}
    assert bodies == {b"%05d" % i for i in range(4000)}


def test_a_part_of_a_queue_and_some_columns(reader: ClusterReader) -> None:
    span = span_of(bounds_of(reader, "fetched")[1])._replace(begin=5, end=15)
    assert read(reader, span, ["queue_offset", "broker"]).to_pydict() == {
        "queue_offset": [*range(5, 15)],
        "broker": ["broker-a"] * 10,
    }
    assert read(reader, span, ["broker"]).num_rows == 10


def test_an_empty_queue(reader: ClusterReader) -> None:
    assert list(reader.fetch(span_of(bounds_of(reader, "empty")[0]))) == []


def test_messages_that_are_gone_raise(reader: ClusterReader) -> None:
    bounds = bounds_of(reader, "fetched")[0]
    with pytest.raises(DataLossError, match="it is not the same queue"):
        list(reader.fetch(QueueSpan(bounds.broker, bounds.topic, 0, bounds.end_offset + 10, bounds.end_offset + 20)))


def test_topics_of_the_brokers_own_are_there_for_those_who_ask(reader: ClusterReader) -> None:
    assert {each.topic for each in reader.topics()} == {"fetched", "empty"}
    system = {each.topic for each in reader.topics(include_system=True)} - {"fetched", "empty"}
    assert "RMQ_SYS_TRANS_OP_HALF_TOPIC" in system
    assert "LITEMQ_SYS_CONTROL" not in system  # it is the broker's alone


def test_an_offset_at_a_time(reader: ClusterReader) -> None:
    bounds = bounds_of(reader, "fetched")[0]
    assert reader.offset_at_time(bounds.broker, bounds.topic, 0, 0) == bounds.start_offset
    assert reader.offset_at_time(bounds.broker, bounds.topic, 0, 1 << 50) == bounds.end_offset


def test_reading_goes_on_when_the_broker_comes_back(servers: Servers, reader: ClusterReader) -> None:
    span = span_of(bounds_of(reader, "fetched")[0])
    offsets: list[int] = []
    for number, records in enumerate(reader.fetch(span, chunk_bytes=100_000)):
        if number == 1:
            servers.broker.kill()
            servers.broker.start()
        offsets += [
            row for batch in decode(records, ["queue_offset"], span.broker) for row in batch["queue_offset"].to_pylist()
        ]
    assert offsets == [*range(span.begin, span.end)]


def test_a_fetch_that_stops_early_does_not_affect_the_next_one(reader: ClusterReader) -> None:
    span = span_of(bounds_of(reader, "fetched")[0])
    first = next(iter(reader.fetch(span, chunk_bytes=10_000)))
    again = [bytes(records) for records in reader.fetch(span, chunk_bytes=10_000)]
    assert again[0] == bytes(first)
    assert all(a != b for a, b in pairwise(again))


def test_a_thread_has_one_link_to_a_cluster(filled: str) -> None:
    assert thread_cluster(filled) is thread_cluster(filled)


def test_no_nameserver_answers() -> None:
    with pytest.raises(
        NoRouteError,
        match=r"no NameServer answers at litemq://127.0.0.1:1 .* start one at this port with `litemq up --nameserver-p",
    ):
        ClusterReader("litemq://127.0.0.1:1").topics()


def test_a_broker_that_stays_away_is_named(servers: Servers, filled: str) -> None:
    reader = ClusterReader(filled, retry_timeout_s=0.2)
    span = span_of(bounds_of(reader, "fetched")[0])
    servers.broker.kill()
    try:
        with pytest.raises(NoRouteError, match=r"broker 'broker-a' does not answer: .* start it again"):
            list(reader.fetch(span))
    finally:
        servers.broker.start()
        servers.broker.wait_ready()
        reader.close()
