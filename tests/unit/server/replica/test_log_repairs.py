"""The repair of a replica's log in the background: it searches, and repairs once it can."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from litemq.broker.replication.stretches import StretchRequests
from litemq.clock import SystemClock
from litemq.errors import CorruptStoreError, OffsetOutOfRangeError
from litemq.format.record_encode import encode_record
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import ReplicaFacts, ReplicaGroup
from litemq.server.broker_config import BrokerConfig
from litemq.server.broker_setup import store_config
from litemq.server.replica import log_repairs
from litemq.server.replica.directory import ReplicaDirectory
from litemq.server.replica.group_link import GroupLink
from litemq.server.replica.log_repairs import LogRepairs
from litemq.storage.files.disk import DISK
from litemq.storage.log.segment import segment_path
from litemq.storage.replica_store import ReplicaStore
from litemq.types import Record
from support.damage import BadSector, damage_log, log_bytes, record_starts
from support.on_loop import on_loop
from support.replicas import confirm_all, open_replica, ship
from support.waiting import eventually

MESSAGES = 50


def _config(folder: Path) -> BrokerConfig:
    return BrokerConfig(
        broker_id="b",
        broker_name="orders",
        data_path=str(folder),
        file_size=8 << 20,
        replicas=2,
        experimental=True,
        nameservers=("127.0.0.1:1",),
    )


class _Pair:
    """An intact store, which may be served, and the closed directory of a follower of it."""

    def __init__(self, folder: Path, epoch: int = 1) -> None:
        self.folder = folder / "b"
        config = _config(self.folder)
        self.master = open_replica(folder / "a", store_config(config), SystemClock())
        self.master.begin_writing(epoch)
        topic = self.master.create_topic("orders", 1)
        for number in range(MESSAGES):
            record = Record("orders", b"%d" % number * 50, f"m-{number}")
            self.master.append(bytearray(encode_record(record)), topic.topic_id, 0)
        confirm_all(self.master)
        follower = open_replica(self.folder, store_config(config), SystemClock())
        ship(self.master, follower, 1 << 20)
        confirm_all(follower)
        follower.close()
        self.starts = record_starts(self.master)
        self.intact = log_bytes(self.folder)
        self.directory = ReplicaDirectory(config, SystemClock(), DISK, lambda _reason: None)
        self.link = SimpleNamespace(view=ReplicaGroup())
        link = cast("GroupLink", self.link)
        self.repairs = LogRepairs(self.directory, link, group="orders", broker_id="b")

    def know(self, port: int, store_id: bytes = b"", *, alive: bool = True) -> None:
        """Let the NameServer name a replica."""
        facts = ReplicaFacts(
            store_id=store_id or self.master.store_id, broker_id="a", host="127.0.0.1", port=port, alive=alive
        )
        self.link.view.replicas.append(facts)


@asynccontextmanager
async def _serving(store: ReplicaStore) -> AsyncIterator[int]:
    requests = StretchRequests("orders", store)

    def handle(session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            requests.handler.call(session, frame)

    server = FrameServer(handle, software="test")
    _, port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        requests.close()
        await server.close()


@asynccontextmanager
async def _running(pair: _Pair) -> AsyncIterator[asyncio.Task[None]]:
    await pair.directory.open()
    task = asyncio.create_task(pair.repairs.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, CorruptStoreError):
            await task
        await pair.directory.close()
        pair.master.abandon()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_repairs, "_PAUSE_S", 0.01)
    monkeypatch.setattr(log_repairs, "_MAX_PAUSE_S", 0.02)


@on_loop
async def test_damage_that_nobody_reads_is_found_and_repaired(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    damage_log(pair.folder, pair.starts[9] + 100)
    async with _serving(pair.master) as port:
        pair.know(port)
        async with _running(pair):
            store = pair.directory.store
            assert store is not None
            await eventually(lambda: log_bytes(pair.folder) == pair.intact)
            await eventually(lambda: not store.damage)


@on_loop
async def test_a_sector_that_the_disk_cannot_read_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pair = _Pair(tmp_path)
    sector = BadSector(segment_path(pair.folder / "commitlog", 0), pair.starts[9])
    async with _serving(pair.master) as port:
        async with _running(pair) as task:
            sector.install(monkeypatch)
            await eventually(lambda: pair.repairs.damaged_stretches == 1)
            assert "cannot read a part of this file" in caplog.text
            pair.know(port)
            await eventually(lambda: not sector.is_bad)
            await eventually(lambda: pair.repairs.damaged_stretches == 0)
            assert not task.done()
        assert log_bytes(pair.folder) == pair.intact


@pytest.mark.parametrize("error", [OSError("no descriptors"), OffsetOutOfRangeError("retention dropped it")])
@on_loop
async def test_a_search_or_repair_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    pair = _Pair(tmp_path)
    damage_log(pair.folder, pair.starts[9] + 100)
    failures = {"search_damage": 2, "damaged_stretches": 2}

    def fail_first(name: str) -> None:
        call = getattr(ReplicaStore, name)

        def failing(store: ReplicaStore, *args: int) -> object:
            if failures[name]:
                failures[name] -= 1
                raise error
            return call(store, *args)

        monkeypatch.setattr(ReplicaStore, name, failing)

    for name in failures:
        fail_first(name)
    async with _serving(pair.master) as port, _running(pair):
        pair.know(port)
        await eventually(lambda: log_bytes(pair.folder) == pair.intact)
    assert not any(failures.values())


@on_loop
async def test_a_repair_waits_for_another_replica(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "litemq.server.replica.log_repairs")
    pair = _Pair(tmp_path)
    damage_log(pair.folder, pair.starts[9] + 100)
    async with _serving(pair.master) as port, _running(pair):
        await eventually(lambda: pair.repairs.damaged_stretches == 1)
        await eventually(lambda: "no other replica is alive" in caplog.text)
        pair.know(port, b"x" * 16)  # another replica has its address now
        await eventually(lambda: "another replica was asked" in caplog.text)
        assert log_bytes(pair.folder) != pair.intact
        assert caplog.text.count("no other replica is alive") == 1
        pair.know(port)
        await eventually(lambda: log_bytes(pair.folder) == pair.intact)
        await eventually(lambda: pair.repairs.damaged_stretches == 0)


@on_loop
async def test_bytes_that_do_not_fit_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A replica that answers with other bytes is asked again, and so are the others."""
    pair = _Pair(tmp_path)
    damage_log(pair.folder, pair.starts[9] + 100)
    other = _Pair(tmp_path / "other", epoch=7)
    async with _serving(other.master) as wrong, _serving(pair.master) as right:
        pair.know(wrong, other.master.store_id)
        async with _running(pair):
            await eventually(lambda: "not repaired, retrying: a: " in caplog.text)
            assert log_bytes(pair.folder) != pair.intact
            pair.know(right)
            await eventually(lambda: log_bytes(pair.folder) == pair.intact)
    other.master.abandon()


def _lose_state(pair: _Pair) -> None:
    for path in pair.folder.glob("state.db*"):
        path.unlink()


@on_loop
async def test_a_directory_that_cannot_open_opens_after_its_repair(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    _lose_state(pair)
    for number in (9, 20):
        damage_log(pair.folder, pair.starts[number] + 100)
    async with _running(pair):
        directory = pair.directory
        assert (directory.cannot_open, directory.store) == (True, None)
        assert directory.store_id
        await eventually(lambda: pair.repairs.damaged_stretches == 2)
        begin, end = pair.starts[5:7]
        assert directory.read_stretch(begin, end) == pair.master.read_stretch(begin, end)
        with pytest.raises(CorruptStoreError):
            directory.read_stretch(*pair.starts[9:11])
        async with _serving(pair.master) as port:
            pair.know(port)
            await eventually(lambda: directory.store is not None)
        assert not directory.cannot_open
        assert log_bytes(pair.folder) == pair.intact


@on_loop
async def test_a_directory_that_does_not_open_for_another_reason_is_refused(tmp_path: Path) -> None:
    pair = _Pair(tmp_path)
    (pair.folder / "store_id").write_bytes(b"damaged")
    with pytest.raises(CorruptStoreError):
        await pair.directory.open()
    pair.master.abandon()
