"""Exactly once under kills: the archive of a topic under load, and a stream between topics.

``LITEMQ_CHAOS_KILLS`` sets the number of kills; if it is set, the producer sends as fast as it can.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from deltalake import DeltaTable

import litemq
from support.processes import ServerProcess
from support.spark_kills import ARCHIVE_KILLS, COPY_KILLS, WITHIN, finish, first
from support.spark_processes import EndedError, SparkDriver, SparkProcess, spark_environment
from support.spark_rows import KEY, bodies_by_position, named_positions, queue_entries, row_problems

CHAOS: Final = int(os.environ.get("LITEMQ_CHAOS_KILLS", "0"))
# The most messages to send, limited by the disk; their rate; and the size of a batch during kills,
# of which each kill needs several.
MOST, PER_SECOND, PER_BATCH = (30_000_000, "inf", 500_000) if CHAOS else (60_000, "3000", 3000)
SUPPORT: Final = Path(__file__).parents[1] / "support"
MASTER: Final = "local[2,4]"  # a task may fail three times


class Cluster:
    """A NameServer and two brokers."""

    def __init__(self, names: ServerProcess, brokers: list[ServerProcess]) -> None:
        self.brokers = brokers
        self.url = f"litemq://{names.address}"

    @contextlib.contextmanager
    def producing(self, topic: str, folder: Path, most: int = MOST) -> Iterator[SparkProcess]:
        command = [sys.executable, str(SUPPORT / "spark_producer.py"), self.url, topic, str(most), PER_SECOND]
        with SparkProcess(command, folder / "producer.log", spark_environment()) as producer:
            producer.wait_for("sending", WITHIN)
            yield producer


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(ServerProcess("nameserver", tmp_path / "names.log", data_path=tmp_path / "names"))
        brokers = [
            stack.enter_context(
                ServerProcess(
                    "broker",
                    tmp_path / f"{name}.log",
                    broker_id=name,
                    broker_name=name,
                    nameserver=names.address,
                    data_path=tmp_path / name,
                    file_size="64MiB",
                )
            )
            for name in ("a", "b")
        ]
        yield Cluster(names, brokers)


def say(*words: object) -> None:
    print(f"{time.strftime('%H:%M:%S')}", *words, flush=True)  # noqa: T201


def test_the_archive_has_every_entry_once(cluster: Cluster, tmp_path: Path) -> None:
    table = tmp_path / "table"
    with litemq.Client(cluster.url) as mq:
        mq.admin.create_topic("orders", queues=2)

    def archive(name: str, *more: str, **environment: str) -> SparkDriver:
        arguments = [
            "-m",
            "litemq",
            "pipeline",
            "run",
            "archive",
            f"--url={cluster.url}",
            "--topics=orders",
            f"--table={table}",
        ]
        arguments += ["--trigger=0s", "--compact-every-batches=2", f"--spark-master={MASTER}", *more]
        return SparkDriver(arguments, tmp_path / f"archive-{name}.log", LITEMQ_TEST_HOURS_OVER="1", **environment)

    with cluster.producing("orders", tmp_path) as producer:
        for number, kill in enumerate(first(CHAOS or 1, ARCHIVE_KILLS)):
            start = partial(
                archive, str(number), f"--max-rows-per-batch={PER_BATCH}", **kill.environment(tmp_path, number)
            )
            kill.happen(start, lambda driver: driver.wait_for("batch ", WITHIN))
            say("killed:", kill.what)
        producer.stop()
        say(producer.tail(100))
    finish(lambda: archive("last", "--once"))

    entries = queue_entries(cluster.url, ["orders"])
    rows = DeltaTable(table).to_pyarrow_dataset().to_table(columns=[*KEY, *([] if CHAOS else ["body"])])
    say(f"{rows.num_rows:,} rows, {sum(map(len, entries.values())):,} entries")
    assert row_problems(rows, entries) == []
    assert rows.num_rows > 1000
    if not CHAOS:
        brokers, queues, offsets, bodies = (
            rows[name].to_pylist() for name in ("broker", "queue_id", "queue_offset", "body")
        )
        assert dict(zip(zip(brokers, queues, offsets, strict=True), bodies, strict=True)) == bodies_by_position(
            cluster.url, "orders"
        )


def test_a_stream_into_a_topic_writes_every_row_once(cluster: Cluster, tmp_path: Path) -> None:
    with litemq.Client(cluster.url) as mq:
        mq.admin.create_topic("source", queues=2)
        mq.admin.create_topic("target", queues=2)
    failed = tmp_path / "failed-after-half"

    def copy(name: str, *more: str, **environment: str) -> SparkDriver:
        arguments = [
            str(SUPPORT / "spark_copy.py"),
            MASTER,
            cluster.url,
            "source",
            "target",
            str(tmp_path / "checkpoint"),
            *more,
        ]
        return SparkDriver([*arguments, "--fail-after-half", str(failed)], tmp_path / f"copy-{name}.log", **environment)

    def is_at_work(driver: SparkDriver) -> None:
        """Wait until the target has new rows, and kill a broker, which restarts immediately."""
        before = _count(cluster.url, "target")
        until = time.monotonic() + WITHIN
        while _count(cluster.url, "target") <= before:
            if not driver.is_running:
                raise EndedError(driver.tail())
            assert time.monotonic() < until, f"nothing comes to the target: {driver.tail()}"
            time.sleep(1)
        broker = random.choice(cluster.brokers)
        broker.kill()
        broker.start()
        broker.wait_ready()

    with cluster.producing("source", tmp_path, MOST // 2) as producer:  # each of them is there three times
        for number, kill in enumerate(first(CHAOS or 1, COPY_KILLS)):
            start = partial(copy, str(number), f"--per-batch={PER_BATCH}", **kill.environment(tmp_path, number))
            kill.happen(start, is_at_work)
            say("killed:", kill.what)
        producer.stop()
        say(producer.tail(100))
    finish(lambda: copy("last", "--once", f"--per-batch={MOST}"))

    assert failed.exists(), "no task failed after half its rows"
    entries = queue_entries(cluster.url, ["source"])
    rows = named_positions(cluster.url, "target", "source")
    say(f"{rows.num_rows:,} messages, {sum(map(len, entries.values())):,} in the source")
    assert row_problems(rows, entries) == []
    assert rows.num_rows > 1000


def _count(url: str, topic: str) -> int:
    return sum(map(len, queue_entries(url, [topic]).values()))
