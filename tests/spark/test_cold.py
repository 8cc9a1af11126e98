"""Archived messages are readable after retention has deleted nine tenths of the log."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from litemq import AsyncClient, OutgoingMessage
from litemq.client.consuming.archive_reading import ArchiveRequest
from litemq.client.engine.selection import EVERYTHING
from litemq.client.sync.loop_thread import LoopThread
from litemq.format.messages import MessageFields
from litemq.spark.archive_reader import TableArchive
from litemq.spark.pipelines.archive import Archive
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.tables.opening import open_table
from support.cold import NAME, ColdCluster, can_read_archives, cold_cluster
from support.waiting import HANG_S

QUEUES = 3
COUNT = 1500


async def _send(mq: AsyncClient, first: int, count: int) -> None:
    for begin in range(first, first + count, 100):
        batch = [
            OutgoingMessage(
                b"%06d" % n * 150,
                keys=[f"k-{n}", "订单"],
                tags=["paid", "eu"] if n % 3 else "paid",
                properties={"n": str(n)},
                ordering_key=f"customer-{n % 17}",
                delay=0.02 if n % 50 == 0 else None,
            )
            for n in range(begin, min(begin + 100, first + count))
        ]
        await mq.send_batch("orders", batch)


async def _all_there(cluster: ColdCluster, count: int) -> None:
    """Check that all messages are present, including briefly delayed ones."""
    async with asyncio.timeout(HANG_S):
        while sum(cluster.next("orders", number) for number in range(QUEUES)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _read(mq: AsyncClient) -> dict[int, list[MessageFields]]:
    found: dict[int, list[MessageFields]] = defaultdict(list)
    async for message in mq.reader("orders", start="earliest", follow=False):
        found[message.queue_id].append(message._fields)
    return dict(found)


@pytest.fixture
def beside() -> Iterator[LoopThread]:
    """Run the cluster in another thread, since this one runs Spark."""
    thread = LoopThread()
    thread.start()
    yield thread
    thread.stop()


def test_every_message_across_the_seam(
    spark: SparkSession, beside: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    can_read_archives(monkeypatch)

    async def begin() -> dict[int, bytes]:
        await mq.admin.create_topic("orders", queues=QUEUES, archived="block")
        await _send(mq, 0, COUNT)
        await _all_there(cluster, COUNT)
        await cluster.drop_old()
        assert all(cluster.least("orders", number) == 0 for number in range(QUEUES)), (
            "nothing goes before it is archived"
        )
        return {number: cluster.raw("orders", number, 0, cluster.next("orders", number)) for number in range(QUEUES)}

    async def end(stored: dict[int, bytes]) -> None:
        fact = await mq.admin.describe_archive("orders")
        ends = {number: cluster.next("orders", number) for number in range(QUEUES)}
        assert fact.location == cluster.location
        assert {queue.queue_id: (queue.begin, queue.next) for queue in fact.queues} == {
            number: (0, end) for number, end in ends.items()
        }
        await _send(mq, COUNT, 100)
        await _all_there(cluster, COUNT + 100)
        everything = cluster.messages("orders", QUEUES)
        await cluster.drop_old()
        kept = sum(cluster.next("orders", number) - cluster.least("orders", number) for number in range(QUEUES))
        assert kept <= (COUNT + 100) / 10, "nine tenths are gone"
        topic_id = dict(fact.topic_ids)[NAME]
        for number, until in ends.items():
            portions = TableArchive(cluster.location, "orders").read(
                ArchiveRequest(NAME, number, topic_id, 0, until, 1 << 20, EVERYTHING)
            )
            assert b"".join(portion.records for portion in portions) == stored[number], "bit for bit"
        async with asyncio.timeout(HANG_S):
            assert await _read(mq) == everything, "every message, in order, once"

    with ExitStack() as stack:
        starting = cold_cluster(tmp_path)
        cluster = beside.run(starting.__aenter__())
        stack.callback(lambda: beside.run(starting.__aexit__(None, None, None)))
        mq = cluster.client()
        beside.run(mq.open())
        stack.callback(lambda: beside.run(mq.close()))
        stored = beside.run(begin())
        config = ArchiveConfig(
            url=cluster.url, topics=("orders",), table=cluster.location, max_rows_per_batch=COUNT // 2
        )
        Archive(spark, config).run(once=True)
        assert sum(file.rows for file in open_table(cluster.location).files()) == COUNT, (
            "a row for each entry, and no other"
        )
        beside.run(end(stored))
