"""A cluster over TCP with manual retention, and an archive of its messages without Spark."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from litemq import AsyncClient
from litemq.client.consuming import archive_reading as cold
from litemq.client.consuming import consumer
from litemq.format.arrow.batches import decode_batches
from litemq.format.limits import STORED_LIMITS
from litemq.format.messages import MessageFields, decode_messages
from litemq.server import broker
from litemq.server.broker_config import BrokerConfig
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.opening import TableFormat, create_table
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from support.archived import written
from support.broker_program import CuttableServer, cuttable, names, serving
from support.engines import QUICK
from support.waiting import HANG_S

NAME = "broker-1"

# On a busy machine nothing ends for lack of time: no session, no request.
PATIENT: dict[str, Any] = {
    "session_timeout_ms": 60_000,
    "request_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "shutdown_timeout_ms": 60_000,
}


def can_read_archives(monkeypatch: pytest.MonkeyPatch, *, installed: bool = True) -> None:
    """Register the archive reader's entry point as the installed package does."""
    entry = EntryPoint("table", "litemq.spark.archive_reader:TableArchive", "litemq.archives")
    monkeypatch.setattr(cold, "installed", lambda _group: EntryPoints([entry] if installed else []))


class ColdCluster:
    """One broker with small segments, and the table that archives its topics."""

    def __init__(self, folder: Path, url: str, store: DiskStore, kind: TableFormat) -> None:
        self.url = url
        self.store = store
        self.location = str(folder / "lake")
        self._kind: TableFormat = kind
        self._batch = 0

    def client(self, **settings: Any) -> AsyncClient:
        return AsyncClient(self.url, **QUICK | PATIENT | settings)

    def _key(self, topic: str, queue_id: int) -> QueueKey:
        facts = self.store.state.topic(topic)
        assert facts is not None
        return QueueKey(facts.topic_id, queue_id)

    def raw(self, topic: str, queue_id: int, begin: int, end: int) -> bytes:
        """Return the records of a queue, as stored in the log."""
        self.store.wait_confirmed(self.store.log_end)
        key, pieces, at = self._key(topic, queue_id), [], begin
        while at < end:
            pieces.append(bytes(self.store.read_queue(key, at, end - at)))
            at += len(decode_messages(pieces[-1]))
        return b"".join(pieces)

    def messages(self, topic: str, queues: int) -> dict[int, list[MessageFields]]:
        """Return all messages by queue, while the broker still has them."""
        return {
            number: decode_messages(self.raw(topic, number, 0, self.next(topic, number))) for number in range(queues)
        }

    def next(self, topic: str, queue_id: int) -> int:
        return self.store.state.end_offsets.get(self._key(topic, queue_id), 0)

    def least(self, topic: str, queue_id: int) -> int:
        return self.store.state.start_offsets.get(self._key(topic, queue_id), 0)

    async def archive(
        self, mq: AsyncClient, topic: str, spans: dict[int, tuple[int, int]], *, report: bool = True
    ) -> None:
        """Write offsets of queues to the table in one batch, and report them to the broker."""
        parts = []
        for queue_id, (begin, end) in sorted(spans.items()):
            if begin < end:
                rows = pa.Table.from_batches(
                    decode_batches(self.raw(topic, queue_id, begin, end), limits=STORED_LIMITS)
                )
                parts.append(rows.append_column(MESSAGE_SCHEMA.field(BROKER), pa.array([NAME] * rows.num_rows)))
        table = create_table(self.location, self._kind)
        assert table.append(written(self.location, *parts), "app", self._batch)
        self._batch += 1
        if report:
            await mq.admin.archived_through(
                topic, self.location, {(NAME, queue_id): end for queue_id, (_, end) in spans.items()}
            )

    async def wait_registered(self) -> None:
        """Wait until the NameServer knows the broker."""
        async with asyncio.timeout(HANG_S), self.client() as mq:
            while not any(each.alive for each in await mq.admin.brokers()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def drop_old(self) -> None:
        """Run retention: it deletes all segments but the last."""
        await asyncio.to_thread(self.store.retain, max_bytes=1)


@contextlib.asynccontextmanager
async def cold_cluster(folder: Path, kind: TableFormat = "parquet") -> AsyncIterator[ColdCluster]:
    """Run a NameServer and a broker in this process, over sockets."""
    opened: list[DiskStore] = []

    class Noted(DiskStore):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            opened.append(self)

    with pytest.MonkeyPatch.context() as patch, cuttable():
        patch.setattr(broker, "DiskStore", Noted)
        # A consumer whose connection was just cut reconnects and commits, however long that takes.
        patch.setattr(consumer, "_LAST_COMMIT_S", HANG_S)
        async with serving(names(folder)) as port:
            config = BrokerConfig(
                port=0,
                broker_name=NAME,
                nameservers=(f"127.0.0.1:{port}",),
                data_path=str(folder / "broker"),
                file_size=69_632,
                max_record_bytes=4096,
                shutdown_timeout_ms=2000,
            )
            async with serving(lambda ready, stop: broker.run_broker(config, ready, stop)):
                cluster = ColdCluster(folder, f"litemq://127.0.0.1:{port}", opened[0], kind)
                await cluster.wait_registered()
                yield cluster


def cut_connections() -> None:
    """End all connections from the servers' side."""
    CuttableServer.cut()
