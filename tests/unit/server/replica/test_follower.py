"""The role of a follower: what it says while it cannot follow."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from litemq.clock import SystemClock
from litemq.errors import DiskFullError
from litemq.net.client import Peer
from litemq.server.broker_config import BrokerConfig
from litemq.server.replica import follower
from litemq.server.replica.directory import ReplicaDirectory
from litemq.server.replica.follower import FollowerRole
from litemq.server.replica.follower_reads import FollowerReads
from litemq.storage.files.disk import DISK
from support.on_loop import on_loop
from support.waiting import eventually


def _role(folder: Path) -> FollowerRole:
    config = BrokerConfig(
        data_path=str(folder), broker_name="orders", replicas=2, nameservers=("127.0.0.1:1",), experimental=True
    )
    clock = SystemClock()
    directory = ReplicaDirectory(config, clock, DISK, lambda _reason: None)
    directory.cannot_open = True  # it connects, and has nothing to follow with
    return FollowerRole(
        directory, FollowerReads(directory, config, clock), ("127.0.0.1", 1), group="orders", broker_id="b"
    )


@on_loop
async def test_a_master_that_stays_away_becomes_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower, "_MAX_PAUSE_S", 0.0)
    monkeypatch.setattr(follower, "_FIRST_PAUSE_S", 0.0)
    caplog.set_level(logging.INFO, "litemq.server.replica.follower")
    role = _role(tmp_path)
    running = asyncio.create_task(role.run())  # nobody listens at port 1
    await eventually(lambda: role.problem)
    assert role.problem.startswith("it does not follow the master: ")
    running.cancel()
    await asyncio.wait([running])
    assert [each.levelno for each in caplog.records] == [logging.INFO, logging.WARNING]


@on_loop
async def test_a_full_disk_is_a_problem_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_args: object, **_options: object) -> Peer:
        raise DiskFullError("no space left for 8 bytes of log")

    monkeypatch.setattr(Peer, "connect", fail)
    role = _role(tmp_path)
    running = asyncio.create_task(role.run())
    await eventually(lambda: role.problem)
    assert role.problem == "it does not follow the master: no space left for 8 bytes of log: free disk space"
    assert role.lacks_space
    running.cancel()
    await asyncio.wait([running])
