"""Spark partition of a read: the spans of queues that one task fetches."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from litemq.spark.fetch import QueueSpan

__all__ = ["SpansPartition"]


class SpansPartition(InputPartition):
    """The spans that one task reads."""

    def __init__(self, spans: tuple[QueueSpan, ...]) -> None:
        super().__init__(None)
        self.spans = spans
