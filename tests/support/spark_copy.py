"""A streaming query from one topic of ours into another, as a driver of its own.

    spark_copy.py MASTER URL SOURCE TARGET CHECKPOINT [--once] [--fail-after-half FLAG]

Each message's body in TARGET is its position in SOURCE. With ``--fail-after-half``, the first
attempt of the first task fails when it has written half of its rows, and then the file FLAG exists.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def session(master: str) -> SparkSession:
    """Small, on loopback."""
    built = (
        SparkSession.builder.master(master)
        .appName("copy")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "200")  # a task has written some when it fails
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("ERROR")
    return built


def failing_after_half(rows: DataFrame, flag: Path) -> DataFrame:
    """Return the same rows; the first attempt of the first task raises after half of them, once."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        fails = task is not None and task.partitionId() == 0 and task.attemptNumber() == 0 and not flag.exists()
        for batch in batches:
            if not fails or batch.num_rows < 2:
                yield batch
                continue
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            flag.touch()
            raise RuntimeError(f"made to fail after {half} of {batch.num_rows} rows")

    return rows.mapInArrow(pass_on, rows.schema)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("master", "url", "source", "target", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--per-batch", default="20000")
    parser.add_argument("--fail-after-half", type=Path)
    given = parser.parse_args()

    spark = session(given.master)
    messages = (
        spark.readStream.format("litemq")
        .option("url", given.url)
        .option("subscribe", given.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.per_batch)
        .load()
    )
    place = f.concat_ws("/", "broker", "queue_id", "queue_offset")
    rows = messages.select(place.cast("binary").alias("body"), f.array(place).alias("keys"))
    if given.fail_after_half:
        rows = failing_after_half(rows, given.fail_after_half)
    writing = rows.writeStream.format("litemq").option("url", given.url).option("topic", given.target)
    writing = writing.option("checkpointLocation", given.checkpoint)
    writing = writing.trigger(availableNow=True) if given.once else writing.trigger(processingTime="0 seconds")
    query = writing.start()
    print("started", flush=True)  # noqa: T201
    query.awaitTermination()


if __name__ == "__main__":
    main()
