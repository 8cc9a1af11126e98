"""Log files as a table: with and without a running broker, intact and damaged, in both versions."""

import time
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import litemq
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.storage.offline.export_v1 import export_messages
from litemq.types import Record
from support.servers import Servers
from support.stores import open_store, send
from support.waiting import HANG_S


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a data directory that no broker has open."""
    directory = tmp_path_factory.mktemp("log")
    store = open_store(directory)
    for first in range(0, 1000, 100):
        records = [
            Record("orders", b"x" * n, f"id-{n}", ("paid",), (f"k{n}", "é"), {"p": "q"}, delay_time=0)
            for n in range(first, first + 100)
        ]
        send(store, records, [n % 4 for n in range(100)])
    send(store, [Record("news", b"hello")])
    store.close()
    return directory


def log(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return (
        spark.read.format("litemq-log").options(**{name: str(value) for name, value in options.items()}).load(str(path))
    )


@pytest.mark.essential
def test_every_column_of_every_message(spark: SparkSession, data: Path) -> None:
    frame = log(spark, data, minPartitions=5, broker="broker-a")
    assert frame.columns == MESSAGE_SCHEMA.names
    assert frame.rdd.getNumPartitions() >= 5
    rows = frame.where("topic = 'orders'").orderBy("commitlog_offset").collect()
    assert [bytes(row.body) for row in rows] == [b"x" * n for n in range(1000)]
    row = rows[7].asDict()
    assert (row["message_id"], row["tags"], row["keys"], row["properties"]) == (
        "id-7",
        ["paid"],
        ["k7", "é"],
        {"p": "q"},
    )
    assert (row["broker"], row["queue_id"], row["queue_offset"], row["record_version"]) == ("broker-a", 3, 1, 2)
    assert row["delay_time"] is None
    assert row["store_timestamp"] is not None


def test_a_schema_or_columns_limit_what_is_read(spark: SparkSession, data: Path) -> None:
    named = log(spark, data, columns="queue_offset,topic", topic="news")
    assert named.columns == ["queue_offset", "topic"]
    assert [tuple(row) for row in named.collect()] == [(0, "news")]
    given = spark.read.format("litemq-log").schema("topic string, queue_offset bigint").load(str(data))
    assert given.count() == 1001
    assert log(spark, data, columns="broker").count() == 1001
    with pytest.raises(AnalysisException, match="unknown column 'bodies'"):
        log(spark, data, columns="bodies")
    with pytest.raises(PySparkException, match="column 'queue_offset' is bigint, not int"):
        spark.read.format("litemq-log").schema("queue_offset int").load(str(data)).count()


def test_what_is_wrong_is_said(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="Did you mean 'orders'"):
        log(spark, data, topic="order").count()
    with pytest.raises(AnalysisException, match=r"litemq-log has no option 'topics'\. Did you mean 'topic'"):
        log(spark, data, topics="orders")
    with pytest.raises(PySparkException, match="is not a data directory"):
        log(spark, tmp_path).count()


def test_several_directories_and_a_file_of_version_1(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    export_messages(data, tmp_path / "export")
    old = log(spark, tmp_path / "export", minPartitions=3)
    assert (old.count(), old.where("record_version = 1").count()) == (1001, 1001)
    both = spark.read.format("litemq-log").load([str(data), str(tmp_path / "export")])
    assert both.count() == 2002
    same = [
        "message_id",
        "topic",
        "queue_id",
        "queue_offset",
        "tags",
        "keys",
        "body",
        "born_timestamp",
        "store_timestamp",
    ]
    assert log(spark, data).select(same).exceptAll(old.select(same)).count() == 0


def test_damage(spark: SparkSession, data: Path, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, [Record("orders", b"%d" % n) for n in range(100)])
    store.close()
    segment = tmp_path / "commitlog" / f"{0:020d}"
    raw = bytearray(segment.read_bytes())
    at = raw.index(b"orders", 10_000)
    raw[at] ^= 1
    segment.write_bytes(raw)
    with pytest.raises(PySparkException, match=r"commitlog/0+ is damaged at byte \d+: "):
        log(spark, tmp_path).count()
    frame = log(spark, tmp_path, mode="permissive")
    assert frame.where("_corrupt is null").count() == 99
    damaged = frame.where("_corrupt is not null").collect()
    assert len(damaged) == 1
    assert damaged[0]["_corrupt"]["path"] == str(segment)
    assert at - 200 < damaged[0]["_corrupt"]["position"] < at
    assert damaged[0]["topic"] is None
    counted = log(spark, tmp_path, mode="permissive", columns="queue_offset")
    assert counted.where(col("_corrupt.reason").isNotNull()).count() == 1
    with pytest.raises(PySparkException, match="mode permissive needs the column _corrupt"):
        spark.read.format("litemq-log").schema("topic string").option("mode", "permissive").load(str(tmp_path)).count()


def test_an_empty_log_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    open_store(tmp_path).close()
    assert log(spark, tmp_path).count() == 0


def test_a_log_that_a_broker_writes(spark: SparkSession, servers: Servers) -> None:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("logged", queues=2)
        for n in range(50):
            mq.send("logged", b"%d" % n)
    deadline = time.monotonic() + HANG_S
    # A checkpoint is at most a second old; one that is older than the topic does not know its name.
    while log(spark, servers.data).where("topic = 'logged'").count() < 50:
        assert time.monotonic() < deadline
    rows = log(spark, servers.data, topic="logged", columns="body,broker").collect()
    assert sorted(int(row.body) for row in rows) == list(range(50))
    assert {row.broker for row in rows} == {"broker-a"}
