"""``litemq bench suite store``: the store on disk, with all checks and projections.

The measured time ends when all projections have caught up, not when the last append has returned.
Data is in the temporary directory (``TMPDIR``), which should be on the disk of interest. At scale 1
the suite needs 25 GB and some minutes.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from litemq.bench.disk_space import STORE_CONFIG
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.store_at_scale import Backlog, Width, time_to_restart
from litemq.broker.broker import Broker
from litemq.clock import SystemClock
from litemq.format.record_encode import RecordTemplate
from litemq.net.event_loop import run as run_on_loop
from litemq.proto.wire_pb2 import Opcode, SendRequest
from litemq.storage.disk_store import DiskStore
from litemq.storage.offline.rebuild import rebuild_directory
from litemq.testing.local_channel import LocalChannel

__all__ = ["figures"]

_KIB = 1024
_APPENDERS = 64
_SYNCS_OF_A_SLOW_DISK = 10_000  # per second


def _batch(count: int, record_bytes: int = _KIB, producer_id: int = 7) -> bytes:
    born_host = "10.0.0.17:51234" if record_bytes >= _KIB else ""
    template = RecordTemplate("orders", tags=["paid"], born_host=born_host, producer_id=producer_id)
    randomness = random.Random(count)
    fixed = len(template.encode(b"", message_id="0190c3f1a2b3c4d5-0000000000", keys=("order-000000",)))
    return b"".join(
        template.encode(
            randomness.randbytes(record_bytes - fixed),
            message_id=f"0190c3f1a2b3c4d5-{n:010d}",
            keys=(f"order-{n:06d}",),
            sequence=n,
        )
        for n in range(count)
    )


def figures(scale: float) -> list[Figure]:
    """Return the figures of the store with their goals."""
    total = max(2_000, int(1_000_000 * scale))
    folder = tempfile.TemporaryDirectory(prefix="litemq-bench-")
    atexit.register(folder.cleanup)
    root = Path(folder.name)
    thousand, hundred = _batch(1000), _batch(100)
    bare = _BareDisk(root)

    def append_1000() -> float:
        return _append(root, thousand, 1000, total)

    def over_bare() -> float:
        return append_1000() * _KIB / bare.write(thousand, total // 1000)

    def group_commit() -> float:
        return _group_commit(root, max(64, total // 10))

    def group_commit_over_bare() -> float:
        return group_commit() / bare.write_and_sync(_batch(1))

    # If a sync is almost free, group commit saves almost nothing.
    slow_disk = bare.write_and_sync(_batch(1)) < _SYNCS_OF_A_SLOW_DISK

    return [
        Figure("append_1000", "level memory, batches of 1,000", "record/s", append_1000, at_least(500_000)),
        Figure(
            "append_100",
            "level memory, batches of 100",
            "record/s",
            lambda: _append(root, hundred, 100, total),
            at_least(300_000),
        ),
        Figure("append_over_bare_write", "bytes/s of append_1000 / bare writes of the same chunks", "×", over_bare),
        Figure(
            "group_commit",
            "level disk, 64 asyncio senders of one record, through the broker",
            "record/s",
            group_commit,
            at_least(50_000),
        ),
        Figure(
            "group_commit_over_bare",
            "the same / bare loop of write and fdatasync",
            "×",
            group_commit_over_bare,
            at_least(5) if slow_disk else None,
        ),
        *_figures_at_scale(root, scale),
    ]


def _figures_at_scale(root: Path, scale: float) -> list[Figure]:
    """Return the figures of large backlogs and of many queues."""
    small = _batch(1000, 256)
    many = Backlog(root / "many", small, max(2, int(10_000 * scale)))
    large = Backlog(root / "backlog", _batch(1000), max(2, int(4_000 * scale)))
    deep = Backlog(root / "deep", small, max(2, int(30_000 * scale)))
    width = Width(root / "width", max(100, int(100_000 * scale)))
    return [
        Figure(
            "rebuild",
            "all projections from records of 256 bytes (10M at scale 1)",
            "MB/s",
            lambda: _rebuild(many),
            at_least(200),
        ),
        Figure(
            "restart",
            "time to be ready after SIGKILL under load, with those records",
            "s",
            lambda: time_to_restart(many.path, small),
            at_most(5),
        ),
        Figure(
            "cold_stall",
            "p99 stall of the event loop while reading a cold backlog (4 GB at scale 1)",
            "ms",
            large.stall,
            at_most(2),
        ),
        Figure("cold_stall_bare", "the same while threads read those files", "ms", large.bare_stall),
        Figure(
            "depth",
            "reading a backlog through its queues (30M at scale 1) / bare read",
            "×",
            deep.over_bare_read,
            at_least(0.5),
        ),
        Figure(
            "width_checkpoint",
            "a checkpoint with 100k queues (at scale 1), each with a new message",
            "s",
            width.checkpoint,
            at_most(2),
        ),
        Figure("width_memory", "resident memory with those", "MB", lambda: width.memory, at_most(1500)),
        Figure("width_files", "open files with those", "files", lambda: width.files, at_most(2048)),
    ]


def _store(root: Path) -> DiskStore:
    return DiskStore(root, STORE_CONFIG, SystemClock())


def _in_new_directory(root: Path, measure: Callable[[Path], float]) -> float:
    os.sync()  # finish the writes of the previous figure
    with tempfile.TemporaryDirectory(dir=root) as folder:
        return measure(Path(folder) / "data")


def _append(root: Path, batch: bytes, count: int, total: int) -> float:
    def measure(directory: Path) -> float:
        store = _store(directory)
        topic = store.create_topic("orders", 1)
        buffers = [bytearray(batch) for _ in range(min(64, total // count))]
        spent = 0.0
        done = 0
        while done < total:
            for buffer in buffers:
                buffer[:] = batch  # replaces the network's copy; not counted
            begin = time.perf_counter()
            for buffer in buffers:
                end = store.append(buffer, topic.topic_id, 0).end
            spent += time.perf_counter() - begin
            done += count * len(buffers)
        begin = time.perf_counter()
        store.wait_confirmed(end)
        store.checkpoint()  # returns when all projections have caught up
        spent += time.perf_counter() - begin
        store.close()
        return done / spent

    return _in_new_directory(root, measure)


def _group_commit(root: Path, count: int) -> float:
    record = _batch(1, producer_id=0)

    async def run(store: DiskStore) -> None:
        broker = Broker(store, SystemClock())
        channel = LocalChannel("broker", "bench", broker)
        header = SendRequest(topic="orders").SerializeToString()

        async def appender() -> None:
            for _ in range(count // _APPENDERS):
                await channel.ask(Opcode.SEND, header, record)

        await asyncio.gather(*(appender() for _ in range(_APPENDERS)))
        broker.close()

    def measure(directory: Path) -> float:
        store = _store(directory)
        store.create_topic("orders", 1)
        begin = time.perf_counter()
        run_on_loop(run(store))
        rate = count // _APPENDERS * _APPENDERS / (time.perf_counter() - begin)
        store.close()
        return rate

    return _in_new_directory(root, measure)


class _BareDisk:
    """The file system alone, on the same disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, chunk: bytes, times: int) -> float:
        """Measure bytes per second of ``os.write``."""
        with tempfile.TemporaryFile(dir=self._root) as file:
            begin = time.perf_counter()
            for _ in range(times):
                os.write(file.fileno(), chunk)
            return len(chunk) * times / (time.perf_counter() - begin)

    def write_and_sync(self, chunk: bytes, times: int = 300) -> float:
        """Measure chunks per second of ``os.write`` and ``os.fdatasync``, in preallocated space."""
        with tempfile.TemporaryFile(dir=self._root) as file:
            os.posix_fallocate(file.fileno(), 0, len(chunk) * times)
            os.fsync(file.fileno())
            begin = time.perf_counter()
            for _ in range(times):
                os.write(file.fileno(), chunk)
                os.fdatasync(file.fileno())
            return times / (time.perf_counter() - begin)


def _rebuild(backlog: Backlog) -> float:
    path = backlog.path
    begin = time.perf_counter()
    rebuilt = rebuild_directory(path, STORE_CONFIG, SystemClock())
    return rebuilt.log_bytes / 1e6 / (time.perf_counter() - begin)
