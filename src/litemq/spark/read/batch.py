"""Reading topics as a table, as they are when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from litemq.spark.brokers import Links, QueueBounds
from litemq.spark.fetch import QueueSpan, links_to
from litemq.spark.read.options import ReadOptions
from litemq.spark.read.partitions import SpansPartition
from litemq.spark.read.planning import bounded, chosen_places, chosen_queues, edge, packed
from litemq.spark.read.pushdown import Narrowed, PushFilters
from litemq.spark.read.rows import RowsWanted, rows_of
from litemq.spark.read.sampling import RowSizes

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """Everything that is there when the query is planned, or a part of it."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._wanted = RowsWanted(options.url, columns, options.tag, options.key, options.fail_on_data_loss)
        self._narrowed = Narrowed()
        # Spark calls it where filters are pushed down, and takes offence at it where they are not, unless it looks like its own.
        self.pushFilters = PushFilters(self._push)  # type: ignore[method-assign]

    def _push(self, filters: Sequence[Filter]) -> Iterator[Filter]:
        self._narrowed = Narrowed.by(filters)
        yield from filters  # Spark looks at each row once more: here, whole queues and parts of them are left out

    def partitions(self) -> list[InputPartition]:
        options, links = self._options, links_to(self._options.url)
        places = chosen_places(options, links.topics(options.include_system))
        queues = chosen_queues(options, links.ranges(place for place in places if self._narrowed.wants_topic(place)))

        def at_time(queue: QueueBounds, ms: int) -> int:
            return links.offset_at_time(queue.broker, queue.topic, queue.queue_id, ms)

        begin = edge(options.start, queues, at_time, "startingOffsets")
        end = edge(options.end, queues, at_time, "endingOffsets")
        spans = self._within_times(bounded(begin, end, queues, fail_on_data_loss=options.fail_on_data_loss), links)
        parts = packed(spans, RowSizes(links, spans).of, least=options.min_partitions, most_records=options.max_records_per_partition)
        return [SpansPartition(part) for part in parts]

    def _within_times(self, spans: list[QueueSpan], links: Links) -> list[QueueSpan]:
        """Times rise within a queue, and so are bounds of its offsets."""
        narrowed = self._narrowed.with_times(self._options.stored_after, self._options.stored_before)
        kept = []
        for span in spans:
            cut = narrowed.cut(span, lambda span, ms: links.offset_at_time(span.broker, span.topic, span.queue_id, ms))
            if cut is not None:
                kept.append(cut)
        return kept

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spans = partition.spans if isinstance(partition, SpansPartition) else ()  # Spark makes one of its own where there is none
        return rows_of(spans, self._wanted)
