"""Kill a writer repeatedly: ``python tests/crash/kill_rounds.py DIR --rounds 200``.

In each round a child opens the store, appends, and reports acknowledged records, until it is killed
at a random moment. Then every acknowledged record must be there, intact, in order and without a
gap, and the projections must equal projections rebuilt from the log.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np

from litemq.clock import SystemClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.types import Record

CONFIG = StoreConfig(
    segment_bytes=262_144,
    max_record_bytes=8192,
    index_slots=100,
    index_entries=500,
    checkpoint_interval_ms=20,
    disk_clean_percent=100,  # the machine's disk may be nearly full
    disk_refuse_percent=100,
)
QUEUES = 3
ACK = struct.Struct(">IQ")  # queue, offset


def _open(directory: Path) -> DiskStore:
    return DiskStore(directory, CONFIG, SystemClock(), host="test")


def write_until_killed(directory: Path, pipe: int, seed: int) -> None:
    """Append batches in the child, and report each record once it is durable."""
    randomness = random.Random(seed)
    store = _open(directory)
    topic = store.create_topic("orders", QUEUES)
    number = 0
    while True:
        count = randomness.choice([1, 1, 2, 5, 40])
        queues = np.array([randomness.randrange(QUEUES) for _ in range(count)])
        bodies = [struct.pack(">IQ", seed, number + n) + bytes(randomness.randrange(900)) for n in range(count)]
        batch = bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies))
        appended = store.append(batch, topic.topic_id, queues)
        if number % 7 == 0:
            key = QueueKey(topic.topic_id, 0)
            store.commit_offsets("billing", [(key, store.state.end_offsets.get(key, 0))])
        store.wait_confirmed(appended.end)
        os.write(
            pipe,
            b"".join(ACK.pack(q, o) for q, o in zip(queues.tolist(), appended.queue_offsets.tolist(), strict=True)),
        )
        number += count
        if randomness.random() < 0.1:
            store.checkpoint()
        if randomness.random() < 0.03:
            store.snapshot()


def run_round(directory: Path, seed: int) -> dict[int, int]:
    """Run and kill one writer; return the highest acknowledged offset of each queue."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            write_until_killed(directory, writer, seed)
        finally:
            os._exit(1)
    os.close(writer)
    randomness = random.Random(seed)
    received = os.read(reader, ACK.size)  # the child is appending
    assert received, "the writer died by itself"
    time.sleep(randomness.random() * 0.04)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while chunk := os.read(reader, 1 << 16):
        received += chunk
    os.close(reader)
    highest: dict[int, int] = {}
    for queue, offset in ACK.iter_unpack(received[: len(received) // ACK.size * ACK.size]):
        highest[queue] = max(offset, highest.get(queue, -1))
    return highest


def contents(store: DiskStore) -> dict[int, list[bytes]]:
    """Return the verified records of every queue."""
    found: dict[int, list[bytes]] = {}
    topic = store.state.topic("orders")
    assert topic is not None
    for queue in range(QUEUES):
        records = found.setdefault(queue, [])
        while data := store.read_queue(QueueKey(topic.topic_id, queue), len(records), 1000):
            at = 0
            while at < len(data):
                stored = decode_record(data, at)
                assert stored.stamp is not None
                assert stored.stamp.queue_offset == len(records), "a gap in a queue"
                records.append(bytes(data[at : at + stored.size]))
                at += stored.size
    return found


def check(directory: Path, highest: dict[int, int], before: dict[int, list[bytes]]) -> dict[int, list[bytes]]:
    store = _open(directory)
    found = contents(store)
    rows = [row.SerializeToString(deterministic=True) for row in store.state.rows()]
    store.abandon()
    for queue, offset in highest.items():
        assert len(found[queue]) > offset, f"queue {queue} lost what was acknowledged at {offset}"
    for queue, records in before.items():
        assert found[queue][: len(records)] == records, f"queue {queue} changed what was read before"
    copy = directory.with_name("copy")
    shutil.copytree(
        directory, copy, ignore=shutil.ignore_patterns("checkpoint", "consumequeue", "index", "state.db*", "lock")
    )
    rebuilt = _open(copy)
    assert contents(rebuilt) == found, "the queues are not what the log says"
    assert [row.SerializeToString(deterministic=True) for row in rebuilt.state.rows()] == rows, (
        "the state is not what the log says"
    )
    rebuilt.abandon()
    shutil.rmtree(copy)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    found: dict[int, list[bytes]] = {}
    for number in range(arguments.rounds):
        if number % 20 == 0:  # start over, so that a round stays short
            shutil.rmtree(arguments.directory / "store", ignore_errors=True)
            found = {}
        highest = run_round(arguments.directory / "store", arguments.seed + number)
        try:
            found = check(arguments.directory / "store", highest, found)
        except BaseException:
            sys.stderr.write(f"round {number}, seed {arguments.seed + number}\n")
            raise
    acknowledged = sum(map(len, found.values()))
    sys.stdout.write(f"{arguments.rounds} rounds, {acknowledged} records in the last store, nothing lost\n")


if __name__ == "__main__":
    main()
