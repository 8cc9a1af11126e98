"""Rows from the followers of a replicated group, also while its master is frozen."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

import litemq
from litemq.spark.fetch import ClusterReader, QueueSpan
from litemq.spark.read.rows import RowQuery, read_rows
from support.replica_processes import ReplicaProcesses

_ROWS = 3000


def test_a_follower_serves_rows_while_the_master_is_frozen(spark: SparkSession, tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack, master_lease="5s")
        master = asyncio.run(group.wait_master(1))
        url = f"litemq://{group.nameserver.address}"
        with litemq.Client(url) as mq:
            mq.admin.create_topic("orders", queues=1)
            mq.send_batch("orders", [litemq.OutgoingMessage(b"%d" % number) for number in range(_ROWS)])
        rows = spark.read.format("litemq").option("url", url).option("subscribe", "orders")
        assert {row.body for row in rows.option("readFrom", "replica").load().select("body").collect()} == {
            b"%d" % number for number in range(_ROWS)
        }
        planner = ClusterReader(url)
        (bounds,) = planner.topic_bounds("orders", "orders")
        planner.close()
        master.freeze()
        spans = [QueueSpan("orders", "orders", 0, bounds.start_offset, bounds.end_offset)]
        batches = read_rows(spans, RowQuery(url, ("body",), read_from="replica"))
        assert [body for batch in batches for body in batch.column("body").to_pylist()] == [
            b"%d" % number for number in range(_ROWS)
        ]
