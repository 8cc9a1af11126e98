"""Topics as a stream in Spark: batches, restarts, new topics and errors."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import litemq
from support.servers import Servers

COLUMNS = "broker,topic,queue_id,queue_offset,body"


@pytest.fixture
def mq(servers: Servers) -> Iterator[litemq.Client]:
    with litemq.Client(servers.url) as client:
        yield client


def send(mq: litemq.Client, topic: str, first: int, count: int) -> None:
    mq.send_batch(topic, [litemq.OutgoingMessage(b"%d" % i, ordering_key=str(i)) for i in range(first, first + count)])


class Stream:
    """A restartable query that collects the rows it reads."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self._spark = spark
        self.url = url
        self.folder = folder
        self.batches: list[list[bytes]] = []
        self.keys: list[tuple[Any, ...]] = []

    def _take(self, frame: Any, _batch: int) -> None:
        rows = frame.collect()
        self.batches.append([row.body for row in rows])
        self.keys += [(row.broker, row.topic, row.queue_id, row.queue_offset) for row in rows]

    def start(self, available_now: bool = True, **options: str) -> StreamingQuery:
        reader = self._spark.readStream.format("litemq").options(
            url=self.url, columns=COLUMNS, **{"startingOffsets": "earliest"} | options
        )
        writer = (
            reader.load()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
        )
        return (
            writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        ).start()

    def run(self, **options: str) -> None:
        """Run to the end of the topic."""
        self.start(True, **options).awaitTermination()

    @property
    def bodies(self) -> list[int]:
        assert len(set(self.keys)) == len(self.keys)
        return sorted(int(body) for batch in self.batches for body in batch)


@pytest.fixture
def stream(spark: SparkSession, servers: Servers, tmp_path: Path) -> Stream:
    return Stream(spark, servers.url, tmp_path)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid4().hex[:8]}"


def failure(run: Callable[[], None]) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        run()
    return str(caught.value)


@pytest.mark.essential
def test_batches_are_as_large_as_allowed_and_a_restart_goes_on(stream: Stream, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=3)
    send(mq, topic, 0, 250)
    stream.run(subscribe=topic, maxOffsetsPerTrigger="100", groupId=f"g-{topic}")
    assert [len(batch) for batch in stream.batches] == [100, 100, 50]
    assert stream.bodies == [*range(250)]
    send(mq, topic, 250, 30)
    stream.run(subscribe=topic, groupId=f"g-{topic}")
    assert stream.bodies == [*range(280)]
    group = mq.admin.describe_group(f"g-{topic}")
    assert group is not None
    assert sum(queue.committed for queue in group.queues) == 250, (
        "of the last batch, the group hears when the query goes on"
    )


def test_a_running_stream_finds_new_messages_and_new_topics(stream: Stream, mq: litemq.Client, topic: str) -> None:
    mq.admin.create_topic(topic, queues=1)
    query = stream.start(False, subscribePattern=f"{topic}.*")
    try:
        send(mq, topic, 0, 10)
        query.processAllAvailable()
        assert stream.bodies == [*range(10)]
        mq.admin.create_topic(f"{topic}-more", queues=1)
        send(mq, f"{topic}-more", 10, 10)
        query.processAllAvailable()
        assert stream.bodies == [*range(20)]
        progress = query.lastProgress
        assert progress is not None
        latest = progress["sources"][0]["latestOffset"]
        latest = json.loads(latest) if isinstance(latest, str) else latest
        assert latest["queues"] == {f"{topic}-more/broker-a/0": 10, f"{topic}/broker-a/0": 10}
    finally:
        query.stop()


def test_a_topic_that_is_not_there(stream: Stream, topic: str) -> None:
    assert f"no broker has topic '{topic}'" in failure(lambda: stream.run(subscribe=topic))
