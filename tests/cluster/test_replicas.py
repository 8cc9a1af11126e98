"""A replicated group of real processes: a killed master is replaced, and nothing acked is lost."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from litemq import AsyncClient
from litemq.errors import LiteMQError
from litemq.proto.wire_pb2 import ReplicaGroup
from support.on_loop import on_loop
from support.processes import ServerProcess
from support.replica_views import master_of, wait_master
from support.waiting import eventually


class _Group:
    """A NameServer and three replicas."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.nameserver = ServerProcess(
            "nameserver", folder / "nameserver.log", data_path=folder / "nameserver", master_lease="1s"
        )
        stack.enter_context(self.nameserver)
        self.replicas = {
            name: ServerProcess(
                "broker",
                folder / f"{name}.log",
                broker_id=name,
                broker_name="orders",
                nameserver=self.nameserver.address,
                data_path=folder / name,
                file_size="8MB",
                replicas=3,
                experimental=True,
            )
            for name in ("a", "b", "c")
        }
        for replica in self.replicas.values():
            stack.callback(replica.kill)
            replica.start()
        self.view = ReplicaGroup()

    async def wait_master(self, epoch: int, members: int = 3) -> ServerProcess:
        """Wait for the master of ``epoch`` or later, and for the size of the in-sync set."""
        self.view = await wait_master(self.nameserver.port, epoch, members)
        return self.replicas[master_of(self.view)]


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
        group = _Group(tmp_path, stack)
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
