"""Topics as a table: every requested message once, and LiteMQ's errors."""

import time
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import litemq
from support.servers import Servers
from support.waiting import HANG_S

MESSAGES = 6000


@pytest.fixture(scope="module")
def url(servers: Servers) -> str:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("orders", queues=4)
        mq.admin.create_topic("empty", queues=2)
        for start in range(0, MESSAGES, 500):
            messages = [
                litemq.OutgoingMessage(
                    b"%05d" % i,
                    tags=["even" if i % 2 == 0 else "odd"],
                    keys=[f"k{i % 100}"],
                    properties={"n": str(i)},
                    ordering_key=str(i),
                )
                for i in range(start, start + 500)
            ]
            mq.send_batch("orders", messages)
    return servers.url


def read(spark: SparkSession, url: str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("litemq").option("url", url)
    if not options.keys() & {"subscribe", "subscribePattern", "assign"}:
        reader = reader.option("subscribe", "orders")
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**options).load()


def failure(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


@pytest.mark.essential
def test_every_message_is_a_row(spark: SparkSession, url: str) -> None:
    rows = read(spark, url).collect()
    assert sorted(row.body for row in rows) == [b"%05d" % i for i in range(MESSAGES)]
    assert {row.broker for row in rows} == {"broker-a"}
    assert len({(row.queue_id, row.queue_offset) for row in rows}) == MESSAGES
    one = next(row for row in rows if row.body == b"00007")
    assert (one.topic, one.tags, one.keys, one.properties, one.sharding_key) == (
        "orders",
        ["odd"],
        ["k7"],
        {"n": "7"},
        "7",
    )
    assert one.store_timestamp.year >= 2024
    assert one.delay_time is None


def test_only_what_is_committed_is_a_row(spark: SparkSession, servers: Servers) -> None:
    """Messages of pending and rolled-back transactions are not read."""
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("accounts", queues=2)
        for body in (b"open", b"gone", b"kept"):
            receipt = mq.send_transaction("accounts", body, group_id="bank")
            if body == b"kept":
                mq.commit(receipt.transaction_id)
            elif body == b"gone":
                mq.rollback(receipt.transaction_id)
    assert [row.body for row in read(spark, servers.url, subscribe="accounts").collect()] == [b"kept"]
    # The files record once a second up to where they may be read; the message is the last record.
    end = time.monotonic() + HANG_S
    while not (log := spark.read.format("litemq-log").load(str(servers.data)).where("topic = 'accounts'")).count():
        assert time.monotonic() < end
    assert [(bytes(row.body), row.type) for row in log.select("body", "type").collect()] == [(b"kept", 2)]


def test_more_tasks_have_the_same_rows(spark: SparkSession, url: str) -> None:
    frame = read(
        spark,
        url,
        "broker string, queue_id bigint, queue_offset bigint",
        minPartitions="5",
        maxRecordsPerPartition="900",
    )
    assert frame.rdd.getNumPartitions() == 7
    assert len(set(frame.collect())) == MESSAGES


@pytest.mark.parametrize("how", ["schema", "columns"])
def test_only_some_columns(spark: SparkSession, url: str, how: str) -> None:
    frame = (
        read(spark, url, "queue_offset bigint, topic string")
        if how == "schema"
        else read(spark, url, columns="queue_offset,topic")
    )
    assert frame.columns == ["queue_offset", "topic"]
    assert frame.count() == MESSAGES


def test_by_tag_and_key(spark: SparkSession, url: str) -> None:
    assert read(spark, url, tag="odd", columns="tags").distinct().collect() == [(["odd"],)]
    bodies = [row.body for row in read(spark, url, key="k7", columns="body").collect()]
    assert sorted(bodies) == [b"%05d" % i for i in range(7, MESSAGES, 100)]
    assert read(spark, url, tag="even", key="k7", columns="topic").count() == 0


def test_by_offsets(spark: SparkSession, url: str) -> None:
    chosen = read(
        spark, url, "queue_id bigint, queue_offset bigint", assign='{"orders": [0, "broker-a/2"]}',
        startingOffsets='{"orders": {"0": 10}}', endingOffsets='{"orders": {"0": 15, "2": 3}}',
    )  # fmt: skip
    assert sorted(map(tuple, chosen.collect())) == [(0, i) for i in range(10, 15)] + [(2, i) for i in range(3)]


def test_by_time(spark: SparkSession, url: str) -> None:
    times = sorted(row.store_timestamp for row in read(spark, url, columns="store_timestamp").collect())
    middle = times[len(times) // 2].replace(tzinfo=UTC)
    below = sum(time.replace(tzinfo=UTC) < middle for time in times)
    iso = middle.isoformat()
    assert read(spark, url, columns="topic", storedBefore=iso).count() == below
    assert read(spark, url, columns="topic", storedAfter=iso).count() == MESSAGES - below
    assert read(spark, url, columns="topic", startingTimestamp=iso).count() == MESSAGES - below
    assert read(spark, url, columns="topic", endingTimestamp=iso).count() == below
    assert datetime.now(UTC) > middle


def test_topics_by_pattern_and_those_of_the_brokers_own(spark: SparkSession, url: str) -> None:
    assert read(spark, url, subscribePattern="or.*|empty", columns="topic").count() == MESSAGES
    assert read(spark, url, subscribe="LITEMQ_SYS_AUDIT", includeSystem="true", columns="topic").count() == 0
    with pytest.raises(Exception, match="LITEMQ_SYS_CONTROL"):
        read(spark, url, subscribe="LITEMQ_SYS_CONTROL", includeSystem="true", columns="topic").count()
    topics = {row.topic for row in read(spark, url, subscribePattern=".*", columns="topic").distinct().collect()}
    assert topics - {"accounts"} == {"orders"}  # another test sends to accounts, before or after this one


def test_an_empty_topic(spark: SparkSession, url: str) -> None:
    assert read(spark, url, subscribe="empty").collect() == []


@pytest.mark.essential
def test_filters_are_pushed_down_where_that_is_on(spark: SparkSession, url: str) -> None:
    assert read(spark, url).where("queue_id = 1 AND queue_offset < 10").count() == 10
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, url)
        narrowed = frame.where("queue_id = 1 AND queue_offset >= 5 AND queue_offset < 10")
        assert narrowed.count() == 5
        assert narrowed.rdd.getNumPartitions() == 1
        assert frame.where("topic = 'other'").count() == 0
        assert frame.where("tags[0] = 'odd'").count() == MESSAGES // 2
        assert frame.count() == MESSAGES
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_what_goes_wrong_is_said_in_our_words(spark: SparkSession, url: str) -> None:
    assert "no broker has topic 'order'. Did you mean 'orders'?" in failure(read(spark, url, subscribe="order"))
    assert "no NameServer answers at litemq://127.0.0.1:1" in failure(read(spark, "litemq://127.0.0.1:1"))
    assert "were requested, but it has 0" in failure(read(spark, url, startingOffsets='{"orders": {"0": 999999}}'))
    for options, said in (
        ({"subscribed": "orders"}, "no option 'subscribed'. Did you mean 'subscribe'?"),
        ({"columns": "bodi"}, "unknown column 'bodi'"),
        ({"startingOffsets": "latest"}, "there is nothing after the latest message"),
    ):
        with pytest.raises(PySparkException) as caught:
            read(spark, url, **options).collect()
        assert said in str(caught.value)
    assert "'queue_id' is bigint, not string" in failure(read(spark, url, "queue_id string"))
