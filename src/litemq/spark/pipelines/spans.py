"""Data source ``litemq-spans``: a stream whose rows are the spans of queues that a batch covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, InputPartition

from litemq.spark.fetch import QueueSpan, thread_cluster
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.read.options import parse_read_options
from litemq.spark.read.partitions import SpansPartition
from litemq.spark.read.planning import Offsets, chosen_topics, spans_between
from litemq.spark.read.stream import StreamReader

__all__ = ["SpansSource", "check_topics", "read_spans", "spans_stream"]

_SCHEMA: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
    ]
)


class SpansSource(DataSource):
    """The data source ``litemq-spans``: the source ``litemq`` without its messages."""

    @classmethod
    def name(cls) -> str:
        return "litemq-spans"

    def schema(self) -> str:
        return "broker string, topic string, queue_id int, begin bigint, end bigint"

    def streamReader(self, schema: Any) -> SpansReader:  # noqa: ARG002, N802 (Spark's names)
        return SpansReader(parse_read_options(self.options, "stream"), ())


class SpansReader(StreamReader):
    """A stream reader that plans batches but does not fetch them."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = Offsets.from_json(start), Offsets.from_json(end)
        if not self._followed:
            self._follow(first)
        return [SpansPartition(tuple(spans_between(first, last)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SpansPartition) and partition.spans:
            yield pa.RecordBatch.from_pylist([span._asdict() for span in partition.spans], _SCHEMA)


def _options(config: ArchiveConfig) -> dict[str, str]:
    topics = (
        {"subscribe": ",".join(config.topics)} if config.topics else {"subscribePattern": config.topic_pattern or ".*"}
    )
    return {
        "url": config.url,
        **topics,
        "startingOffsets": config.starting_offsets,
        "maxOffsetsPerTrigger": str(config.max_rows_per_batch),
        "failOnDataLoss": str(config.fail_on_data_loss).lower(),
    }


def check_topics(config: ArchiveConfig) -> list[str]:
    """Return the topics to archive. Raise if a named topic does not exist or no broker answers."""
    options = parse_read_options(_options(config), "stream")
    return sorted({each.topic for each in chosen_topics(options, thread_cluster(config.url).topics())})


def spans_stream(spark: SparkSession, config: ArchiveConfig) -> DataFrame:
    """Return the stream of spans to archive."""
    spark.dataSource.register(SpansSource)
    return spark.readStream.format(SpansSource.name()).options(**_options(config)).load()


def read_spans(rows: DataFrame) -> list[QueueSpan]:
    """Collect the spans of a batch, one per queue."""
    return [QueueSpan(*row) for row in rows.collect()]
