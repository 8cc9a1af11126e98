"""Spark standalone cluster: source, sink and archive, with a killed executor."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import litemq
from support.servers import Servers
from support.spark_processes import SparkCluster, SparkDriver, SparkProcess, spark_environment
from support.spark_rows import KEY, bodies_by_position, queue_entries, row_problems

WITHIN: Final = 900.0
SUPPORT: Final = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


def fill(servers: Servers, topic: str, count: int) -> None:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic(topic, queues=4)
        mq.send_batch(topic, [b"%d" % number for number in range(count)])


def wait_until(url: str, topic: str, count: int, driver: SparkProcess) -> None:
    """Wait until a topic has ``count`` messages."""
    until = time.monotonic() + WITHIN
    while sum(map(len, queue_entries(url, [topic]).values())) < count:
        assert driver.is_running, driver.tail()
        assert time.monotonic() < until, driver.tail()
        time.sleep(0.5)


def test_source_and_sink(servers: Servers, executors: SparkCluster, tmp_path: Path) -> None:
    count = 4000
    fill(servers, "standalone-source", count)
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("standalone-target", queues=2)
    arguments = [str(SUPPORT / "spark_copy.py"), executors.url, servers.url, "standalone-source", "standalone-target"]
    arguments += [str(tmp_path / "checkpoint"), "--once", "--per-batch=500"]
    with SparkDriver(arguments, tmp_path / "copy.log") as driver:
        wait_until(servers.url, "standalone-target", 500, driver)
        assert executors.kill_executor()
        assert driver.wait(WITHIN) == 0, driver.tail()
    expected = {
        f"{queue.broker}/{queue.queue_id}/{offset}".encode()
        for queue, offsets in queue_entries(servers.url, ["standalone-source"]).items()
        for offset in offsets
    }
    assert len(expected) == count
    assert Counter(bodies_by_position(servers.url, "standalone-target").values()) == Counter(expected)


def test_the_archive(servers: Servers, executors: SparkCluster, tmp_path: Path) -> None:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("standalone-orders", queues=2)
    table = tmp_path / "table"
    arguments = [
        "-m",
        "litemq",
        "pipeline",
        "run",
        "archive",
        f"--url={servers.url}",
        "--topics=standalone-orders",
        f"--table={table}",
    ]
    arguments += [
        "--trigger=0s",
        f"--spark-master={executors.url}",
        "--spark-settings=spark.executor.memory=512m;spark.executor.cores=1",
    ]
    producing = [
        sys.executable,
        str(SUPPORT / "spark_producer.py"),
        servers.url,
        "standalone-orders",
        "1000000",
        "2000",
    ]
    with (
        SparkProcess(producing, tmp_path / "producer.log", spark_environment()) as producer,
        SparkDriver(arguments, tmp_path / "archive.log") as driver,
    ):
        driver.wait_for("batch ", WITHIN)
        before = driver.log.read_text().count("batch ")
        assert executors.kill_executor()
        driver.wait_for("batch ", WITHIN, count=before + 2)
        producer.stop()
        entries = queue_entries(servers.url, ["standalone-orders"])
        # What was sent last is in the table within a batch or two.
        until = time.monotonic() + WITHIN
        while _rows(table).num_rows < sum(map(len, entries.values())):
            assert time.monotonic() < until, driver.tail()
            time.sleep(0.5)
        assert driver.stop(WITHIN) == 0, driver.tail()
    assert row_problems(_rows(table), entries) == []


def _rows(table: Path) -> pa.Table:
    return DeltaTable(table).to_pyarrow_dataset().to_table(columns=list(KEY))
