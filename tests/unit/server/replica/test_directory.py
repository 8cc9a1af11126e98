"""The directory of a replica whose copy of its master's log is stopped, or fails."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.clock import SystemClock
from litemq.errors import CorruptStoreError, DiskFullError, LiteMQError, NotMasterError, StorageError
from litemq.format.record_encode import encode_record
from litemq.proto.wire_pb2 import ReplicaGroup
from litemq.server.broker_config import BrokerConfig
from litemq.server.broker_setup import store_config
from litemq.server.replica import directory as directory_module
from litemq.server.replica.directory import ReplicaDirectory
from litemq.server.replica.follower import FollowerRole
from litemq.server.replica.follower_reads import FollowerReads
from litemq.server.replica.replica import _Replica
from litemq.storage import log_copy
from litemq.storage.files.disk import DISK
from litemq.storage.log_copy import LogCopy
from litemq.storage.projections.replay import read_snapshot
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.on_loop import on_loop
from support.replica_group import GROUP, Master, serving
from support.replicas import confirm_all, open_replica, ship
from support.waiting import HANG_S, eventually

LEFT = NotMasterError("another replica was elected")


def _config(folder: Path) -> BrokerConfig:
    return BrokerConfig(
        broker_id="b",
        broker_name=GROUP,
        data_path=str(folder),
        file_size=8 << 20,
        replicas=2,
        experimental=True,
        nameservers=("127.0.0.1:1",),
    )


def _send(store: ReplicaStore, body: bytes) -> None:
    topic = store.create_topic("orders", 1)
    store.append(bytearray(encode_record(Record("orders", body))), topic.topic_id, 0)


@asynccontextmanager
async def _must_copy(tmp_path: Path) -> AsyncIterator[tuple[Master, ReplicaDirectory]]:
    """A master, and the open directory of a replica with confirmed records that it lacks."""
    config = _config(tmp_path / "b")
    a, b = (open_replica(tmp_path / name, store_config(config), SystemClock()) for name in ("a", "b"))
    b.begin_writing(1)
    _send(b, b"one")
    ship(b, a, 1 << 20)
    _send(b, b"lost")
    for store in (a, b):
        confirm_all(store)
    b.close()
    directory = ReplicaDirectory(config, SystemClock(), DISK, lambda _reason: None)
    await directory.open()
    try:
        async with serving(a, min_in_sync=1, epoch=2, unclean=True) as master:
            _send(a, b"two")
            a.snapshot()
            await eventually(lambda: a.confirm_offset == a.log_end)  # a copy ends where nothing more is confirmed
            yield master, directory
    finally:
        await directory.close()
        a.abandon()


@asynccontextmanager
async def _following(master: Master, directory: ReplicaDirectory) -> AsyncIterator[asyncio.Task[None]]:
    reads = cast("FollowerReads", SimpleNamespace(paused=nullcontext))
    role = FollowerRole(directory, reads, ("127.0.0.1", master.port), group=GROUP, broker_id="b")
    task = asyncio.create_task(role.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LiteMQError):
            await task


async def _has_copied(master: Master, directory: ReplicaDirectory) -> None:
    async with _following(master, directory):
        await eventually(lambda: directory.store is not None and directory.store.log_end == master.store.log_end)
        assert directory.store is not None
        assert directory.store.last_epoch == 2


class _Blocked:
    """A function that waits until it is released."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.is_called = threading.Event()
        self.released = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.is_called.set()
        assert self.released.wait(HANG_S)
        return self._call(*args, **kwargs)


@pytest.mark.parametrize("where", ["close_store", "LogCopy"])
@on_loop
async def test_a_copy_whose_beginning_is_cancelled_begins_in_the_next_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    async with _must_copy(tmp_path) as (master, directory):
        blocked = _Blocked(getattr(directory_module, where))
        monkeypatch.setattr(directory_module, where, blocked)
        async with _following(master, directory) as task:
            await eventually(blocked.is_called.is_set)
            task.cancel()
            blocked.released.set()
        assert directory.store is None
        assert directory.is_closed == (where == "close_store")
        await _has_copied(master, directory)


@on_loop
async def test_a_copy_that_does_not_begin_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([DiskFullError("no space for the records to keep")])

    def begin(*args: Any, **kwargs: Any) -> LogCopy:
        for failure in failures:
            raise failure
        return LogCopy(*args, **kwargs)

    monkeypatch.setattr(directory_module, "LogCopy", begin)
    async with _must_copy(tmp_path) as (master, directory):
        await _has_copied(master, directory)
    assert next(failures, None) is None


@on_loop
async def test_a_copy_with_an_invalid_snapshot_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([CorruptStoreError("the log", 0, "an invalid snapshot")])

    def read(*args: Any) -> Any:
        for failure in failures:
            raise failure
        return read_snapshot(*args)

    monkeypatch.setattr(log_copy, "read_snapshot", read)
    async with _must_copy(tmp_path) as (master, directory):
        await _has_copied(master, directory)
    assert next(failures, None) is None


@on_loop
async def test_a_replica_without_a_master_opens_a_directory_that_a_copy_has_closed(tmp_path: Path) -> None:
    """Its log counts in the next election."""
    replica = _Replica(_config(tmp_path), BrokerClock(SystemClock()), lambda _epoch: None, DISK)
    await replica.directory.open()
    await replica.directory.close()
    replica._link._on_view(replica._link._lines[0], ReplicaGroup(epoch=1))
    roles = asyncio.create_task(replica._take_roles())
    try:
        await eventually(lambda: replica.directory.store is not None)
    finally:
        roles.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await roles
        await replica.directory.close()


@on_loop
async def test_a_copy_of_another_replicas_directory_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    config = _config(tmp_path / "b")
    directory = ReplicaDirectory(config, BrokerClock(SystemClock()), DISK, lambda _reason: None)
    await directory.open()
    await directory.close()
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "c").rglob("*")}
    copied = replace(config, broker_id="c", data_path=str(tmp_path / "c"))
    with pytest.raises(StorageError, match="the directory of replica b, or a copy of it, but this is replica c"):
        await ReplicaDirectory(copied, BrokerClock(SystemClock()), DISK, lambda _reason: None).open()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "c").rglob("*")} == before
