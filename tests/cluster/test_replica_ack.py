"""``replica_ack = memory`` with real replicas: acked messages survive the kill of their master."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from litemq import AsyncClient
from litemq.errors import UnsupportedFeatureError
from support.on_loop import on_loop
from support.processes import ServerProcess
from support.replica_processes import ReplicaProcesses

MESSAGES = 300


@on_loop
async def test_acked_messages_survive_the_kill_of_the_master(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        master = await group.wait_master(1)
        async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
            made = await mq.admin.create_topic("orders", queues=1, replica_ack="memory")
            assert made.settings.replica_ack == "memory"
            bodies = [b"%d" % number for number in range(MESSAGES)]
            for body in bodies:
                await mq.send("orders", body, durability="replicas")
            master.kill()
            await group.wait_master(2, members=2)
            async with mq.reader("orders", start="earliest") as reader:
                assert [bytes((await anext(reader)).body) for _ in bodies] == bodies
            assert (await mq.admin.describe_topic("orders")).settings.replica_ack == "memory"
            altered = await mq.admin.alter_topic("orders", replica_ack="disk")
            assert altered.settings.replica_ack == "disk"


@on_loop
async def test_a_broker_without_replicas_refuses_the_setting(tmp_path: Path) -> None:
    with (
        ServerProcess("nameserver", tmp_path / "n.log", data_path=tmp_path / "n") as names,
        ServerProcess("broker", tmp_path / "b.log", nameserver=names.address, data_path=tmp_path / "b"),
    ):
        async with AsyncClient(f"litemq://{names.address}") as mq:
            with pytest.raises(UnsupportedFeatureError, match="replica_ack 'memory' is not supported"):
                await mq.admin.create_topic("orders", replica_ack="memory")
            await mq.admin.create_topic("orders")
            with pytest.raises(UnsupportedFeatureError):
                await mq.admin.alter_topic("orders", replica_ack="memory")
            await mq.admin.alter_topic("orders", replica_ack="disk")
