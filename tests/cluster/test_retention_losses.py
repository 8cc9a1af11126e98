"""Retention by size under load: the counts of lost messages agree, and unread ones can be kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from litemq import AsyncClient
from litemq.errors import BacklogFullError
from litemq.proto.control_pb2 import RetentionCrossed
from litemq.server import broker
from litemq.server.broker_config import BrokerConfig
from litemq.storage import maintenance
from litemq.storage.log.reader import read_log
from litemq.storage.offline.directory_reader import DirectoryReader
from litemq.storage.projections.replay import decode_controls
from litemq.storage.retention import loss_report
from support.broker_program import names, serving
from support.engines import QUICK
from support.on_loop import on_loop

BODY: Final = bytes(1000)
MAX_LOG: Final = 4 << 20
QUEUES: Final = 2
TIMEOUTS: Final = {"request_timeout_ms": 5_000, "delivery_timeout_ms": 5_000}  # until a refused send raises


@contextlib.asynccontextmanager
async def one_broker(folder: Path, *, keep_unread: bool) -> AsyncIterator[AsyncClient]:
    """Run a broker with small segments, whose retention runs all the time."""
    with (
        patch.object(maintenance, "_RETENTION_INTERVAL_S", 0.0),
        patch.object(loss_report, "_INTERVAL_S", 0.0),
    ):
        async with serving(names(folder)) as port:
            config = BrokerConfig(
                port=0,
                nameservers=(f"127.0.0.1:{port}",),
                data_path=str(folder / "broker"),
                file_size=1 << 20,
                max_record_bytes=64 << 10,
                max_log_bytes=MAX_LOG,
                keep_unread=keep_unread,
                flush_mode="async",
            )
            async with (
                serving(lambda ready, stop: broker.run_broker(config, ready, stop)),
                AsyncClient(f"litemq://127.0.0.1:{port}", **QUICK | TIMEOUTS) as mq,
            ):
                await mq.admin.create_topic("orders", queues=QUEUES)
                yield mq


async def _read(mq: AsyncClient, group: str, count: int) -> None:
    async with mq.consumer("orders", group_id=group) as consumer:
        for _ in range(count):
            await (await anext(consumer)).ack()


async def _send(mq: AsyncClient, count: int) -> None:
    for _ in range(count):
        await mq.send_nowait("orders", BODY)
        await asyncio.sleep(0)


@on_loop
async def test_the_counts_of_lost_messages_agree(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=loss_report.__name__)
    async with one_broker(tmp_path, keep_unread=False) as mq:
        await _send(mq, 100)
        await _read(mq, "slow", 100)
        await asyncio.gather(_send(mq, 6500), _read(mq, "quick", 3000))

        # The load has ended. Wait until retention has nothing more to drop.
        while sum(queue.next - queue.least for queue in (await mq.admin.describe_topic("orders")).queues) > 4000:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        lost = {}
        for group in ("slow", "quick"):
            described = await mq.admin.describe_group(group)
            deleted = {queue.queue_id: queue.least for queue in (await mq.admin.describe_topic("orders")).queues}
            unread = sum(max(0, deleted[queue.queue_id] - queue.committed) for queue in described.queues)
            assert described.lost == unread, group
            lost[group] = described.lost
            assert bool(described.lost_at) == bool(described.lost)
    logged = dict.fromkeys(lost, 0)
    recorded = dict.fromkeys(lost, 0)
    for record in caplog.records:
        for group, count in _counts(record.getMessage()).items():
            logged[group] += count
    for crossed in _crossings(tmp_path / "broker"):
        for loss in crossed.losses:
            recorded[loss.group] += loss.messages
    assert (lost["slow"], logged, recorded) == (lost["slow"], lost, lost)
    assert lost["slow"] > 1000


def _crossings(data: Path) -> list[RetentionCrossed]:
    """Return the records of retention in the log of a stopped broker."""
    log = DirectoryReader(data)
    windows = read_log(log, log.start, log.confirmed, on_damage=lambda _error: None)
    controls = [control for window in windows for _, control in decode_controls(window.columns)]
    return [control.retention_crossed for control in controls if control.HasField("retention_crossed")]


def _counts(line: str) -> dict[str, int]:
    """Return the counts by group in a warning of lost messages."""
    _, found, rest = line.partition("retention deleted unread messages of ")
    if not found:
        return {}
    parts = (part.removeprefix("group ").partition(": ") for part in rest.partition(" (")[0].split(", "))
    return {group: int(count) for group, _, count in parts}


@on_loop
async def test_unread_messages_are_kept(tmp_path: Path) -> None:
    async with one_broker(tmp_path, keep_unread=True) as mq:
        await _send(mq, 100)
        await _read(mq, "slow", 100)
        sent = 100
        try:
            while True:
                await mq.send("orders", BODY)
                sent += 1
        except BacklogFullError as error:
            assert "group slow" in str(error)  # noqa: PT017
        described = await mq.admin.describe_group("slow")
        assert (described.lost, described.lag) == (0, sent - 100)
        await _read(mq, "slow", sent - 100)  # every message is there

        await mq.send("orders", BODY)  # is repeated until it is accepted
        assert (await mq.admin.describe_group("slow")).lost == 0
