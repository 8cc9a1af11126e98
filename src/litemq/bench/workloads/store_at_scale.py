"""Store workloads that need a large backlog, many queues or another process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from litemq.bench.disk_space import STORE_CONFIG
from litemq.clock import SystemClock
from litemq.format.record_encode import RecordTemplate
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey

__all__ = ["Backlog", "Width", "time_to_restart"]

_QUEUES: Final = 4
_BARE_READERS: Final = 2
_PULL_BYTES: Final = 1 << 20
_PULL_MESSAGES: Final = 10_000
_QUEUES_A_TOPIC: Final = 1000


def _store(path: Path) -> DiskStore:
    return DiskStore(path, STORE_CONFIG, SystemClock())


def _evict(path: Path) -> None:
    """Evict files from the page cache, so that the next reads come from the disk."""
    os.sync()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            fd = os.open(file, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


async def _stall_beside(work: list[Coroutine[Any, Any, None]]) -> float:
    """Measure the p99 lateness (ms) of a 1 ms timer while ``work`` runs."""
    late: list[float] = []

    async def watch() -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - begin - 0.001) * 1000)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*work)
    watcher.cancel()
    return sorted(late)[int(len(late) * 0.99)] if late else 0.0


class Backlog:
    """A data directory with a backlog in four queues, created on first use."""

    def __init__(self, path: Path, batch: bytes, batches: int) -> None:
        self._made_at = path
        self._batch = batch
        self._batches = batches

    @cached_property
    def path(self) -> Path:
        store = _store(self._made_at)
        topic = store.create_topic("orders", _QUEUES)
        for number in range(self._batches):
            store.append(bytearray(self._batch), topic.topic_id, number % _QUEUES)
        store.close()
        return self._made_at

    def stall(self) -> float:
        """Measure the p99 stall (ms) of the event loop while the backlog is read cold."""
        store = _store(self.path)
        topic = store.state.topic("orders")
        if topic is None:
            raise RuntimeError("the backlog has no topic")

        async def consume(queue: int) -> None:
            key = QueueKey(topic.topic_id, queue)
            at = store.state.start_offsets.get(key, 0)
            while at < store.state.end_offsets.get(key, 0):
                data = await store.pull(key, at, _PULL_MESSAGES, _PULL_BYTES)
                at = int.from_bytes(data[-len(self._batch) // 1000 :][24:32], "big") + 1

        _evict(self.path)
        stalled = asyncio.run(_stall_beside([consume(queue) for queue in range(_QUEUES)]))
        store.abandon()
        return stalled

    def bare_stall(self) -> float:
        """Measure the same while threads read the same files, as a baseline."""
        pool = ThreadPoolExecutor(_BARE_READERS)

        async def read(segments: list[Path]) -> None:
            loop = asyncio.get_running_loop()
            for segment in segments:
                with segment.open("rb", buffering=0) as file:
                    while await loop.run_in_executor(pool, file.read, _PULL_BYTES):
                        pass

        segments = sorted((self.path / "commitlog").glob("0*"))
        _evict(self.path)
        stalled = asyncio.run(_stall_beside([read(segments[number::_BARE_READERS]) for number in range(_BARE_READERS)]))
        pool.shutdown()
        return stalled

    def over_bare_read(self) -> float:
        """Return the read rate through the queues, relative to reading the segments."""
        record_bytes = len(self._batch) // 1000
        _evict(self.path)
        begin = time.perf_counter()
        segments = sorted((self.path / "commitlog").glob("0*"))
        size = 0
        for segment in segments:
            with segment.open("rb", buffering=0) as file:
                while chunk := file.read(_PULL_BYTES):
                    size += len(chunk)
        bare = size / (time.perf_counter() - begin)
        _evict(self.path)
        store = _store(self.path)
        begin = time.perf_counter()
        size = 0
        topic = store.state.topic("orders")
        if topic is None:
            raise RuntimeError("the backlog has no topic")
        at = dict.fromkeys(range(_QUEUES), 0)
        while at:
            for queue, offset in list(at.items()):
                data = store.read_queue(QueueKey(topic.topic_id, queue), offset, _PULL_MESSAGES, _PULL_BYTES)
                size += len(data)
                at[queue] += len(data) // record_bytes
                if not data:
                    del at[queue]
        rate = size / (time.perf_counter() - begin)
        store.abandon()
        return rate / bare


_APPEND_UNTIL_KILLED: Final = """
import sys
from pathlib import Path
from litemq.bench.workloads.store_at_scale import append_forever
append_forever(Path(sys.argv[1]), Path(sys.argv[2]).read_bytes())
"""


def append_forever(path: Path, batch: bytes) -> None:
    """Append until the process is killed; print a line after the first hundred batches."""
    store = _store(path)
    topic = store.create_topic("orders", _QUEUES)
    number = 0
    while True:
        store.append(bytearray(batch), topic.topic_id, number % _QUEUES)
        number += 1
        if number == 100:
            sys.stdout.write("under way\n")
            sys.stdout.flush()


def time_to_restart(path: Path, batch: bytes) -> float:
    """Measure the seconds to open a directory after SIGKILL and read its last message."""
    chunk = path.with_name("chunk")
    chunk.write_bytes(batch)
    command = [sys.executable, "-c", _APPEND_UNTIL_KILLED, str(path), str(chunk)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:  # noqa: S603
        try:
            if child.stdout is None or not child.stdout.readline():
                raise RuntimeError("the writer exited unexpectedly")
            time.sleep(3)
        finally:
            child.send_signal(signal.SIGKILL)
    begin = time.perf_counter()
    store = _store(path)
    topic = store.state.topic("orders")
    if topic is None:
        raise RuntimeError("the topic is missing")
    key = QueueKey(topic.topic_id, 0)
    last = store.read_queue(key, store.state.end_offsets[key] - 1, 1)
    spent = time.perf_counter() - begin
    store.close()
    if not last:
        raise RuntimeError("the last message is missing")
    return spent


class Width:
    """Many queues, in another process: a message to each, checkpoint, restart, read from all."""

    def __init__(self, path: Path, queues: int) -> None:
        self._path = path
        self._queues = queues
        self._runs = 0
        self._found: dict[str, float] = {}

    def checkpoint(self) -> float:
        self._runs += 1
        command = [sys.executable, "-c", _WIDTH, str(self._path.with_name(f"width-{self._runs}")), str(self._queues)]
        self._found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603
        return self._found["checkpoint_s"]

    @property
    def memory(self) -> float:
        return self._found["resident_mb"]

    @property
    def files(self) -> float:
        return self._found["open_files"]


_WIDTH: Final = """
import json, sys
from pathlib import Path
from litemq.bench.workloads.store_at_scale import run_width
print(json.dumps(run_width(Path(sys.argv[1]), int(sys.argv[2]))))
"""


def run_width(path: Path, queues: int) -> dict[str, float]:
    """Return the seconds of the slowest checkpoint, and the peaks of memory and open files."""
    template = {
        topic: RecordTemplate(f"topic-{topic}").encode(b"x" * 100, message_id="m")
        for topic in range(-(-queues // _QUEUES_A_TOPIC))
    }
    checkpoints, files = [], []

    def checkpoint(store: DiskStore) -> None:
        begin = time.perf_counter()
        store.checkpoint()
        checkpoints.append(time.perf_counter() - begin)
        files.append(len(list(Path("/proc/self/fd").iterdir())))

    store = _store(path)
    ids = [store.create_topic(f"topic-{topic}", _QUEUES_A_TOPIC).topic_id for topic in template]
    for _ in range(2):
        for queue in range(queues):
            topic = queue // _QUEUES_A_TOPIC
            end = store.append(bytearray(template[topic]), ids[topic], queue % _QUEUES_A_TOPIC).end
        store.wait_confirmed(end)
        checkpoint(store)
    store.close()
    again = _store(path)
    for queue in range(queues):
        data = again.read_queue(QueueKey(ids[queue // _QUEUES_A_TOPIC], queue % _QUEUES_A_TOPIC), 0, 10)
        if len(data) != 2 * len(template[0]):
            raise RuntimeError(f"queue {queue} has {len(data)} bytes")
    checkpoint(again)
    again.close()
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"checkpoint_s": max(checkpoints), "resident_mb": int(peak.split()[1]) / 1024, "open_files": max(files)}
