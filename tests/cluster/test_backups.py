"""Backups of a broker under load: each one opens, verifies, and has everything that was flushed.

``LITEMQ_BACKUPS`` sets their number.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from litemq import AsyncClient
from litemq.clock import SystemClock
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.log.checkpoint import read_checkpoint
from litemq.storage.offline.directory_reader import adapt_config
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import QueueKey
from support.processes import ServerProcess
from support.waiting import wait_until

BACKUPS: Final = int(os.environ.get("LITEMQ_BACKUPS", "5"))
SEGMENT: Final = "5MiB"


@contextlib.contextmanager
def _load(url: str) -> Iterator[None]:
    """Send numbered messages, delayed ones and leases until the end."""
    stopping = threading.Event()

    async def send() -> None:
        async with AsyncClient(url) as mq:
            for number in itertools.count():
                if stopping.is_set():
                    break
                await asyncio.gather(
                    *(mq.send("orders", b"%d" % (50 * number + part) + bytes(800)) for part in range(50))
                )
                await mq.send("later", b"due", delay=20)  # timers may fill half of the log only

    thread = threading.Thread(target=lambda: asyncio.run(send()))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _store(*arguments: object) -> str:
    command = [sys.executable, "-m", "litemq", "store", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_every_backup_under_load_opens_and_verifies(tmp_path: Path) -> None:
    data, target, restored = tmp_path / "data", tmp_path / "backups", tmp_path / "restored"
    with (
        ServerProcess("nameserver", tmp_path / "names.log", data_path=tmp_path / "names") as names,
        ServerProcess(
            "broker",
            tmp_path / "broker.log",
            nameserver=names.address,
            data_path=data,
            file_size=SEGMENT,
            max_record_size="1MiB",
            max_log_size="40MiB",
        ),
    ):
        url = f"litemq://{names.address}"

        async def create() -> None:
            async with AsyncClient(url) as mq:
                await mq.admin.create_topic("orders", queues=1)
                await mq.admin.create_topic("later", queues=1)

        asyncio.run(create())
        with _load(url):
            wait_until(lambda: _flushed(data) > 100_000)
            for _ in range(BACKUPS):
                flushed = _flushed(data)
                _store("backup", data, target, "--keep", 3)
                _store("restore", target, restored)
                _check(restored, flushed)
                shutil.rmtree(restored)


def _flushed(directory: Path) -> int:
    checkpoint = read_checkpoint(directory / "checkpoint")
    return 0 if checkpoint is None else checkpoint.flushed


def _check(directory: Path, flushed: int) -> None:
    assert verify_directory(directory).findings == []
    store = DiskStore(directory, adapt_config(directory, StoreConfig()), SystemClock())
    assert store.confirm_offset >= flushed
    topic = store.state.topic("orders")
    assert topic is not None
    key = QueueKey(topic.topic_id, 0)
    at = store.state.start_offsets.get(key, 0)
    while data := store.read_queue(key, at, 1000):
        position = 0
        while position < len(data):
            stored = decode_record(data, position, limits=STORED_LIMITS)
            position += stored.size
            assert stored.stamp is not None
            assert stored.stamp.queue_offset == at
            at += 1
    assert at == store.state.end_offsets.get(key, 0)
    assert store.damage == []
    store.close()
