"""Two archives of one topic with different checkpoints: two tables, or one table by mistake."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import litemq
from litemq.client.engine.archives import ArchiveInfo
from litemq.errors import CheckpointMismatchError
from litemq.spark.pipelines.archive import Archive
from litemq.spark.pipelines.config import ArchiveConfig, TableFormat
from litemq.spark.pipelines.status import read_status
from litemq.spark.tables.opening import open_table
from support.servers import Servers


def send(servers: Servers, topic: str, count: int) -> None:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic(topic, queues=2)
        for receipt in [mq.send_nowait(topic, b"%d" % number) for number in range(count)]:
            receipt.result(60)


def stored(servers: Servers, topic: str) -> Counter[tuple[int, int]]:
    with litemq.Client(servers.url) as mq:
        queues = mq.admin.describe_topic(topic).queues
    return Counter((queue.queue_id, offset) for queue in queues for offset in range(queue.least, queue.next))


def archived(location: str) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for file in open_table(location).files():
        rows = pq.read_table(Path(location) / file.path, columns=["queue_id", "queue_offset"], partitioning=None)
        found.update((row["queue_id"], row["queue_offset"]) for row in rows.to_pylist())
    return found


def known_archive(servers: Servers, topic: str) -> ArchiveInfo:
    with litemq.Client(servers.url) as mq:
        return mq.admin.describe_archive(topic)


def test_the_brokers_follow_the_first_of_two_archives(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    """Both tables have every message once. What the second one reports frees nothing."""
    first = ArchiveConfig(url=servers.url, topics=("shared",), table=str(tmp_path / "first"))
    second = replace(first, table=str(tmp_path / "second"))
    send(servers, "shared", 200)
    Archive(spark, first).run(once=True)
    progress = known_archive(servers, "shared")
    assert progress.location.endswith("first")
    send(servers, "shared", 100)
    Archive(spark, second).run(once=True)
    assert archived(second.table) == stored(servers, "shared")
    assert known_archive(servers, "shared") == progress, "retention waits for the first one"
    assert any("already archived in" in refusal for refusal in read_status(second)["not_noted"])
    Archive(spark, first).run(once=True)
    assert archived(first.table) == stored(servers, "shared")
    assert read_status(first)["not_noted"] == []
    ends = {queue.queue_id: queue.next for queue in known_archive(servers, "shared").queues}
    assert sum(ends.values()) == 300


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_two_checkpoints_for_one_empty_table(
    spark: SparkSession, servers: Servers, tmp_path: Path, kind: TableFormat
) -> None:
    """Neither sees rows of the other when it starts. The first commit decides."""
    topic = f"contested-{kind}"
    config = ArchiveConfig(url=servers.url, topics=(topic,), table=str(tmp_path / "lake"), table_format=kind)
    send(servers, topic, 100)
    one = Archive(spark, config)
    other = Archive(spark, replace(config, checkpoint=str(tmp_path / "other")))
    one.run(once=True)
    with pytest.raises(CheckpointMismatchError, match="another archive"):
        other.run(once=True)
    assert archived(config.table) == stored(servers, topic)
    send(servers, topic, 50)
    Archive(spark, config).run(once=True)
    assert archived(config.table) == stored(servers, topic)
