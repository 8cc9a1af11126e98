"""One task of a read: the spans of queues that it fetches."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from litemq.spark.fetch import QueueSpan

__all__ = ["SpansPartition"]


class SpansPartition(InputPartition):
    """One task: these messages."""

    def __init__(self, spans: tuple[QueueSpan, ...]) -> None:
        super().__init__(None)
        self.spans = spans
