"""Data of the Spark suite: logs of incompressible messages, and the same rows in Parquet."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from litemq.bench.disk_space import STORE_CONFIG
from litemq.clock import SystemClock
from litemq.format.record_encode import RecordTemplate
from litemq.storage.disk_store import DiskStore

__all__ = ["Rows", "as_parquet", "fill_topic", "open_log"]

_BATCH = 1000
_QUEUES = 4
_UNCONFIRMED = 64 << 20


class Rows(NamedTuple):
    """A topic with the number and size of its records."""

    topic: str
    messages: int
    record_bytes: int


def open_log(directory: Path) -> DiskStore:
    """Open a log to fill directly, since filling it through a broker would take too long."""
    return DiskStore(directory, STORE_CONFIG, SystemClock())


def fill_topic(store: DiskStore, rows: Rows) -> None:
    """Fill a topic with records whose body sizes vary by up to a quarter."""
    topic = store.create_topic(rows.topic, _QUEUES)
    template = RecordTemplate(
        rows.topic, tags=["paid"], born_host="10.0.0.17:51234", properties={"region": "eu-central-1"}
    )
    randomness = random.Random(rows.record_bytes)
    fixed = len(template.encode(b"", message_id=_message_id(0), keys=(_key(0),)))
    body = rows.record_bytes - fixed
    waiting = 0
    for first in range(0, rows.messages, _BATCH):
        numbers = range(first, min(first + _BATCH, rows.messages))
        noise = randomness.randbytes(2 * body)
        encoded = [
            template.encode(
                noise[(at := randomness.randrange(body // 2)) : at + body + randomness.randint(-body // 4, body // 4)]
                + n.to_bytes(8, "big"),
                message_id=_message_id(n),
                keys=(_key(n),),
                born_timestamp=1_700_000_000_000 + n,
            )
            for n in numbers
        ]
        batch = bytearray(b"".join(encoded))
        end = store.append(batch, topic.topic_id, first // _BATCH % _QUEUES).end
        waiting += len(batch)
        if waiting > _UNCONFIRMED:
            store.wait_confirmed(end)
            waiting = 0
    store.wait_confirmed(end)


def _message_id(number: int) -> str:
    return f"0190c3f1a2b3c4d5-{number:010d}"


def _key(number: int) -> str:
    return f"order-{number:08d}"


def as_parquet(spark: SparkSession, log: Path, file: Path) -> None:
    """Write the rows of ``log`` with all columns as uncompressed Parquet."""
    spark.read.format("litemq-log").load(str(log)).write.option("compression", "uncompressed").parquet(str(file))
