"""Filter pushdown: skips queues and offset ranges, but never a matching row."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from litemq.spark.brokers import BrokerTopic
from litemq.spark.fetch import QueueSpan
from litemq.spark.read.pushdown import PushFilters, ReadScope

SPAN = QueueSpan("a", "orders", 1, 10, 20)


def cut(*filters: Filter) -> tuple[int, int] | None:
    span = ReadScope.from_filters(filters).cut(SPAN, lambda _span, ms: ms)
    return None if span is None else (span.begin, span.end)


def test_topics_and_brokers() -> None:
    narrowed = ReadScope.from_filters([In(("topic",), ("orders", "users")), EqualTo(("broker",), "a")])
    assert narrowed.wants_topic(BrokerTopic("a", "orders", 1))
    assert not narrowed.wants_topic(BrokerTopic("b", "orders", 1))
    assert not narrowed.wants_topic(BrokerTopic("a", "other", 1))
    assert not ReadScope.from_filters([EqualTo(("topic",), "x"), EqualTo(("topic",), "y")]).wants_topic(
        BrokerTopic("a", "x", 1)
    )


def test_queues_and_offsets() -> None:
    offset = ("queue_offset",)
    assert cut() == (10, 20)
    assert cut(EqualTo(("queue_id",), 2)) is None
    assert cut(GreaterThanOrEqual(offset, 15)) == (15, 20)
    assert cut(GreaterThan(offset, 15), LessThan(offset, 18)) == (16, 18)
    assert cut(LessThanOrEqual(offset, 18)) == (10, 19)
    assert cut(EqualTo(offset, 12)) == (12, 13)
    assert cut(EqualTo(offset, 30)) is None


def test_times_keep_the_millisecond_on_either_side() -> None:
    moment = datetime.fromtimestamp(0.015, UTC)
    assert cut(GreaterThan(("store_timestamp",), moment)) == (14, 20)
    assert cut(LessThan(("store_timestamp",), moment)) == (10, 17)
    assert cut(EqualTo(("store_timestamp",), moment)) == (14, 17)
    narrowed = (
        ReadScope.from_filters([LessThan(("store_timestamp",), moment)])
        .with_times(12, 16)
        .cut(SPAN, lambda _span, ms: ms)
    )
    assert narrowed == SPAN._replace(begin=12, end=16)


def test_what_is_not_understood_leaves_everything() -> None:
    assert cut(Not(EqualTo(("queue_id",), 1)), StringContains(("topic",), "x"), GreaterThan(("size",), 5)) == (10, 20)


def test_spark_takes_it_for_its_own_while_it_is_off() -> None:
    push = PushFilters(lambda filters: filters)
    assert getattr(push, "__func__", None) is DataSourceReader.pushFilters
    assert push([EqualTo(("topic",), "x")]) == [EqualTo(("topic",), "x")]
