"""Replacements of a host in a simulation: clocks, randomness, locks of files."""

from __future__ import annotations

import gc
import os
import random
import secrets
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import litemq.client.cluster.engine  # noqa: F401  loaded before its clocks are replaced
from litemq.clock import SystemClock
from litemq.nameserver.cluster_store import embedded_groups
from litemq.nameserver.cluster_store.group_file import GroupFile
from litemq.server.broker_config import BrokerConfig
from litemq.server.heap import trim_heap
from litemq.server.replica import directory
from litemq.storage import maintenance
from litemq.storage.config import StoreConfig
from litemq.storage.files.lock import DirectoryLock
from support.schedules.primitives import scheduled_modules
from support.sim.process import PROCESS
from support.sim.scheduler import SimulationScheduler
from support.sim.watched_store import CHECKED_READS, WatchedCopy, WatchedStore

__all__ = ["SEGMENT_BYTES", "simulated_environment"]

SEGMENT_BYTES = 69_632
_RETENTION_INTERVAL_S = 1


class _NoLock:
    """The lock of a directory, which a killed process would lose."""

    def __init__(self, _directory: Path) -> None:
        pass

    def release(self) -> None:
        pass


def _store_config(config: BrokerConfig) -> StoreConfig:
    """Return the settings of a small store."""
    return StoreConfig(
        segment_bytes=config.file_size,
        max_record_bytes=config.max_record_bytes,
        index_slots=50,
        index_entries=400,
        max_log_bytes=config.max_log_bytes,
    )


class _WatchedGroupFile(GroupFile):
    """A file of group facts that is unlocked when its process is killed."""

    def _take_lock(self) -> int:
        lock = super()._take_lock()
        process = PROCESS.get()
        if process is not None:
            process.on_end.append(partial(os.close, lock))
        return lock


def _connect(path: str | Path, **options: Any) -> sqlite3.Connection:
    """Connect to a database that no thread owns, and that closes with its process."""
    connection: sqlite3.Connection = sqlite3.connect(path, **(options | {"check_same_thread": False}))
    process = PROCESS.get()
    if process is not None:
        process.on_end.append(connection.close)
    return connection


def _times(scheduler: SimulationScheduler) -> dict[str, Any]:
    """Return the functions of ``time`` in virtual time."""
    return {
        "time_ns": lambda: 1_700_000_000_000_000_000 + scheduler.now_ns,
        "time": lambda: 1_700_000_000 + scheduler.now_ns / 1e9,
        "monotonic": lambda: scheduler.now_ns / 1e9,
        "perf_counter": lambda: scheduler.now_ns / 1e9,
    }


def _secrets(chosen: random.Random) -> dict[str, Any]:
    return {
        "token_hex": lambda count: chosen.randbytes(count).hex(),
        "token_bytes": chosen.randbytes,
        "randbits": chosen.getrandbits,
    }


@contextmanager
def simulated_environment(scheduler: SimulationScheduler, seed: int) -> Iterator[None]:
    """Let the modules of LiteMQ use virtual time, and randomness that ``seed`` decides."""
    chosen = random.Random(seed)
    times = _times(scheduler)
    replaced: list[tuple[object, object]] = [
        (time, SimpleNamespace(**vars(time) | times)),
        (time.monotonic, times["monotonic"]),
        (time.perf_counter, times["perf_counter"]),
        (secrets, SimpleNamespace(**vars(secrets) | _secrets(chosen))),
        (uuid, SimpleNamespace(uuid4=lambda: uuid.UUID(bytes=chosen.randbytes(16)))),
        (sqlite3, SimpleNamespace(**vars(sqlite3) | {"connect": _connect})),
        (DirectoryLock, _NoLock),
        (trim_heap, lambda: None),
    ]
    by_identity = {id(original): replacement for original, replacement in replaced}
    undo: list[tuple[object, str, object]] = []

    def replace(owner: object, name: str, replacement: object) -> None:
        undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, replacement)

    def elapsed_ns(_clock: SystemClock) -> int:
        process = PROCESS.get()
        return scheduler.now_ns if process is None else process.host.elapsed_ns(scheduler.now_ns)

    def wall_ms(_clock: SystemClock) -> int:
        process = PROCESS.get()
        return times["time_ns"]() // 1_000_000 if process is None else process.host.wall_ms(scheduler.now_ns)

    modules: list[Any] = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "litemq"]
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in by_identity:
                replace(module, name, by_identity[id(value)])
    replace(SystemClock, "elapsed_ns", elapsed_ns)
    replace(SystemClock, "wall_ms", wall_ms)
    replace(directory, "store_config", _store_config)
    replace(directory, "ReplicaStore", WatchedStore)
    replace(directory, "LogCopy", WatchedCopy)
    replace(maintenance, "_RETENTION_INTERVAL_S", _RETENTION_INTERVAL_S)
    for view, read, checked in CHECKED_READS:
        replace(view, read, checked)
    replace(embedded_groups, "GroupFile", _WatchedGroupFile)
    before = random.getstate()
    random.seed(seed)
    is_collecting = gc.isenabled()
    gc.disable()  # a collection closes files at moments that no seed decides
    try:
        with scheduled_modules(scheduler):
            yield
    finally:
        random.setstate(before)
        for owner, name, original in reversed(undo):
            setattr(owner, name, original)
        if is_collecting:
            gc.enable()
