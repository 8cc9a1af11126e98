"""A sink that writes the same batch again: after a crash behind the write, and twice at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import litemq
from support.servers import Servers
from support.topic_rows import read_rows


def _create(servers: Servers, topic: str) -> str:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic(topic, queues=3)
    return topic


def _write(rows: DataFrame, servers: Servers, topic: str, job: str) -> None:
    writer = rows.write.format("litemq").mode("append").option("url", servers.url)
    writer.option("topic", topic).option("jobId", job).save()


def _bodies(servers: Servers, topic: str, expected: int) -> list[str]:
    return sorted(body.decode() for body in read_rows(servers.url, topic, expected)["body"].to_pylist())


def test_a_batch_of_foreach_batch_is_written_once(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    """The function fails behind its write, as a driver does that is killed there.

    Spark repeats the batch with the same number. Its tasks differ, so it has other attempts.
    """
    topic = _create(servers, "foreach-batch")
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.txt").write_text("".join(f"{number}-{row:03d}\n" for row in range(100)))
    attempts: list[int] = []

    def write(rows: DataFrame, batch_id: int) -> None:
        attempts.append(batch_id)
        is_repeated = attempts.count(batch_id) > 1
        _write(rows.repartition(3 if is_repeated else 2), servers, topic, f"foreach-{batch_id}")
        if not is_repeated:
            raise RuntimeError("the driver is killed here")

    def run() -> None:
        lines = spark.readStream.schema("body string").option("maxFilesPerTrigger", 1).text(str(source))
        writer = lines.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    for _ in range(3):
        with pytest.raises(PySparkException, match="the driver is killed here"):
            run()
    run()
    assert attempts == [0, 0, 1, 1, 2, 2]
    expected = [f"{number}-{row:03d}" for number in range(3) for row in range(100)]
    assert _bodies(servers, topic, 300) == expected


def test_the_first_of_two_attempts_decides(spark: SparkSession, servers: Servers) -> None:
    """A scheduler starts a job twice at the same time. All rows are those of one attempt."""
    topic = _create(servers, "twice-at-once")

    def attempt(name: str) -> str:
        # createDataFrame makes the session this thread's own: Spark looks there for data sources.
        names = spark.createDataFrame([(name,)], "name string")
        rows = (
            spark.range(0, 2000, 1, 2).crossJoin(names).select(f.format_string("%s-%04d", "name", "id").alias("body"))
        )
        try:
            _write(rows, servers, topic, "twice")
        except PySparkException as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as threads:
        errors = list(threads.map(attempt, ("one", "two")))
    assert "" in errors, errors
    bodies = _bodies(servers, topic, 2000)
    winner = bodies[0].split("-")[0]
    assert bodies == [f"{winner}-{number:04d}" for number in range(2000)]
    assert attempt("late") == ""
    assert _bodies(servers, topic, 2000) == bodies
    # One that lost, and failed for it, says that another attempt has decided.
    assert all("decided" in error for error in errors if error)
