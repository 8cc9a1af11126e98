"""Stream reader across restarts, new queues, losses and a changed cluster, without Spark."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

import litemq
from litemq.errors import CheckpointMismatchError, DataLossError, TopicNotFoundError
from litemq.spark.read.options import parse_read_options
from litemq.spark.read.stream import StreamReader
from support.servers import Servers


@pytest.fixture
def mq(servers: Servers) -> Iterator[litemq.Client]:
    with litemq.Client(servers.url) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"t-{uuid4().hex[:8]}"


def send(mq: litemq.Client, topic: str, first: int, count: int) -> None:
    mq.send_batch(topic, [litemq.OutgoingMessage(b"%d" % i, ordering_key=str(i)) for i in range(first, first + count)])


class Query:
    """Spark's use of a reader: offsets as JSON, then plan, read and commit."""

    def __init__(self, url: str, topic: str) -> None:
        self._given = {"url": url, "subscribe": topic, "startingOffsets": "earliest"}
        self._done: str | None = None
        self._planned: str | None = None
        self.batches: list[list[int]] = []

    def run(self, dies: bool = False, **options: str) -> None:
        """Run to the end of the topic. ``dies`` stops in the middle of the first batch."""
        given = self._given | options
        given = {name: value for name, value in given.items() if value}
        reader = StreamReader(parse_read_options(given, "stream"), ("queue_offset", "body"))
        reader.prepareForTriggerAvailableNow()
        start = self._done or json.dumps(reader.initialOffset())
        self._done = start
        while True:
            end = self._planned or json.dumps(reader.latestOffset(json.loads(start), reader.getDefaultReadLimit()))
            self._planned = None
            if end == start:
                return
            parts = reader.partitions(json.loads(start), json.loads(end))
            rows = [int(body) for part in parts for batch in reader.read(part) for body in batch["body"].to_pylist()]
            if dies:
                self._planned = end
                return
            self.batches.append(rows)
            reader.commit(json.loads(end))
            self._done = start = end

    def edit(self, **parts: Any) -> None:
        """Edit the checkpoint."""
        assert self._done is not None
        self._done = json.dumps(json.loads(self._done) | parts)

    @property
    def bodies(self) -> list[int]:
        return sorted(body for batch in self.batches for body in batch)


@pytest.fixture
def query(servers: Servers, topic: str) -> Query:
    return Query(servers.url, topic)


def test_batches_are_as_large_as_allowed_and_a_restart_goes_on(query: Query, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=3)
    send(mq, topic, 0, 250)
    query.run(maxOffsetsPerTrigger="100", groupId=f"g-{topic}")
    assert [len(batch) for batch in query.batches] == [100, 100, 50]
    send(mq, topic, 250, 30)
    query.run(groupId=f"g-{topic}")
    assert query.bodies == [*range(280)]
    group = mq.admin.describe_group(f"g-{topic}")
    assert group is not None
    assert sum(queue.committed for queue in group.queues) == 280


def test_a_batch_that_was_planned_is_the_same_when_it_is_read_again(
    query: Query, mq: litemq.Client, topic: str
) -> None:
    mq.admin.create_topic(topic, queues=2)
    send(mq, topic, 0, 50)
    query.run(True)
    send(mq, topic, 50, 50)
    query.run()
    assert [len(batch) for batch in query.batches] == [50, 50]
    assert query.bodies == [*range(100)]


def test_new_topics_are_read_from_their_beginning(query: Query, mq: litemq.Client, topic: str) -> None:
    pattern = {"subscribe": "", "subscribePattern": f"{topic}.*"}
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 0, 10)
    query.run(False, **pattern)
    mq.admin.create_topic(f"{topic}-more", queues=2)
    send(mq, f"{topic}-more", 10, 10)
    query.run(False, **pattern)  # it began before it knew of them
    query.run(False, **pattern)
    assert query.bodies == [*range(20)]


def test_a_stream_that_begins_with_the_latest(query: Query, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 0, 10)
    query.run(startingOffsets="latest")
    send(mq, topic, 10, 5)
    query.run(startingOffsets="latest")
    assert query.bodies == [*range(10, 15)]


def test_a_recreated_topic(query: Query, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 0, 10)
    query.run()
    mq.admin.delete_topic(topic)
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 10, 10)
    query.run()  # it was read to its end before it went
    assert query.bodies == [*range(20)]
    send(mq, topic, 20, 10)
    mq.admin.delete_topic(topic)
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 30, 10)
    with pytest.raises(
        DataLossError,
        match=r"offsets 20 … 29 were lost before the query read them: "
        r"deleted with their topic, which was then recreated",
    ):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.bodies == [*range(20), *range(30, 40)]


def test_a_checkpoint_of_another_cluster(query: Query, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 0, 10)
    query.run()
    query.edit(topics={f"{topic}/broker-a": "99@5"})
    with pytest.raises(
        CheckpointMismatchError, match=r"is at offset 10, but this queue has 0 … 10 in another topic of the same name"
    ):
        query.run(failOnDataLoss="false")


def test_a_batch_that_another_cluster_planned(query: Query, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=1)
    send(mq, topic, 0, 10)
    query.run()
    send(mq, topic, 10, 10)
    query.run(True)
    query.edit(topics={f"{topic}/broker-a": "99@5"})
    with pytest.raises(CheckpointMismatchError, match="in another topic of the same name"):
        query.run()


def test_a_topic_that_is_not_there(query: Query, topic: str) -> None:
    with pytest.raises(TopicNotFoundError, match=f"no broker has topic '{topic}'"):
        query.run()


def test_a_broker_that_comes_back_is_waited_for(query: Query, servers: Servers, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=2)
    send(mq, topic, 0, 10)
    query.run()
    servers.broker.kill()
    servers.broker.start()
    query.run()
    send(mq, topic, 10, 10)
    query.run()
    assert query.bodies == [*range(20)]
