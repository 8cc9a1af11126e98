"""Estimates of record sizes, from which the planner sizes tasks in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litemq.errors import LiteMQError
from litemq.spark.fetch import ClusterReader, QueueSpan

__all__ = ["RowSizes"]

_SAMPLE_BYTES: Final = 64 << 10
_DEFAULT_ROW_BYTES: Final = 1024.0


class RowSizes:
    """Mean record size per topic, sampled once from the middle of its longest span."""

    def __init__(self, cluster: ClusterReader, spans: Sequence[QueueSpan]) -> None:
        self._cluster = cluster
        self._spans = spans
        self._known: dict[str, float] = {}

    def mean_bytes(self, topic: str) -> float:
        """Return the mean size of a record of ``topic``."""
        if topic not in self._known:
            longest = max((span for span in self._spans if span.topic == topic), key=lambda span: span.end - span.begin)
            self._known[topic] = self._sampled(longest)
        return self._known[topic]

    def _sampled(self, span: QueueSpan) -> float:
        middle = (span.begin + span.end) // 2
        try:
            records, count = self._cluster.sample(span._replace(begin=middle), _SAMPLE_BYTES)
        except LiteMQError:
            return _DEFAULT_ROW_BYTES  # the task that reads it will raise the error
        return len(records) / count if count else _DEFAULT_ROW_BYTES
