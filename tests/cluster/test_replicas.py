"""A replicated group of real processes: a killed master is replaced, and nothing acked is lost."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from litemq import AsyncClient
from litemq.errors import LiteMQError
from support.on_loop import on_loop
from support.replica_processes import ReplicaProcesses
from support.waiting import eventually


async def _more(acked: list[bytes]) -> None:
    """Wait until more messages are acked."""
    enough = len(acked) + 50
    await eventually(lambda: len(acked) >= enough)


async def _bodies(mq: AsyncClient, expected: int) -> list[bytes]:
    """Read all messages of the topic, without a group."""
    found: list[bytes] = []
    async with mq.reader("orders", start="earliest") as reader:
        async for message in reader:
            found.append(bytes(message.body))
            if len(found) >= expected:
                return found
    return found


@on_loop
async def test_a_killed_master_is_replaced_and_follows_when_it_is_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        master = await group.wait_master(1)
        async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
            await mq.admin.create_topic("orders", queues=1)
            acked: list[bytes] = []
            is_over = asyncio.Event()

            async def send() -> None:
                number = 0
                while not is_over.is_set():
                    body = b"%d" % number
                    number += 1
                    try:
                        await mq.send("orders", body)
                    except LiteMQError:
                        continue
                    acked.append(body)

            sending = asyncio.create_task(send())
            for _ in range(2):
                await _more(acked)
                epoch = group.view.epoch
                master.kill()
                killed = master
                master = await group.wait_master(epoch + 1, members=2)
                assert master is not killed
                await _more(acked)
                killed.start()
                master = await group.wait_master(epoch + 1)  # it is in sync again
            is_over.set()
            await sending
            found = await _bodies(mq, len(acked))
            assert len(found) == len(set(found))
            assert set(acked) <= set(found)
        for replica in group.replicas.values():
            assert replica.stop() == 0
