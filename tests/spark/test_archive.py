"""Archive on a real cluster: every message once, in every table format."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import litemq
from litemq.errors import CheckpointMismatchError, InvalidArgumentError, NoRouteError, TopicNotFoundError
from litemq.spark.pipelines import archive as archive_module
from litemq.spark.pipelines.archive import Archive
from litemq.spark.pipelines.compaction import compact_table
from litemq.spark.pipelines.config import UNPARSED, ArchiveConfig, TableFormat
from litemq.spark.pipelines.parsing import ParsedTables
from litemq.spark.pipelines.status import read_status
from litemq.spark.tables.opening import create_table, open_table
from litemq.spark.tables.table import Table
from support.servers import Servers


@pytest.fixture(params=["delta", "parquet"])
def kind(request: pytest.FixtureRequest) -> TableFormat:
    chosen: TableFormat = request.param
    return chosen


def send(servers: Servers, topic: str, count: int, *, queues: int = 3, body: bytes = b"body") -> None:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic(topic, queues=queues)
        for receipt in [mq.send_nowait(topic, b"%s %d" % (body, number)) for number in range(count)]:
            receipt.result(20)


def expected(servers: Servers, topic: str) -> Counter[tuple[str, str, int, int]]:
    with litemq.Client(servers.url) as mq:
        fact = mq.admin.describe_topic(topic)
    return Counter(
        (queue.broker, topic, queue.queue_id, offset)
        for queue in fact.queues
        for offset in range(queue.least, queue.next)
    )


def archived(location: str | Path) -> Counter[tuple[str, str, int, int]]:
    """Return the keys of all rows of a table."""
    found: Counter[tuple[str, str, int, int]] = Counter()
    table = open_table(str(location))
    for file in table.files():
        rows = pq.read_table(
            Path(location) / file.path, columns=["broker", "queue_id", "queue_offset"], partitioning=None
        )
        assert rows.num_rows == file.rows
        for row in rows.to_pylist():
            found[row["broker"], file.partition["topic"], row["queue_id"], row["queue_offset"]] += 1
    return found


@pytest.mark.essential
def test_a_topic_is_archived_once_and_goes_on(
    spark: SparkSession, servers: Servers, tmp_path: Path, kind: TableFormat
) -> None:
    topic = f"archive-{kind}"
    config = ArchiveConfig(
        url=servers.url, topics=(topic,), table=str(tmp_path / "lake"), table_format=kind, max_rows_per_batch=400
    )
    send(servers, topic, 1000)
    said: list[str] = []
    Archive(spark, config, print_line=said.append).run(once=True)
    assert archived(config.table) == expected(servers, topic)
    assert len(said) == 3
    assert said[-1].startswith("batch 2: 200 rows in 1 files")
    assert said[-1].endswith(", 0 behind")
    Archive(spark, config, print_line=said.append).run(once=True)
    assert said[-1] == "no new messages to archive"
    assert archived(config.table) == expected(servers, topic)
    send(servers, topic, 100)
    Archive(spark, config).run(once=True)
    assert archived(config.table) == expected(servers, topic)
    status = read_status(config)
    assert (status["state"], status["rows_total"], status["lag"]) == ("stopped", 1100, 0)


@pytest.mark.parametrize("where", ["before the commit", "after the commit", "while files are joined"])
def test_a_batch_that_fails_is_done_again_and_is_there_once(
    spark: SparkSession, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    topic = "archive-" + where.replace(" ", "-")
    config = ArchiveConfig(url=servers.url, topics=(topic,), table=str(tmp_path / "lake"), compact_every_batches=1)
    send(servers, topic, 300)

    def fail(*_: object, **__: object) -> None:
        raise InvalidArgumentError("the power is gone")

    with monkeypatch.context() as patch:
        if where == "before the commit":
            patch.setattr(ParsedTables, "parse", fail)
        else:
            patch.setattr(archive_module, "report_archived" if where == "after the commit" else "compact_table", fail)
        with pytest.raises(InvalidArgumentError, match="the power is gone"):
            Archive(spark, config).run(once=True)
    assert read_status(config)["state"] == "failed"
    send(servers, topic, 50)
    Archive(spark, config).run(once=True)
    assert archived(config.table) == expected(servers, topic)


def test_it_stops_after_the_batch(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    config = ArchiveConfig(
        url=servers.url, topics=("stops",), table=str(tmp_path / "lake"), trigger_ms=0, max_rows_per_batch=50
    )
    send(servers, "stops", 300)
    said: list[str] = []
    Archive(spark, config, print_line=said.append).run(stopping=lambda: len(said) >= 2)
    assert len(said) >= 2
    assert sum(archived(config.table).values()) == 50 * len(said)
    assert read_status(config)["state"] == "stopped"


class LockWithBatchWaiting:
    """A lock of an archive, which its stopping thread gets only while a batch is about to begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopper = threading.current_thread()
        self._batch_waits = threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread() is self._stopper:
            self._lock.acquire()
            assert self._batch_waits.wait(60)
        else:
            self._batch_waits.set()
            self._lock.acquire()
            self._batch_waits.clear()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_batch_that_is_about_to_begin_does_not_block_the_stop(
    spark: SparkSession, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ArchiveConfig(
        url=servers.url, topics=("stops-between",), table=str(tmp_path / "lake"), trigger_ms=0, max_rows_per_batch=5
    )
    send(servers, "stops-between", 300)
    spark.conf.set("spark.sql.streaming.stopTimeout", "60s")  # a stop that waits for itself fails, and does not hang
    try:
        archive = Archive(spark, config)
        monkeypatch.setattr(archive, "_in_batch", LockWithBatchWaiting())
        archive.run(stopping=lambda: True)
    finally:
        spark.conf.unset("spark.sql.streaming.stopTimeout")
    assert read_status(config)["state"] == "stopped"
    Archive(spark, replace(config, max_rows_per_batch=1000)).run(once=True)
    assert archived(config.table) == expected(servers, "stops-between")


def test_small_files_are_joined_while_the_archive_goes_on(
    spark: SparkSession, servers: Servers, tmp_path: Path, kind: TableFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"joined-{kind}"
    config = ArchiveConfig(
        url=servers.url, topics=(topic,), table=str(tmp_path / "lake"), table_format=kind, max_rows_per_batch=100
    )
    send(servers, topic, 300)
    Archive(spark, config).run(once=True)
    table = open_table(config.table)
    assert len(table.files()) >= 3
    monkeypatch.setattr("litemq.spark.pipelines.compaction.time", _InTwoHours)
    done = compact_table(spark, table, config)
    assert (done.files_before, done.files_after) == (
        len(table.files()) + done.files_before - done.files_after,
        len(table.files()),
    )
    assert len(table.files()) < 3
    assert archived(config.table) == expected(servers, topic)
    send(servers, topic, 100)
    Archive(spark, config).run(once=True)
    assert archived(config.table) == expected(servers, topic)


class _InTwoHours:
    @staticmethod
    def time() -> float:
        return time.time() + 7200


def test_bodies_are_parsed_once_and_unparsed_bodies_are_recorded(
    spark: SparkSession, servers: Servers, tmp_path: Path, kind: TableFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, given = f"free-{kind}", f"given-{kind}"
    config = ArchiveConfig(
        url=servers.url,
        topics=(free, given),
        table=str(tmp_path / "lake"),
        table_format=kind,
        parsed={free: "variant", given: "id bigint, names array<string>"},
    )
    with litemq.Client(servers.url, compression_type="zstd", compression_min_bytes=64) as mq:
        for topic in (free, given):
            mq.admin.create_topic(topic, queues=1)
            mq.send(topic, b'{"id": 1, "names": ["a", "b"]}')
            mq.send(topic, b'{"id": 2, "names": ["' + b"c" * 500 + b'"]}')
            mq.send(topic, b"no JSON")
            mq.send(topic, b"\xff")
        mq.send(given, b'{"id": "x"}')

    def fail(*_: object, **__: object) -> None:
        raise InvalidArgumentError("the power is gone")

    with monkeypatch.context() as patch:  # parsed tables have it, that of the messages does not
        patch.setattr(archive_module, "create_table", lambda *args: _failing(open_or_create(*args), fail))
        with pytest.raises(InvalidArgumentError, match="the power is gone"):
            Archive(spark, config).run(once=True)
    Archive(spark, config).run(once=True)
    assert archived(config.table) == expected(servers, free) + expected(servers, given)
    rows = parsed_rows(spark, config, free, "queue_offset bigint, value variant")
    assert rows.selectExpr("queue_offset", "variant_get(value, '$.id', 'int')").collect() == [(0, 1), (1, 2)]
    rows = parsed_rows(spark, config, given, "queue_offset bigint, id bigint, names array<string>")
    assert [(row.id, len(row.names)) for row in rows.collect()] == [(1, 2), (2, 1)]
    rows = parsed_rows(
        spark, config, UNPARSED, "topic string, queue_offset bigint, reason string, body binary"
    ).orderBy("topic", "queue_offset")
    assert [(row.topic, row.queue_offset, row.reason) for row in rows.collect()] == [
        (free, 2, "not JSON"),
        (free, 3, "not UTF-8"),
        (given, 2, "not JSON with these columns"),
        (given, 3, "not UTF-8"),
        (given, 4, "not JSON with these columns"),
    ]


def open_or_create(location: str, kind: TableFormat) -> Table:
    return create_table(location, kind)


def _failing(table: Table, fail: Callable[..., None]) -> Table:
    table.append = fail  # type: ignore[assignment, method-assign]
    return table


def parsed_rows(spark: SparkSession, config: ArchiveConfig, name: str, schema: str) -> DataFrame:
    location = config.parsed_table(name)
    paths = [f"{location}/{path.relative_to(location)}" for path in table_files(location)]
    return spark.read.schema(schema).parquet(*paths)


def table_files(location: str) -> list[Path]:
    """Return the files of a table, whatever its columns."""
    if (Path(location) / "_delta_log").exists():
        return [Path(uri) for uri in DeltaTable(location).file_uris()]
    manifests = [json.loads(file.read_text()) for file in sorted((Path(location) / "_batches").glob("0*.json"))]
    return [Path(location) / one["path"] for manifest in manifests for one in manifest["add"]]


def test_what_cannot_be_done_is_said_in_our_words(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    send(servers, "wordy", 3)
    config = ArchiveConfig(url=servers.url, topics=("wordy",), table=str(tmp_path / "lake"))
    with pytest.raises(TopicNotFoundError, match="Did you mean 'wordy'"):
        Archive(spark, replace(config, topics=("wordi",)))
    with pytest.raises(NoRouteError, match="no NameServer answers"):
        Archive(spark, replace(config, url="litemq://127.0.0.1:1"))
    with pytest.raises(InvalidArgumentError, match=r"parsed topic 'wordy': invalid columns 'id bigin'"):
        Archive(spark, replace(config, parsed={"wordy": "id bigin"}))
    Archive(spark, config).run(once=True)
    with pytest.raises(CheckpointMismatchError, match="already has rows"):
        Archive(spark, replace(config, checkpoint=str(tmp_path / "new")))
    with pytest.raises(CheckpointMismatchError, match="is the checkpoint of another table"):
        Archive(spark, replace(config, table=str(tmp_path / "other"), checkpoint=config.checkpoint_location))
    unmatched = replace(config, topics=(), topic_pattern="unmatched-.*", table=str(tmp_path / "empty"))
    said: list[str] = []
    Archive(spark, unmatched, print_line=said.append).run(once=True)
    assert said == ["no topic to archive yet"]
