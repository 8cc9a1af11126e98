"""Spark sink: every column is written, and each row once."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import litemq
from litemq.client.engine.routes import queue_for_key
from support.servers import Servers
from support.topic_rows import read_rows

SCHEMA = (
    "body binary, keys array<string>, tags array<string>, properties map<string,string>, "
    "ordering_key string, message_id string"
)


def _create(servers: Servers, topic: str, **settings: Any) -> str:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic(topic, queues=3, **settings)
    return topic


def _write(rows: DataFrame, servers: Servers, **options: str) -> None:
    rows.write.format("litemq").mode("append").option("url", servers.url).options(**options).save()


def _numbers(rows: pa.Table) -> list[int]:
    return sorted(int(body) for body in rows["body"].to_pylist())


@pytest.mark.essential
def test_every_column_arrives(spark: SparkSession, servers: Servers) -> None:
    topic = _create(servers, "columns")
    full = [(b"one", ["k1", "k2"], ["red"], {"a": "b"}, "cart 7", "id-1"), (b"two", None, None, None, None, None)]
    _write(spark.createDataFrame(full, SCHEMA), servers, topic=topic)
    one, two = sorted(read_rows(servers.url, topic, 2).to_pylist(), key=lambda row: bytes(row["body"]))
    assert (one["keys"], one["tags"], dict(one["properties"])) == (["k1", "k2"], ["red"], {"a": "b"})
    assert (one["sharding_key"], one["message_id"], one["queue_id"]) == ("cart 7", "id-1", queue_for_key("cart 7", 3))
    assert (two["keys"], two["tags"], two["properties"], two["sharding_key"]) == ([], [], [], "")
    assert len(two["message_id"]) == 31
    with litemq.Client(servers.url) as mq, mq.consumer(topic, group_id="readers") as consumer:
        bodies = {next(iter(consumer)).body for _ in range(2)}
    assert bodies == {b"one", b"two"}


def test_rows_choose_their_topic_time_and_priority(spark: SparkSession, servers: Servers) -> None:
    one, two = _create(servers, "choose-1"), _create(servers, "choose-2", priorities="strict")
    now = dt.datetime.now(dt.UTC)
    before, later = now - dt.timedelta(hours=1), now + dt.timedelta(hours=1)
    rows = spark.createDataFrame(
        [
            ("now", one, None, None),
            ("before", one, before, None),
            ("later", one, later, None),
            ("low", two, None, 3),
            ("high", two, None, 250),
        ],
        "body string, topic string, deliver_at timestamp, priority int",
    )
    _write(rows, servers)
    found = {row["body"]: row for topic in (one, two) for row in read_rows(servers.url, topic, 2).to_pylist()}
    assert sorted(found) == [b"before", b"high", b"low", b"now"]  # what is due later waits for its time
    assert found[b"low"]["queue_id"] % 8 == 0
    assert found[b"high"]["queue_id"] % 8 == 7
    assert found[b"now"]["delay_time"] is None
    assert before <= found[b"before"]["delay_time"] <= before + dt.timedelta(milliseconds=1)


def test_a_repeated_job_writes_once(spark: SparkSession, servers: Servers) -> None:
    topic = _create(servers, "jobs")
    rows = spark.range(1000).select(f.col("id").cast("string").alias("body")).repartition(3)
    for _ in range(2):
        _write(rows, servers, topic=topic, jobId="2026-11-15")
    assert _numbers(read_rows(servers.url, topic, 1000)) == list(range(1000))
    _write(rows, servers, topic=topic)
    assert _numbers(read_rows(servers.url, topic, 2000)) == sorted([*range(1000), *range(1000)])


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, servers: Servers) -> None:
    topic = _create(servers, "fails")
    rows = spark.range(0, 5000, 1, 2).select(f.col("id").cast("string").alias("body"))
    with pytest.raises(PySparkException, match="half way"):
        _write(rows.mapInArrow(_fails_half_way, "body string"), servers, topic=topic)
    _write(spark.createDataFrame([("7",)], "body string"), servers, topic=topic)
    assert _numbers(read_rows(servers.url, topic, 1)) == [7]


def _fails_half_way(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 2)
        raise RuntimeError("half way")


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("body string, colour string", {"topic": "t"}, "column 'colour' cannot be written"),
        ("body string", {}, "no topic"),
        ("body string", {"topic": "t", "topics": "u"}, "Did you mean 'topic'"),
        ("body string", {"topic": "not-there"}, "no broker has topic 'not-there'"),
    ],
)
def test_what_is_wrong_is_said_in_our_words(
    spark: SparkSession, servers: Servers, columns: str, options: dict[str, str], words: str
) -> None:
    rows = spark.createDataFrame([("x",) * len(columns.split(","))], columns)
    with pytest.raises(PySparkException, match=words):
        _write(rows, servers, **options)


def test_a_topic_is_not_overwritten(spark: SparkSession, servers: Servers) -> None:
    with pytest.raises(PySparkException, match="append-only"):
        spark.range(1).select(f.lit("x").alias("body")).write.format("litemq").mode("overwrite").option(
            "url", servers.url
        ).save()


# Streams ------------------------------------------------------------------------------------------


class Stream:
    """A stream of files of numbers to a topic, one batch per file."""

    def __init__(self, spark: SparkSession, servers: Servers, topic: str, folder: Path) -> None:
        self._spark, self._servers, self.topic = spark, servers, topic
        self._source, self.checkpoint, self.marker = folder / "source", folder / "checkpoint", folder / "marker"
        self._source.mkdir()
        self._written = 0

    def add(self, files: int, rows: int) -> None:
        for _ in range(files):
            numbers = range(self._written * rows, (self._written + 1) * rows)
            (self._source / f"{self._written}.txt").write_text("".join(f"{number}\n" for number in numbers))
            self._written += 1

    def run(self, *, failing: bool = False) -> None:
        rows = self._spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).text(str(self._source))
        marker = str(self.marker)

        def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.slice(0, batch.num_rows // 2)
                if not Path(marker).exists():
                    Path(marker).touch()
                    raise RuntimeError("half way")
                yield batch.slice(batch.num_rows // 2)

        (
            (rows.mapInArrow(fail_once, "body string") if failing else rows)
            .writeStream.format("litemq")
            .option("url", self._servers.url)
            .option("topic", self.topic)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


@pytest.fixture
def stream(spark: SparkSession, servers: Servers, tmp_path: Path, request: pytest.FixtureRequest) -> Stream:
    return Stream(spark, servers, _create(servers, request.node.name.replace("_", "-")[:60]), tmp_path)


@pytest.mark.essential
def test_a_stream_writes_each_row_once_though_a_task_fails(stream: Stream, servers: Servers) -> None:
    stream.add(3, 100)
    with pytest.raises(PySparkException, match="half way"):
        stream.run(failing=True)
    stream.run(failing=True)
    assert _numbers(read_rows(servers.url, stream.topic, 300)) == list(range(300))


def test_a_batch_that_spark_repeats_is_not_written_again(stream: Stream, servers: Servers) -> None:
    """Simulate a driver that dies between our commit and Spark's."""
    stream.add(2, 50)
    stream.run()
    for commit in (stream.checkpoint / "commits").glob("*1*"):
        commit.unlink()
    stream.add(1, 50)
    stream.run()
    assert _numbers(read_rows(servers.url, stream.topic, 150)) == list(range(150))


def test_a_new_checkpoint_is_a_new_query(stream: Stream, servers: Servers) -> None:
    stream.add(1, 10)
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.run()
    assert _numbers(read_rows(servers.url, stream.topic, 20)) == sorted([*range(10)] * 2)
