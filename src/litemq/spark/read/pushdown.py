"""Filter pushdown: skips topics, queues and offset ranges that a query's filters exclude."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Self

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from litemq.spark.brokers import BrokerTopic
from litemq.spark.fetch import QueueSpan

__all__ = ["PushFilters", "ReadScope"]

_NAMES = ("topic", "broker", "queue_id")


class PushFilters:
    """A reader's ``pushFilters`` that works whether Spark's filter pushdown is enabled or not.

    While ``spark.sql.python.filterPushdown.enabled`` is off, the default, Spark rejects a reader
    that overrides ``pushFilters``. It compares the function behind the method, so ``__func__`` is
    Spark's own.
    """

    def __init__(self, push: Callable[[Sequence[Filter]], Iterable[Filter]]) -> None:
        self._push = push
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: Sequence[Filter]) -> Iterable[Filter]:
        return self._push(filters)


class ReadScope:
    """The topics, queues, offsets and times that a read must cover."""

    def __init__(self) -> None:
        self._values: dict[str, set[Any]] = {}
        self._offsets = (0, 1 << 62)
        self._times: tuple[int | None, int | None] = (None, None)  # [first, second) in ms

    @classmethod
    def from_filters(cls, filters: Sequence[Filter]) -> Self:
        """Narrow a read by ``filters``. A filter that is not understood narrows nothing."""
        scope = cls()
        for each in filters:
            column = ".".join(getattr(each, "attribute", ()))
            value = getattr(each, "value", None)
            if column in _NAMES and isinstance(each, EqualTo | In):
                values = set(value) if isinstance(each, In) and isinstance(value, tuple) else {value}
                scope._values[column] = scope._values.get(column, values) & values
            elif column == "queue_offset" and isinstance(value, int):
                scope._narrow_offsets(each, value)
            elif column == "store_timestamp" and isinstance(value, datetime):
                scope._narrow_times(each, value)
        return scope

    def _narrow_offsets(self, each: Filter, value: int) -> None:
        first, end = self._offsets
        if isinstance(each, EqualTo | GreaterThanOrEqual):
            first = max(first, value)
        if isinstance(each, GreaterThan):
            first = max(first, value + 1)
        if isinstance(each, EqualTo | LessThanOrEqual):
            end = min(end, value + 1)
        if isinstance(each, LessThan):
            end = min(end, value)
        self._offsets = first, end

    def _narrow_times(self, each: Filter, value: datetime) -> None:
        """Narrow to the whole milliseconds around ``value``; Spark's own filter is exact."""
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        ms = int(moment.timestamp() * 1000)
        if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
            self._times = (max(self._times[0] or 0, ms - 1), self._times[1])
        if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
            self._times = (self._times[0], min(self._times[1] or ms + 2, ms + 2))

    def with_times(self, after: int | None, before: int | None) -> ReadScope:
        """Return a copy that is also limited to these times (ms)."""
        scope = ReadScope()
        scope._values, scope._offsets = self._values, self._offsets
        firsts = [each for each in (self._times[0], after) if each is not None]
        ends = [each for each in (self._times[1], before) if each is not None]
        scope._times = (max(firsts, default=None), min(ends, default=None))
        return scope

    def wants_topic(self, topic: BrokerTopic) -> bool:
        """Return whether the scope includes ``topic``."""
        return all(
            value in self._values.get(name, {value})
            for name, value in (("topic", topic.topic), ("broker", topic.broker))
        )

    def cut(self, span: QueueSpan, at_time: Callable[[QueueSpan, int], int]) -> QueueSpan | None:
        """Return the part of ``span`` inside the scope, or ``None``."""
        if span.queue_id not in self._values.get("queue_id", {span.queue_id}):
            return None
        begin, end = max(span.begin, self._offsets[0]), min(span.end, self._offsets[1])
        after, before = self._times
        if begin < end and after is not None:
            begin = max(begin, at_time(span, after))
        if begin < end and before is not None:
            end = min(end, at_time(span, before))
        return span._replace(begin=begin, end=end) if begin < end else None
