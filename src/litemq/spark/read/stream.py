"""Stream reader: messages since the last batch, planned by the driver and read by tasks.

Spark's checkpoint is authoritative. Spark calls one reader for batch after batch; after a restart,
it calls a new reader for the same batch again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from litemq.errors import UnsupportedFeatureError
from litemq.spark.brokers import QueueBounds
from litemq.spark.fetch import ClusterReader, thread_cluster
from litemq.spark.read.group_offsets import GroupOffsets
from litemq.spark.read.options import ReadOptions
from litemq.spark.read.partitions import SpansPartition
from litemq.spark.read.planning import (
    Offsets,
    admitted_offsets,
    chosen_queues,
    chosen_topics,
    edge_offsets,
    pack_tasks,
    queue_name,
    resumed_offsets,
    spans_between,
    topic_name,
)
from litemq.spark.read.rows import RowQuery, read_rows
from litemq.spark.read.sampling import RowSizes

__all__ = ["StreamReader"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream of one query."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._query = RowQuery.of(options, columns)
        self._latest: dict[str, int] | None = None  # end offsets at the last look
        self._until: dict[str, int] | None = None  # with AvailableNow: end offsets when the query started
        self._followed = False
        self._group: GroupOffsets | None = None

    # Queues ---------------------------------------------------------------------------------------

    def _cluster(self) -> ClusterReader:
        return thread_cluster(self._options.url)

    def _queues(self) -> list[QueueBounds]:
        """Look up the queues and note their end offsets.

        Every batch does this: topics grow, and brokers are added.
        """
        cluster = self._cluster()
        topics = chosen_topics(self._options, cluster.topics(self._options.include_system))
        queues = chosen_queues(self._options, cluster.queue_bounds(topics))
        self._latest = {queue_name(queue): queue.end_offset for queue in queues}
        return queues

    # Interface to Spark ---------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        queues = self._queues()
        cluster = self._cluster()

        def at_time(queue: QueueBounds, ms: int) -> int:
            return cluster.offset_at_time(queue.broker, queue.topic, queue.queue_id, ms)

        begin = edge_offsets(self._options.start, queues, at_time, "startingOffsets")
        return Offsets(begin, {topic_name(queue): queue.identity for queue in queues}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = Offsets.from_json(start)
        now = self._follow(begin)
        latest = self._latest or {}
        if self._until is not None:
            latest = {name: min(offset, self._until.get(name, now.queues[name])) for name, offset in latest.items()}
        return admitted_offsets(now, begin.queues, latest, _max_rows(limit)).to_json()

    def _follow(self, begin: Offsets) -> Offsets:
        """Return ``begin`` for the queues that exist now. Raise if messages after it are lost."""
        now = resumed_offsets(begin, self._queues(), fail_on_data_loss=self._options.fail_on_data_loss)
        self._followed = True
        return now

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = Offsets.from_json(start), Offsets.from_json(end)
        if not self._followed:
            self._follow(first)  # another process planned this batch: check that the queues are the same
        spans = spans_between(first, last)
        sizes = RowSizes(self._cluster(), spans)
        parts = pack_tasks(
            spans,
            sizes.mean_bytes,
            min_tasks=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [SpansPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        spans = partition.spans if isinstance(partition, SpansPartition) else ()
        return read_rows(spans, self._query)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._queues()
        self._until = self._latest

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else {"queues": dict(sorted(self._latest.items()))}

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the progress as a group's offsets, for monitoring."""
        if self._options.group_id is not None:
            if self._group is None:
                self._group = GroupOffsets(self._options.url, self._options.group_id)
            self._group.commit(Offsets.from_json(end).queues)

    def stop(self) -> None:
        self._cluster().close()


def _max_rows(limit: ReadLimit) -> int | None:
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return None
    raise UnsupportedFeatureError(
        f"read limit {type(limit).__name__} is not supported: set maxOffsetsPerTrigger instead"
    )
