"""Topic settings of real replicas: messages acked with ``replica_ack = memory`` survive the kill of
their master, and a topic may need more replicas than its group.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from litemq import AsyncClient
from litemq.errors import InvalidArgumentError, NotEnoughReplicasError, UnsupportedFeatureError
from support.on_loop import on_loop
from support.processes import ServerProcess
from support.replica_processes import ReplicaProcesses
from support.waiting import eventually

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
async def test_a_topic_that_needs_three_replicas_refuses_sends_with_two(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        master = await group.wait_master(1)
        url = f"litemq://{group.nameserver.address}"
        impatient = AsyncClient(url, request_timeout_ms=5_000, delivery_timeout_ms=5_000)
        async with AsyncClient(url) as mq, impatient:
            with pytest.raises(InvalidArgumentError, match="the group has 3 replicas"):
                await mq.admin.create_topic("payments", min_in_sync=4)
            made = await mq.admin.create_topic("payments", queues=1, min_in_sync=3)
            assert made.settings.min_in_sync == 3
            await mq.send("payments", b"1", durability="replicas")
            gone = next(name for name, replica in group.replicas.items() if replica is not master)
            group.replicas[gone].kill()
            await group.wait_master(1, members=2)
            with pytest.raises(NotEnoughReplicasError, match=f"topic 'payments' is 3; not in sync: {gone}. Sta"):
                await impatient.send("payments", b"2", durability="replicas")
            await mq.send("payments", b"2", durability="disk")
            altered = await mq.admin.alter_topic("payments", min_in_sync=0)
            assert altered.settings.min_in_sync == 0
            await mq.send("payments", b"3", durability="replicas")
            lost = next(name for name, each in group.replicas.items() if each is not master and each.is_running)
            group.replicas[lost].kill()
            leader = next(name for name, each in group.replicas.items() if each is master)
            await eventually(lambda: f"; {lost} has been missing since " in group.log_of(leader))
            assert f" UTC; also not in sync: {gone}. Start the missing replicas" in group.log_of(leader)


@on_loop
async def test_a_broker_without_replicas_refuses_the_setting(tmp_path: Path) -> None:
    with (
        ServerProcess("nameserver", tmp_path / "n.log", data_path=tmp_path / "n") as names,
        ServerProcess("broker", tmp_path / "b.log", nameserver=names.address, data_path=tmp_path / "b"),
    ):
        async with AsyncClient(f"litemq://{names.address}") as mq:
            with pytest.raises(UnsupportedFeatureError, match="replica_ack 'memory' is not supported"):
                await mq.admin.create_topic("orders", replica_ack="memory")
            with pytest.raises(UnsupportedFeatureError, match="min_in_sync 2 is not supported"):
                await mq.admin.create_topic("orders", min_in_sync=2)
            await mq.admin.create_topic("orders")
            with pytest.raises(UnsupportedFeatureError):
                await mq.admin.alter_topic("orders", replica_ack="memory")
            await mq.admin.alter_topic("orders", replica_ack="disk")
