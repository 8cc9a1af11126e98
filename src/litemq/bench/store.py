"""``litemq bench suite store``: the store on disk: validation, both checksums, log, queues. The key index is built behind, and not counted.

Records of 1 KiB with one key each. Each run has a new directory below the temporary one (``TMPDIR``): put that on the disk that matters.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from pathlib import Path

from litemq.bench.suite import Figure, at_least
from litemq.clock import SystemClock
from litemq.format.record import RecordTemplate
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore

__all__ = ["figures"]

_RECORD_BYTES = 1024


def _batch(count: int) -> bytes:
    template = RecordTemplate("orders", tags=["paid"], born_host="10.0.0.17:51234", producer_id=7)
    randomness = random.Random(count)
    fixed = len(template.encode(b"", message_id="0190c3f1a2b3c4d5-0000000000", keys=("order-000000",)))
    return b"".join(
        template.encode(
            randomness.randbytes(_RECORD_BYTES - fixed), message_id=f"0190c3f1a2b3c4d5-{n:010d}", keys=(f"order-{n:06d}",), sequence=n
        )
        for n in range(count)
    )


def figures(scale: float) -> list[Figure]:
    """The figures, each with the goal that it was designed for."""
    total = max(2_000, int(400_000 * scale))
    thousand, hundred = _batch(1000), _batch(100)

    def append_1000() -> float:
        return _append(thousand, 1000, total)

    def over_bare() -> float:
        return append_1000() * _RECORD_BYTES / _bare_write(thousand, total // 1000)

    return [
        Figure("append_1000", "level memory, batches of 1,000", "record/s", append_1000, at_least(500_000)),
        Figure("append_100", "level memory, batches of 100", "record/s", lambda: _append(hundred, 100, total // 2), at_least(300_000)),
        Figure("append_over_bare_write", "bytes/s of append_1000 against bare writes of the same chunks", "×", over_bare),
        Figure(
            "one_by_one_disk", "level disk, one record an append, one sync each", "record/s", lambda: _one_by_one(max(50, total // 1000))
        ),
        Figure(
            "reopen", "replay of what a crash left, without a checkpoint of the queues", "record/s", lambda: _reopen(thousand, total // 4)
        ),
    ]


def _store(folder: str) -> DiskStore:
    return DiskStore(Path(folder) / "data", StoreConfig(), SystemClock())


def _append(batch: bytes, count: int, total: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = _store(folder)
        topic = store.create_topic("orders", 1)
        buffers = [bytearray(batch) for _ in range(min(64, total // count))]
        spent = 0.0
        done = 0
        while done < total:
            for buffer in buffers:
                buffer[:] = batch  # stands for the network's copy, and is not counted
            begin = time.perf_counter()
            for buffer in buffers:
                store.append(buffer, topic.topic_id, 0)
            spent += time.perf_counter() - begin
            done += count * len(buffers)
        store.close()
        return done / spent


def _bare_write(batch: bytes, times: int) -> float:
    """Bytes a second of ``os.write`` alone."""
    with tempfile.TemporaryFile() as file:
        begin = time.perf_counter()
        for _ in range(times):
            os.write(file.fileno(), batch)
        return len(batch) * times / (time.perf_counter() - begin)


def _one_by_one(count: int) -> float:
    record = _batch(1)
    with tempfile.TemporaryDirectory() as folder:
        store = _store(folder)
        topic = store.create_topic("orders", 1)

        async def appender(times: int) -> None:
            for _ in range(times):
                await store.confirmed(store.append(bytearray(record), topic.topic_id, 0).end)

        begin = time.perf_counter()
        asyncio.run(appender(count))
        rate = count / (time.perf_counter() - begin)
        store.close()
        return rate


def _reopen(batch: bytes, total: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = _store(folder)
        topic = store.create_topic("orders", 1)
        count = max(1, total // 1000)
        for _ in range(count):
            appended = store.append(bytearray(batch), topic.topic_id, 0)
        store.wait_confirmed(appended.end)
        store.abandon()
        begin = time.perf_counter()
        again = _store(folder)
        rate = count * 1000 / (time.perf_counter() - begin)
        again.abandon()
        return rate
