"""Batch reader: topics as a table, as of the time the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from litemq.spark.brokers import BlockingCluster, QueueBounds
from litemq.spark.fetch import QueueSpan, thread_cluster
from litemq.spark.read.options import ReadOptions
from litemq.spark.read.partitions import SpansPartition
from litemq.spark.read.planning import batch_spans, chosen_queues, chosen_topics, edge_offsets, pack_tasks
from litemq.spark.read.pushdown import PushFilters, ReadScope
from litemq.spark.read.rows import RowQuery, read_rows
from litemq.spark.read.sampling import RowSizes

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """A batch read of the messages that exist when the query is planned."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._query = RowQuery.of(options, columns)
        self._scope = ReadScope()
        # Spark calls it if filter pushdown is enabled, and otherwise rejects a reader that defines
        # it: see ``PushFilters``.
        self.pushFilters = PushFilters(self._push)  # type: ignore[method-assign]

    def _push(self, filters: Sequence[Filter]) -> Iterator[Filter]:
        self._scope = ReadScope.from_filters(filters)
        yield from filters  # Spark still filters each row; the scope only skips queues and offset ranges

    def partitions(self) -> list[InputPartition]:
        options, cluster = self._options, thread_cluster(self._options.url)
        topics = chosen_topics(options, cluster.topics(options.include_system))
        queues = chosen_queues(
            options, cluster.queue_bounds(topic for topic in topics if self._scope.wants_topic(topic))
        )

        def at_time(queue: QueueBounds, ms: int) -> int:
            return cluster.offset_at_time(queue.broker, queue.topic, queue.queue_id, ms)

        begin = edge_offsets(options.start, queues, at_time, "startingOffsets")
        end = edge_offsets(options.end, queues, at_time, "endingOffsets")
        spans = self._within_times(
            batch_spans(begin, end, queues, fail_on_data_loss=options.fail_on_data_loss), cluster
        )
        parts = pack_tasks(
            spans,
            RowSizes(cluster, spans).mean_bytes,
            min_tasks=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        return [SpansPartition(part) for part in parts]

    def _within_times(self, spans: list[QueueSpan], cluster: BlockingCluster) -> list[QueueSpan]:
        """Cut ``spans`` to the requested times.

        Times never decrease within a queue, so they map to offsets.
        """
        scope = self._scope.with_times(self._options.stored_after, self._options.stored_before)
        kept = []
        for span in spans:
            cut = scope.cut(span, lambda span, ms: cluster.offset_at_time(span.broker, span.topic, span.queue_id, ms))
            if cut is not None:
                kept.append(cut)
        return kept

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spans = (
            partition.spans if isinstance(partition, SpansPartition) else ()
        )  # for an empty plan, Spark creates its own partition
        return read_rows(spans, self._query)
